"""Allocation and reuse of memory for large arrays; knows nothing of datasets."""
