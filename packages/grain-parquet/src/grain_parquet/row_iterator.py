"""Going through one Parquet file, row group by row group, with the position as state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from grain.dataset.base import ChunkIterator
from grain.dataset.chunk import END, Chunk
from grain_parquet import files
from grain_parquet.errors import ParquetFileError
from grain_parquet.rows import Row, make_rows

# Decoding few columns in threads costs more than it brings.
_COLUMNS_FOR_THREADS = 5


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
                f"{path} has two columns {twice!r}: a row can hold one. Write it again with other"
                " names, or leave it out."
            )
        # The position is behind the last row given; a row group is left only for a row of the next.
        self._group = 0
        self._row = 0
        self._decoded_group = -1
        self._columns: list[GroupColumn] = []

    def advance(self, limit: int) -> tuple[list[GroupColumn], int, int]:
        """Goes on by up to `limit` rows of one row group: its columns, and from where to where.

        Gives no columns at the end of the file.
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
        return Chunk(rows, lambda place: _state(group, begin + place + 1))

    def _decode(self, group: int) -> None:
        if self._decoded_group == group:
            return
        self._columns = []
        table = files.read_groups(
            self._file, self._path, [group], use_threads=len(self.names) >= _COLUMNS_FOR_THREADS
        )
        self._columns = [GroupColumn(column) for column in table.columns]
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
            there = f"of {groups[group]} rows" if 0 <= group < len(groups) else "that is not there"
            raise ParquetFileError(
                f"The state points at row {row} of row group {group} of {self._path}, {there}: the "
                f"file has {len(groups)} row groups. It has changed since the checkpoint was "
                "taken; restore with the file as it was, or start anew."
            )
        self._group, self._row = group, row

    def close(self) -> None:
        """Closes the file."""
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
    """A column of a row group, from which stretches of values are taken."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        if pt.is_dictionary(column.type):
            # As numpy makes it, a null would be some entry of the dictionary.
            column = column.cast(column.type.value_type)
        kind = column.type
        # Whether a value is a float, or an object, depends on the nulls of its whole row group;
        # text and bytes are what they are, and become Python objects only as they are needed.
        text = (
            pt.is_string(kind)
            or pt.is_large_string(kind)
            or pt.is_binary(kind)
            or pt.is_large_binary(kind)
        )
        self.is_text = bool(text)
        self._text: pa.ChunkedArray | None = column if text else None
        self._array: np.ndarray | None = None if text else column.to_numpy()

    def values(self, begin: int, end: int) -> list[Any]:
        """The values of some rows."""
        if self._text is not None:
            texts: list[Any] = self._text.slice(begin, end - begin).to_numpy().tolist()
            return texts
        assert self._array is not None
        return list(self._array[begin:end])

    def numbers(self, begin: int, end: int) -> np.ndarray | None:
        """The values of some rows as an array to copy from, where they are numbers."""
        if self._array is None or self._array.dtype.hasobject:
            return None
        return self._array[begin:end]
