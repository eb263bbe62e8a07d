"""Fixtures shared by the tests of this package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from grain_parquet import files

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def group_reads(monkeypatch) -> list[list[int]]:
    """The row groups of each read, in order."""
    reads = []
    read_groups = files.read_groups

    def read(file, path, numbers, **options):
        reads.append(list(numbers))
        return read_groups(file, path, numbers, **options)

    monkeypatch.setattr(files, "read_groups", read)
    return reads
