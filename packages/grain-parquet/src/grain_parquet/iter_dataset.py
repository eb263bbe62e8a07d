"""The rows of Parquet files in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grain.dataset.base import DatasetIterator, IterDataset
from grain.experimental import InterleaveIterDataset
from grain_parquet import files
from grain_parquet.batch_iterator import ColumnBatchIterDataset
from grain_parquet.files import Paths
from grain_parquet.row_iterator import RowIterator
from grain_parquet.rows import Row

# How many files are read in turns.
_MAX_CYCLE = 16


class ParquetIterDataset(IterDataset[Row]):
    """The rows of one Parquet file in order, or of several files in turns, as dicts.

    Args:
        path: A path, a pattern, a URI that fsspec opens, or a sequence of these. Of several files
            up to 16 are read in turns, row by row.
        read_kwargs: Options of `pyarrow.parquet.ParquetFile`; `storage_options` go to fsspec.

    A value is what numpy makes of its column in its row group: numpy's scalars, Python's text and
    bytes, arrays for lists; where a row group holds nulls, integers are floats, and a null is nan
    among numbers and None elsewhere.

    Example:
        dataset = ParquetIterDataset("/data/train.parquet").map(tokenize).batch(32)
    """

    def __init__(self, path: Paths, **read_kwargs: Any) -> None:
        super().__init__()
        self._storage_options: Mapping[str, Any] = read_kwargs.pop("storage_options", None) or {}
        self._read_kwargs = read_kwargs
        self._paths = files.expand(path, self._storage_options)
        if not self._paths:
            raise ValueError("Give at least one Parquet file.")

    def __iter__(self) -> DatasetIterator[Row]:
        if len(self._paths) == 1:
            return RowIterator(self._paths[0], self._storage_options, self._read_kwargs)
        each = [
            ParquetIterDataset(path, storage_options=self._storage_options, **self._read_kwargs)
            for path in self._paths
        ]
        return InterleaveIterDataset(each, cycle_length=_MAX_CYCLE).__iter__()

    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[Row]], Any] | None = None,
    ) -> IterDataset[Any]:
        """Stacks consecutive rows; those of one file are taken from its columns as they are."""
        if batch_fn is None and len(self._paths) == 1:
            return ColumnBatchIterDataset(self, batch_size, drop_remainder)
        return super().batch(batch_size, drop_remainder=drop_remainder, batch_fn=batch_fn)

    def known_length(self) -> int:
        footers = (files.read_footer(path, self._storage_options) for path in self._paths)
        return sum(sum(footer.rows_of_groups) for footer in footers)

    def __str__(self) -> str:
        return f"ParquetIterDataset({self._paths[0]}{', …' if len(self._paths) > 1 else ''})"
