"""Conformance cases of this package, run by `grain conformance parquet`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from grain.plugins import Capability
from grain.testing import Case, CaseKind
from grain_parquet.parquet_iter_dataset import ParquetIterDataset
from grain_parquet.source import ParquetDataSource

_ROWS = 19
_CUT = 8


def cases() -> list[Case]:
    """Return the cases: files of several row groups, by paths, a pattern and URIs."""
    return [
        Case(
            name="rows",
            spec="parquet",
            prepare=write,
            make=by_paths,
            make_larger=larger,
            ways={Capability.GLOBS: by_pattern, Capability.REMOTE_PATHS: by_uri},
            length=_ROWS,
        ),
        Case(
            name="rows with nulls, text and lists",
            spec="parquet",
            prepare=write,
            make=mixed,
            make_larger=larger_mixed,
            # The columns of this case do not stack.
            capabilities=frozenset(
                {Capability.BATCHED_READ, Capability.THREAD_SAFE, Capability.CLOSABLE}
            ),
            length=_ROWS,
        ),
        Case(
            name="rows in order",
            spec="parquet-iter",
            kind=CaseKind.ITER_SOURCE,
            prepare=write,
            make=in_order,
            make_larger=larger_in_order,
            ways={Capability.GLOBS: in_order_by_pattern, Capability.REMOTE_PATHS: in_order_by_uri},
            length=_CUT,
        ),
        Case(
            name="two files interleaved",
            spec="parquet-iter",
            kind=CaseKind.ITER_SOURCE,
            prepare=write,
            make=interleaved,
            make_larger=larger_interleaved,
            capabilities=frozenset(),
            length=_ROWS,
        ),
    ]


def write(directory: str) -> None:
    """Write two files with row groups of three rows."""
    table = pa.table(
        {
            "number": np.arange(_ROWS),
            "score": np.linspace(0, 1, _ROWS).astype(np.float32),
            "pair": [[row, row + 1] for row in range(_ROWS)],
            "text": ["ä" * (row % 4) for row in range(_ROWS)],
            "ragged": [list(range(row % 3)) for row in range(_ROWS)],
            "gap": [None if row % 3 else row for row in range(_ROWS)],
        }
    )
    for path, rows in zip(_paths(directory), (table[:_CUT], table[_CUT:]), strict=True):
        pq.write_table(rows, path, row_group_size=3)
    os.makedirs(os.path.join(directory, "larger"))
    for path in _larger(directory):
        pq.write_table(pa.concat_tables([table] * 20), path, row_group_size=60)


def _paths(directory: str) -> list[str]:
    return [os.path.join(directory, name) for name in ("a.parquet", "b.parquet")]


def _larger(directory: str) -> list[str]:
    return _paths(os.path.join(directory, "larger"))


def _stackable(paths: Any) -> ParquetDataSource:
    return ParquetDataSource(paths, columns=["number", "score", "pair"])


def by_paths(directory: str) -> ParquetDataSource:
    """Open the files by paths, with columns that stack."""
    return _stackable(_paths(directory))


def by_pattern(directory: str) -> ParquetDataSource:
    """Open the files by a pattern."""
    return _stackable(os.path.join(directory, "*.parquet"))


def by_uri(directory: str) -> ParquetDataSource:
    """Open the files by URIs of fsspec's local file system."""
    return _stackable([f"file://{path}" for path in _paths(directory)])


def mixed(directory: str) -> ParquetDataSource:
    """Open the files with all columns."""
    return ParquetDataSource(_paths(directory))


def larger(directory: str) -> ParquetDataSource:
    """Open longer files, to check that pickles do not grow with the data."""
    return _stackable(_larger(directory))


def larger_mixed(directory: str) -> ParquetDataSource:
    """Open longer files with all columns."""
    return ParquetDataSource(_larger(directory))


def larger_in_order(directory: str) -> ParquetIterDataset:
    """Open one longer file."""
    return ParquetIterDataset(_larger(directory)[0])


def larger_interleaved(directory: str) -> ParquetIterDataset:
    """Open two longer files."""
    return ParquetIterDataset(_larger(directory))


def in_order(directory: str) -> ParquetIterDataset:
    """Open one file."""
    return ParquetIterDataset(_paths(directory)[0])


def in_order_by_pattern(directory: str) -> ParquetIterDataset:
    """Open one file by a pattern."""
    return ParquetIterDataset(os.path.join(directory, "a*.parquet"))


def in_order_by_uri(directory: str) -> ParquetIterDataset:
    """Open one file by a URI."""
    return ParquetIterDataset(f"file://{_paths(directory)[0]}")


def interleaved(directory: str) -> ParquetIterDataset:
    """Open two files."""
    return ParquetIterDataset(_paths(directory))
