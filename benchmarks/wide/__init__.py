"""The wide table: some 180 small programs over the whole API, run by this project and by google/grain."""
