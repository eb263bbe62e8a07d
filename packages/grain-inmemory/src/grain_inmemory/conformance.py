"""Conformance cases of this package, run by `grain conformance inmemory`."""

from __future__ import annotations

from typing import Any

import numpy as np

from grain.plugins import Capability
from grain.testing import Case
from grain_inmemory.source import SharedMemoryDataSource


def cases() -> list[Case]:
    """Return the cases, one for each layout: arrays, dicts of arrays, and objects."""
    return [
        Case(
            name="rows of an array",
            spec="inmemory",
            make=rows,
            make_larger=more_rows,
            elements=list(_ARRAY),
        ),
        Case(
            name="columns",
            spec="inmemory",
            make=columns,
            make_larger=longer_columns,
            elements=_records(),
        ),
        Case(
            name="records",
            spec="inmemory",
            make=records,
            make_larger=more_records,
            elements=_records(),
            # Objects do not stack.
            capabilities=frozenset(
                {Capability.BATCHED_READ, Capability.THREAD_SAFE, Capability.CLOSABLE}
            ),
        ),
    ]


_ARRAY = np.arange(60, dtype=np.float32).reshape(20, 3)


def _columns(count: int = 11) -> dict[str, Any]:
    pairs = np.arange(2.0 * count).reshape(count, 2)
    return {"label": np.arange(count, dtype=np.int16), "pair": pairs}


def _records() -> list[Any]:
    columns = _columns()
    return [{name: column[row] for name, column in columns.items()} for row in range(11)]


def rows() -> SharedMemoryDataSource:
    """Store the rows of an array."""
    return SharedMemoryDataSource(_ARRAY)


def more_rows() -> SharedMemoryDataSource:
    """Store the rows of a larger array, to check that pickles do not grow with the data."""
    return SharedMemoryDataSource(np.tile(_ARRAY, (20, 1)))


def longer_columns() -> SharedMemoryDataSource:
    """Store longer columns."""
    return SharedMemoryDataSource(_columns(220))


def more_records() -> SharedMemoryDataSource:
    """Store more dicts."""
    return SharedMemoryDataSource(_records() * 20)


def columns() -> SharedMemoryDataSource:
    """Store a dict of columns."""
    return SharedMemoryDataSource(_columns())


def records() -> SharedMemoryDataSource:
    """Store a list of dicts."""
    return SharedMemoryDataSource(_records())
