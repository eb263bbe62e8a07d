"""The checks, a file for each area; `grain.testing.registry` lists them all."""
