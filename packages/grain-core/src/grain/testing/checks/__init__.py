"""The checks, one module per area; `grain.testing.registry` lists them all."""
