"""The checks, a file for each area; `grain.testing.catalogue` lists them all."""
