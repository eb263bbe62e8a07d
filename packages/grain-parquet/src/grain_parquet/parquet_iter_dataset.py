"""The rows of Parquet files in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grain.dataset.base import DatasetIterator, IterDataset
from grain.dataset.node import ExecutionTrait
from grain.experimental import InterleaveIterDataset
from grain_parquet import files
from grain_parquet.batch_iterator import ColumnBatchIterDataset
from grain_parquet.files import Paths
from grain_parquet.row_iterator import RowIterator
from grain_parquet.rows import Row

# How many files are interleaved.
_MAX_CYCLE = 16


class ParquetIterDataset(IterDataset[Row]):
    """The rows of one Parquet file in order, or of several files interleaved, as dicts.

    Args:
        path: A path, a pattern, a URI that fsspec opens, or a sequence of these. Of several files
            up to 16 are interleaved, row by row.
        read_kwargs: Options of `pyarrow.parquet.ParquetFile`; `storage_options` go to fsspec.

    A value is an element of its column's numpy form: a numpy scalar, Python's text or bytes, an array
    for a list. A null is nan among floats, NaT among dates and None elsewhere; integers stay integers,
    and a list of integers with nulls is a Python list.

    Example:
        dataset = ParquetIterDataset("/data/train.parquet").map(tokenize).batch(32)
    """

    def __init__(self, path: Paths, **read_kwargs: Any) -> None:
        super().__init__()
        self._storage_options: Mapping[str, Any] = read_kwargs.pop("storage_options", None) or {}
        self._read_kwargs = read_kwargs
        self._paths = files.expand(path, self._storage_options)
        if not self._paths:
            raise ValueError(f"Expected at least one Parquet file, got {path!r}.")

    execution_trait = ExecutionTrait.SOURCE

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[Row]:
        del parents
        if len(self._paths) == 1:
            return RowIterator(self._paths[0], self._storage_options, self._read_kwargs)
        datasets = [
            ParquetIterDataset(path, storage_options=self._storage_options, **self._read_kwargs)
            for path in self._paths
        ]
        return InterleaveIterDataset(datasets, cycle_length=_MAX_CYCLE).__iter__()

    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[Row]], Any] | None = None,
    ) -> IterDataset[Any]:
        """Stack consecutive rows; rows of one file are stacked directly from its columns."""
        if batch_fn is None and len(self._paths) == 1:
            return ColumnBatchIterDataset(self, batch_size, drop_remainder)
        return super().batch(batch_size, drop_remainder=drop_remainder, batch_fn=batch_fn)

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Keep only a slice of the files; iterators that exist keep theirs.

        For programs of google/grain, which divide files among processes by it. Worker processes do not
        need it here.
        """
        del sequential_slice
        if not isinstance(sl, slice):
            raise TypeError(f"sl must be a slice, got {sl!r} of type {type(sl).__name__}.")
        if not self._paths[sl]:
            raise ValueError(
                f"{sl} selects none of {len(self._paths)} files; a process needs at least one. Write "
                "more files, or start fewer processes."
            )
        self._paths = self._paths[sl]

    def known_length(self) -> int:
        footers = (files.read_footer(path, self._storage_options) for path in self._paths)
        return sum(sum(footer.rows_of_groups) for footer, _ in footers)

    def __str__(self) -> str:
        return f"ParquetIterDataset({self._paths[0]}{', …' if len(self._paths) > 1 else ''})"
