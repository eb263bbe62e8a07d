"""Writer of elements of any source to a Parquet file, as used by `grain convert`.

A dict is a row and its keys are columns; any other element is a row with the single column `value`. An
array becomes a list column of its type, nested for several dimensions. Row groups are small enough for
random access.
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
    """Write elements to a file and return their number.

    Args:
        path: The file to create or replace, atomically.
        elements: The elements; dicts become rows.
        row_group_size: Rows in a group, or fewer if rows are large. Groups are read as a whole.
        compression: "zstd", "snappy", "gzip", "brotli", "lz4" or "none".
    """
    if row_group_size < 1:
        raise ValueError(f"row_group_size must be at least 1, got {row_group_size}.")
    path = os.fspath(path)
    temporary = f"{path}.{uuid.uuid4().hex}.part"
    try:
        with _GrowingFile(temporary, compression) as file:
            for rows in _groups(elements, row_group_size):
                file.add(rows)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:
            error.add_note(f"raised while writing {path}; no partial file is left.")
        raise
    return file.rows


def _groups(elements: Iterable[Any], most: int) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size = 0
    for number, element in enumerate(elements):
        row = element if isinstance(element, dict) else {ONLY_COLUMN: element}
        if not all(isinstance(name, str) for name in row):
            raise TypeError(
                f"Element {number} has the keys {list(row)!r}; column names must be text."
            )
        rows.append(row)
        size += nbytes(row)
        if len(rows) == most or size >= _GROUP_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


class _GrowingFile:
    """A Parquet file with the columns seen so far, rewritten when an element adds or widens one.

    The types are final only after the last element: the first thousand elements may have no value
    where a later one has text, or integers where it has a fraction.
    """

    def __init__(self, path: str, compression: str) -> None:
        self._path = path
        self._compression = compression
        self._schema: pa.Schema | None = None
        self._writer: pq.ParquetWriter | None = None
        self.rows = 0

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Write rows as one group."""
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
                    self._rewrite(schema)
                table = _with_schema(table, schema)
            except pa.ArrowException as error:
                raise ValueError(
                    f"Elements {self.rows} to {last} do not have the types of the elements before them:"
                    f" {error}. A column of a Parquet file has one type: leave the column out, or"
                    " convert its values to one type first."
                ) from error
        assert self._writer is not None
        self._writer.write_table(table, row_group_size=len(rows))
        self.rows += len(rows)

    def _open(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(
            self._path, schema, compression=self._compression, write_page_checksum=True
        )

    def _rewrite(self, schema: pa.Schema) -> None:
        """Rewrite the file with another schema, group by group."""
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
            # The file is incomplete, and closing it may fail for the reason that writing did.
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
                " convert its values to one type first."
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
        raise ValueError(
            "some values are arrays and others are not, or numbers of dimensions differ"
        )
    return _nested_lists(values, first.ndim)


def _is_number(value: Any, first: Any) -> bool:
    """Return whether a value is a numpy number or date of the same type as the first."""
    return (
        isinstance(value, np.generic)
        and value.dtype.kind in "biufmM"
        and value.dtype == getattr(first, "dtype", None)
    )


def _numbers(values: list[Any], present: list[np.generic]) -> pa.Array:
    """Return numpy scalars of one type as a column; None is null."""
    valid = np.array([value is not None for value in values])
    numbers = np.zeros(len(values), present[0].dtype)
    numbers[valid] = present
    return pa.array(numbers, mask=~valid)


def _nested_lists(values: list[Any], ndim: int) -> pa.Array:
    """Return arrays of `ndim` dimensions, whose shapes may differ, as a column; None is null."""
    shapes = [(0,) * ndim if value is None else value.shape for value in values]
    flat = np.concatenate([value.ravel() for value in values if value is not None])
    column = pa.array(flat.tolist() if flat.dtype.kind in "SU" else flat)
    for axis in reversed(range(ndim)):
        # One list for each index of the dimensions before this one.
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
    """Return a value with lists in place of tuples and of nested arrays, for arrow."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value[()] if value.ndim == 0 else value if value.ndim == 1 else value.tolist()
    return value
