"""Iterator over one Parquet file, row group by row group, with the position as state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from grain.dataset.base import ChunkIterator
from grain.dataset.chunk import END, Chunk
from grain_parquet import files
from grain_parquet.columns import replace_views
from grain_parquet.errors import ParquetFileError, conversion_error
from grain_parquet.rows import Row, make_rows


class RowIterator(ChunkIterator[Row]):
    """The rows of one file."""

    def __init__(
        self, path: str, storage_options: Mapping[str, Any], read_kwargs: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self._path = path
        self._file: pq.ParquetFile | None = files.open_kept(path, storage_options, **read_kwargs)
        metadata = self._file.metadata
        self._rows_of_groups = [
            metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)
        ]
        self.names: list[str] = self._file.schema_arrow.names
        if len(set(self.names)) < len(self.names):
            self._file.close(force=True)
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ParquetFileError(
                f"{path} has two columns named {twice!r}, and a row can hold only one. Write the"
                " file again with other names, or leave it out."
            )
        # The position is after the last row returned; the row group advances only with the next row.
        self._group = 0
        self._row = 0
        self._decoded_group = -1
        self._columns: list[GroupColumn] = []

    def advance(self, limit: int) -> tuple[list[GroupColumn], int, int]:
        """Advance by up to `limit` rows of one row group; return its columns, first and last row.

        Return no columns at the end of the file.
        """
        rows_of_groups = self._rows_of_groups
        group, begin = self._group, self._row
        while group < len(rows_of_groups) and begin >= rows_of_groups[group]:
            group, begin = group + 1, 0
        if group >= len(rows_of_groups):
            return [], 0, 0
        self._decode(group)
        end = min(begin + limit, rows_of_groups[group])
        self._group, self._row = group, end
        return self._columns, begin, end

    def _pull(self, limit: int) -> Chunk:
        columns, begin, end = self.advance(limit)
        if not columns:
            return END
        group = self._group
        rows = make_rows(self.names, [column.values(begin, end) for column in columns])
        return Chunk(rows, lambda offset: _state(group, begin + offset + 1))

    def _decode(self, group: int) -> None:
        if self._decoded_group == group:
            return
        self._columns, self._decoded_group = [], -1
        table = files.read_groups(
            self._file,
            self._path,
            [group],
            use_threads=len(self.names) >= files.MIN_COLUMNS_FOR_THREADS,
        )
        self._columns = [
            GroupColumn(column, f"column {name!r} of {self._path}")
            for name, column in zip(self.names, table.columns, strict=True)
        ]
        self._decoded_group = group

    def _live_state(self) -> dict[str, int]:
        return _state(self._group, self._row)

    def _restore(self, state: Any) -> None:
        try:
            group, row = int(state["row_group"]), int(state["index_within_row_group"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise type(error)(
                f"The state for {self} must be a mapping with 'row_group' and "
                f"'index_within_row_group', as `get_state()` returns it; got {state!r}."
            ) from None
        groups = self._rows_of_groups
        at_start = group == row == 0
        if not at_start and not (0 <= group < len(groups) and 0 <= row <= groups[group]):
            there = (
                f"which has {groups[group]} rows"
                if 0 <= group < len(groups)
                else "which does not exist"
            )
            raise ParquetFileError(
                f"The state points at row {row} of row group {group} of {self._path}, {there}: the "
                f"file has {len(groups)} row groups. It has changed since the checkpoint was "
                "taken; restore with the original file, or start from the beginning."
            )
        self._group, self._row = group, row

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._columns, self._decoded_group = [], -1
        if self._file is not None:
            self._file.close(force=True)
            self._file = None

    def __str__(self) -> str:
        return f"ParquetIterDataset({self._path})"


def _state(group: int, row: int) -> dict[str, int]:
    return {"row_group": group, "index_within_row_group": row}


class GroupColumn:
    """A column of a row group, from which ranges of values are taken."""

    def __init__(self, column: pa.ChunkedArray, origin: str) -> None:
        if pt.is_dictionary(column.type):
            # numpy's form would have an entry of the dictionary for a null.
            column = column.cast(column.type.value_type)
        column = replace_views(column)
        kind = column.type
        text = (
            pt.is_string(kind)
            or pt.is_large_string(kind)
            or pt.is_binary(kind)
            or pt.is_large_binary(kind)
        )
        self.is_text = bool(text)
        self._origin = origin
        # Text is converted to Python objects only where it is read. Other columns are converted as a
        # whole, since the numpy type depends on the nulls of the row group.
        self._text: pa.ChunkedArray | None = column if text else None
        self._array: np.ndarray | None = None
        if not text:
            try:
                self._array = _to_numpy(column)
            except (UnicodeDecodeError, pa.ArrowException) as error:
                raise conversion_error(origin, error) from error

    def values(self, begin: int, end: int) -> list[Any]:
        """Return the values of the rows `begin` to `end`."""
        if self._text is None:
            assert self._array is not None
            return list(self._array[begin:end])
        try:
            texts: list[Any] = self._text.slice(begin, end - begin).to_numpy().tolist()
        except (UnicodeDecodeError, pa.ArrowException) as error:
            raise conversion_error(self._origin, error) from error
        return texts

    def numbers(self, begin: int, end: int) -> np.ndarray | None:
        """Return a view of the rows `begin` to `end`, or None if they are not numbers."""
        if self._array is None or self._array.dtype.hasobject:
            return None
        return self._array[begin:end]


def _to_numpy(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column as an array; integers with nulls, which numpy has not, as objects."""
    values: np.ndarray
    if not _has_null_integers(column):
        values = column.to_numpy()
        return values
    values = np.empty(len(column), object)
    if pt.is_integer(column.type):
        # numpy scalars, as in a row group without nulls.
        values[:] = list(pc.fill_null(column, pa.scalar(0).cast(column.type)).to_numpy())
        values[column.is_null().to_numpy()] = None
    else:
        values[:] = column.to_pylist()
    return values


def _has_null_integers(column: pa.ChunkedArray) -> bool:
    """Return whether a column of integers, or of lists of integers, has nulls among them."""
    kind = column.type
    if pt.is_integer(kind):
        return bool(column.null_count)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return _has_null_integers(pc.list_flatten(column))
    return False
