"""Decoded columns of one or several row groups, from which rows are selected.

A value with a numpy type (number, boolean, date) is a numpy scalar, a list of such values is an array,
text and bytes are Python's, and other values are Python objects. A null is None. Selected values are
copies, so that a row never keeps its row group in memory.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from grain_parquet.errors import conversion_error

# Fewer values than this are faster to convert one by one than by arrow's `take`.
_MIN_TAKE = 12


class Column(Protocol):
    """The values of one column."""

    nbytes: int

    def read_one(self, row: int) -> Any:
        """Return the value of one row."""

    def read_many(self, rows: np.ndarray) -> list[Any]:
        """Return the values of rows in the order given."""
        ...

    def stack(self, rows: np.ndarray) -> np.ndarray | list[str] | list[bytes] | None:
        """Return the values of rows stacked: an array, or texts that the caller joins into one.

        Return None where values do not stack, or only into an array of objects.
        """


def decode(column: pa.ChunkedArray, origin: str) -> Column:
    """Convert a column of a file to a form from which rows are selected.

    Args:
        column: The column, of one or several row groups.
        origin: Column and file, for errors.
    """
    values = _contiguous(column)
    kind = values.type
    if not isinstance(values, pa.Array):
        return _Objects(values, origin)
    if _has_numpy_type(kind):
        return _numbers(values)
    if pt.is_fixed_size_list(kind) and _has_numpy_type(kind.value_type):
        return _fixed_lists(values, origin)
    if (pt.is_list(kind) or pt.is_large_list(kind)) and _has_numpy_type(kind.value_type):
        return _lists(values, origin)
    return _Objects(values, origin)


def _contiguous(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column = pa.chunked_array(
            [chunk.storage for chunk in column.chunks], type=kind.storage_type
        )
        kind = column.type
    if pt.is_dictionary(kind) and _has_numpy_type(kind.value_type):
        column = column.cast(kind.value_type)
    column = replace_views(column)
    # More than 2 GB of text remain chunked.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def replace_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without string and binary views, which many of arrow's functions lack."""
    kind = _without_views(column.type)
    return column if kind == column.type else column.cast(kind)


def _without_views(kind: pa.DataType) -> pa.DataType:
    if not hasattr(pt, "is_string_view"):  # an older version of arrow
        return kind
    if pt.is_string_view(kind):
        return pa.large_string()
    if pt.is_binary_view(kind):
        return pa.large_binary()
    if pt.is_map(kind):
        return pa.map_(_without_views(kind.key_type), _without_views(kind.item_type))
    if not kind.num_fields:
        return kind
    fields = [kind.field(number) for number in range(kind.num_fields)]
    fields = [field.with_type(_without_views(field.type)) for field in fields]
    if pt.is_struct(kind):
        return pa.struct(fields)
    if pt.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    if pt.is_large_list(kind):
        return pa.large_list(fields[0])
    return pa.list_(fields[0]) if pt.is_list(kind) else kind


def _has_numpy_type(kind: pa.DataType) -> bool:
    return bool(
        pt.is_integer(kind)
        or pt.is_floating(kind)
        or pt.is_boolean(kind)
        or pt.is_date(kind)
        or pt.is_timestamp(kind)
        or pt.is_duration(kind)
    )


class _Numbers:
    """Values with a numpy type, or fixed-size lists of them as a 2-d array."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values
        self.nbytes = values.nbytes

    def read_one(self, row: int) -> Any:
        value = self._values[row]
        return value.copy() if isinstance(value, np.ndarray) else value

    def read_many(self, rows: np.ndarray) -> list[Any]:
        return list(self._values[rows])

    def stack(self, rows: np.ndarray) -> np.ndarray | None:
        picked: np.ndarray = self._values[rows]
        return picked


class _Nullable:
    """Another column, with a mask of nulls."""

    def __init__(self, values: Column, present: np.ndarray) -> None:
        self._values = values
        self._present = present
        self.nbytes = values.nbytes + present.nbytes

    def read_one(self, row: int) -> Any:
        return self._values.read_one(row) if self._present[row] else None

    def read_many(self, rows: np.ndarray) -> list[Any]:
        present = self._present[rows].tolist()
        picked = zip(self._values.read_many(rows), present, strict=True)
        return [value if valid else None for value, valid in picked]

    def stack(self, rows: np.ndarray) -> Any:
        return self._values.stack(rows) if self._present[rows].all() else None


class _Lists:
    """Lists of numbers, concatenated in one array."""

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        self._values = values
        self._offsets = offsets
        self.nbytes = values.nbytes + offsets.nbytes

    def read_one(self, row: int) -> np.ndarray:
        return self._values[self._offsets[row] : self._offsets[row + 1]].copy()

    def read_many(self, rows: np.ndarray) -> list[Any]:
        values = self._values
        begins, ends = self._offsets[rows].tolist(), self._offsets[rows + 1].tolist()
        return [values[a:b].copy() for a, b in zip(begins, ends, strict=True)]

    def stack(self, rows: np.ndarray) -> np.ndarray | None:
        begins = self._offsets[rows]
        lengths = self._offsets[rows + 1] - begins
        length = int(lengths[0]) if len(lengths) else 0
        if (lengths != length).any():
            return None
        picked: np.ndarray = self._values[begins[:, None] + np.arange(length)]
        return picked


class _Objects:
    """Text, bytes and all other Python objects, converted when selected."""

    def __init__(self, values: pa.Array | pa.ChunkedArray, origin: str) -> None:
        self._values = values
        self._origin = origin
        kind = values.type.value_type if pt.is_dictionary(values.type) else values.type
        self._stacks = bool(
            pt.is_string(kind)
            or pt.is_large_string(kind)
            or pt.is_binary(kind)
            or pt.is_large_binary(kind)
        )
        self.nbytes = values.nbytes

    def read_one(self, row: int) -> Any:
        try:
            return self._values[row].as_py()
        except (UnicodeDecodeError, pa.ArrowException) as error:
            raise conversion_error(self._origin, error) from error

    def read_many(self, rows: np.ndarray) -> list[Any]:
        values = self._values
        try:
            if len(rows) < _MIN_TAKE:
                return [values[row].as_py() for row in rows.tolist()]
            picked: list[Any] = values.take(pa.array(rows)).to_pylist()
        except (UnicodeDecodeError, pa.ArrowException) as error:
            raise conversion_error(self._origin, error) from error
        return picked

    def stack(self, rows: np.ndarray) -> list[str] | list[bytes] | None:
        if not self._stacks:
            return None
        picked = self.read_many(rows)
        return None if None in picked else picked


def _present(values: pa.Array) -> np.ndarray:
    present: np.ndarray = values.is_valid().to_numpy(zero_copy_only=False)
    return present


def _to_numpy(values: pa.Array) -> np.ndarray:
    """Return numbers as an array, with an arbitrary value for nulls."""
    if values.null_count and not pt.is_temporal(values.type):
        # Otherwise integers with nulls become floats.
        values = pc.fill_null(values, pa.scalar(0).cast(values.type))
    out: np.ndarray = values.to_numpy(zero_copy_only=False)
    return out


def _numbers(values: pa.Array) -> Column:
    column = _Numbers(_to_numpy(values))
    return _Nullable(column, _present(values)) if values.null_count else column


def _fixed_lists(values: pa.Array, origin: str) -> Column:
    width = values.type.list_size
    # Includes the items of null lists, which `flatten` skips.
    items = values.values.slice(values.offset * width, len(values) * width)
    if items.null_count and (not values.null_count or values.flatten().null_count):
        return _Objects(values, origin)
    column = _Numbers(_to_numpy(items).reshape(len(values), width))
    return _Nullable(column, _present(values)) if values.null_count else column


def _lists(values: pa.Array, origin: str) -> Column:
    if values.flatten().null_count:
        return _Objects(values, origin)
    offsets: np.ndarray = values.offsets.to_numpy().astype(np.int64)
    column = _Lists(_to_numpy(values.values), offsets)
    return _Nullable(column, _present(values)) if values.null_count else column
