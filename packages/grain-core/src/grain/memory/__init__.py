"""Allocation and reuse of memory for large arrays. A leaf package: it imports no dataset code."""
