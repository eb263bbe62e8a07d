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
        Case(name="rows of an array", spec="inmemory", make=rows, elements=list(_ARRAY)),
        Case(name="columns", spec="inmemory", make=columns, elements=_records()),
        Case(
            name="records",
            spec="inmemory",
            make=records,
            elements=_records(),
            # Objects do not stack.
            capabilities=frozenset(
                {Capability.BATCHED_READ, Capability.THREAD_SAFE, Capability.CLOSABLE}
            ),
        ),
    ]


_ARRAY = np.arange(60, dtype=np.float32).reshape(20, 3)


def _columns() -> dict[str, Any]:
    return {"label": np.arange(11, dtype=np.int16), "pair": np.arange(22.0).reshape(11, 2)}


def _records() -> list[Any]:
    columns = _columns()
    return [{name: column[row] for name, column in columns.items()} for row in range(11)]


def rows() -> SharedMemoryDataSource:
    """Store the rows of an array."""
    return SharedMemoryDataSource(_ARRAY)


def columns() -> SharedMemoryDataSource:
    """Store a dict of columns."""
    return SharedMemoryDataSource(_columns())


def records() -> SharedMemoryDataSource:
    """Store a list of dicts."""
    return SharedMemoryDataSource(_records())
