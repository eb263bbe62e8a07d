"""Writing elements of any source to a Parquet file, as `grain convert` does.

A dict is a row and its keys are columns; any other element is a row with the one column `value`. An
array becomes a list column of its type, one of more dimensions a column of nested lists. Row groups
are small enough for reading at random.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from grain.tree import nbytes

DEFAULT_ROW_GROUP_SIZE = 2048
ONLY_COLUMN = "value"
_GROUP_BYTES = 64 * 2**20


def write_elements(
    path: str | os.PathLike[str],
    elements: Iterable[Any],
    *,
    row_group_size: int = DEFAULT_ROW_GROUP_SIZE,
    compression: str = "zstd",
) -> int:
    """Writes elements to a file, and returns how many there were.

    Args:
        path: The file to make or replace. It appears whole or not at all.
        elements: The elements; dicts become rows.
        row_group_size: Rows in a group, or fewer where they are large. The unit of reading.
        compression: "zstd", "snappy", "gzip", "brotli", "lz4" or "none".
    """
    if row_group_size < 1:
        raise ValueError(f"row_group_size must be at least 1, got {row_group_size}.")
    path = os.fspath(path)
    unfinished = f"{path}.{uuid.uuid4().hex}.part"
    try:
        with _GrowingFile(unfinished, compression) as file:
            for rows in _groups(elements, row_group_size):
                file.add(rows)
        os.replace(unfinished, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        if isinstance(error, OSError) and error.filename is None:
            error.add_note(f"This was raised while {path} was written; nothing of it is left.")
        raise
    return file.rows


def _groups(elements: Iterable[Any], most: int) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size = 0
    for number, element in enumerate(elements):
        row = element if isinstance(element, dict) else {ONLY_COLUMN: element}
        if not all(isinstance(name, str) for name in row):
            raise TypeError(
                f"Element {number} has the keys {list(row)!r}; names of columns are text."
            )
        rows.append(row)
        size += nbytes(row)
        if len(rows) == most or size >= _GROUP_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


class _GrowingFile:
    """A Parquet file whose columns are those seen so far; when that changes, it is written anew.

    Nobody knows the types of all elements before the last: the first thousand may be without a
    value where a later one has text, or have integers where it has a fraction.
    """

    def __init__(self, path: str, compression: str) -> None:
        self._path = path
        self._compression = compression
        self._schema: pa.Schema | None = None
        self._writer: pq.ParquetWriter | None = None
        self.rows = 0

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Writes rows as one group."""
        last = self.rows + len(rows) - 1
        table = _table(rows, f"elements {self.rows} to {last}")
        if self._schema is None:
            self._open(table.schema)
        else:
            try:
                schema = pa.unify_schemas(
                    [self._schema, table.schema], promote_options="permissive"
                )
                if schema != self._schema:
                    self._begin_again(schema)
                table = _with_schema(table, schema)
            except pa.ArrowException as error:
                raise ValueError(
                    f"Elements {self.rows} to {last} do not have the types of those before them:"
                    f" {error}. A column of a Parquet file has one type: leave the column out, or"
                    " make its values of one type first."
                ) from error
        assert self._writer is not None
        self._writer.write_table(table, row_group_size=len(rows))
        self.rows += len(rows)

    def _open(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(self._path, schema, compression=self._compression)

    def _begin_again(self, schema: pa.Schema) -> None:
        """Rewrites what there is with other columns, group by group."""
        self._close()
        before = f"{self._path}.before"
        os.replace(self._path, before)
        try:
            self._open(schema)
            assert self._writer is not None
            with pq.ParquetFile(before) as file:
                for group in range(file.num_row_groups):
                    table = _with_schema(file.read_row_group(group), schema)
                    self._writer.write_table(table, row_group_size=len(table))
        finally:
            os.unlink(before)

    def _close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def __enter__(self) -> _GrowingFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None:
            # The file is of no use, and closing it may fail for the reason that writing did.
            with contextlib.suppress(Exception):
                self._close()
            return
        if self._schema is None:
            self._open(pa.schema([]))
        self._close()


def _with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _table(rows: Sequence[dict[str, Any]], which: str) -> pa.Table:
    names = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
    columns = {}
    for name in names:
        try:
            columns[name] = _column([row.get(name) for row in rows])
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"Column {name!r} of {which} cannot be written as Parquet: {error}. Leave it out, or"
                " make its values of one type first."
            ) from error
    return pa.table(columns)


def _column(values: list[Any]) -> pa.Array:
    present = [value for value in values if value is not None]
    arrays = [v for v in present if isinstance(v, np.ndarray) and v.ndim]
    if present and all(_is_number(value, present[0]) for value in present):
        return _numbers(values, present)
    if not arrays:
        return pa.array([_plain(value) for value in values])
    first = arrays[0]
    if len(arrays) != len(present) or any(a.ndim != first.ndim for a in arrays):
        raise ValueError("some values are arrays and others are not, or have other dimensions")
    return _nested_lists(values, first.ndim)


def _is_number(value: Any, first: Any) -> bool:
    """Whether a value is a number or date of numpy's, of the type that the first one has."""
    return (
        isinstance(value, np.generic)
        and value.dtype.kind in "biufmM"
        and value.dtype == getattr(first, "dtype", None)
    )


def _numbers(values: list[Any], present: list[np.generic]) -> pa.Array:
    """Numbers of numpy's, all of one type; None is null."""
    there = np.array([value is not None for value in values])
    numbers = np.zeros(len(values), present[0].dtype)
    numbers[there] = present
    return pa.array(numbers, mask=~there)


def _nested_lists(values: list[Any], ndim: int) -> pa.Array:
    """Arrays of so many dimensions, which may differ in shape; None is null."""
    shapes = [(0,) * ndim if value is None else value.shape for value in values]
    flat = np.concatenate([value.ravel() for value in values if value is not None])
    column = pa.array(flat.tolist() if flat.dtype.kind in "SU" else flat)
    for axis in reversed(range(ndim)):
        # One list for each place in the dimensions before this one.
        counts = [int(np.prod(shape[:axis], dtype=np.int64)) for shape in shapes]
        lengths = np.repeat([shape[axis] for shape in shapes], counts)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        if offsets[-1] > np.iinfo(np.int32).max:
            raise ValueError("a row group has too many numbers; set a smaller row_group_size")
        nulls = None
        if axis == 0 and any(value is None for value in values):
            nulls = pa.array([value is None for value in values])
        column = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), column, mask=nulls)
    return column


def _plain(value: Any) -> Any:
    """A value in the terms of arrow: lists in place of tuples and of arrays inside other things."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value[()] if value.ndim == 0 else value if value.ndim == 1 else value.tolist()
    return value
