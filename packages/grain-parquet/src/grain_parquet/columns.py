"""Decoded columns of one row group or some, from which rows are picked.

A value is what numpy makes of it where numpy has a type for it (a number, a boolean, a date; a
list of numbers is an array), text and bytes are Python's, and everything else is Python objects.
A null is None. What is picked is a copy, so that keeping a row never keeps a row group.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

# Fewer values than this are faster one by one than in a call of arrow's.
_FEW = 12


class Column(Protocol):
    """The values of one column."""

    nbytes: int

    def one(self, row: int) -> Any:
        """The value in one row."""

    def many(self, rows: np.ndarray) -> list[Any]:
        """The values in many rows, in the order asked for."""
        ...

    def stacked(self, rows: np.ndarray) -> np.ndarray | list[str] | list[bytes] | None:
        """What stacking the values of many rows gives: an array, or texts still to be put in one.

        None where they do not stack, or only into an array of objects.
        """


def decode(column: pa.ChunkedArray) -> Column:
    """A column as it comes from a file, made ready for picking rows."""
    values = _in_one_piece(column)
    kind = values.type
    if not isinstance(values, pa.Array):
        return _Objects(values)
    if _has_numpy_type(kind):
        return _numbers(values)
    if pt.is_fixed_size_list(kind) and _has_numpy_type(kind.value_type):
        return _fixed_lists(values)
    if (pt.is_list(kind) or pt.is_large_list(kind)) and _has_numpy_type(kind.value_type):
        return _lists(values)
    return _Objects(values)


def _in_one_piece(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column = pa.chunked_array(
            [chunk.storage for chunk in column.chunks], type=kind.storage_type
        )
        kind = column.type
    if pt.is_dictionary(kind) and _has_numpy_type(kind.value_type):
        column = column.cast(kind.value_type)
    if _is_view(kind):
        # Which arrow can hold, but not pick from.
        column = column.cast(pa.large_string() if pt.is_string_view(kind) else pa.large_binary())
    # More than 2 GB of text stay in several pieces.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_view(kind: pa.DataType) -> bool:
    # Older versions of arrow have no such types.
    return bool(
        hasattr(pt, "is_string_view") and (pt.is_string_view(kind) or pt.is_binary_view(kind))
    )


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
    """Values with a numpy type of their own; also fixed-size lists of them, as a 2-d array."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values
        self.nbytes = values.nbytes

    def one(self, row: int) -> Any:
        value = self._values[row]
        return value.copy() if isinstance(value, np.ndarray) else value

    def many(self, rows: np.ndarray) -> list[Any]:
        return list(self._values[rows])

    def stacked(self, rows: np.ndarray) -> np.ndarray | None:
        picked: np.ndarray = self._values[rows]
        return picked


class _Nullable:
    """Any of the others, where some values are null."""

    def __init__(self, values: Column, present: np.ndarray) -> None:
        self._values = values
        self._present = present
        self.nbytes = values.nbytes + present.nbytes

    def one(self, row: int) -> Any:
        return self._values.one(row) if self._present[row] else None

    def many(self, rows: np.ndarray) -> list[Any]:
        present = self._present[rows].tolist()
        picked = zip(self._values.many(rows), present, strict=True)
        return [value if there else None for value, there in picked]

    def stacked(self, rows: np.ndarray) -> Any:
        return self._values.stacked(rows) if self._present[rows].all() else None


class _Lists:
    """Lists of numbers, one after the other in one array."""

    def __init__(self, values: np.ndarray, offsets: np.ndarray) -> None:
        self._values = values
        self._offsets = offsets
        self.nbytes = values.nbytes + offsets.nbytes

    def one(self, row: int) -> np.ndarray:
        return self._values[self._offsets[row] : self._offsets[row + 1]].copy()

    def many(self, rows: np.ndarray) -> list[Any]:
        values = self._values
        begins, ends = self._offsets[rows].tolist(), self._offsets[rows + 1].tolist()
        return [values[a:b].copy() for a, b in zip(begins, ends, strict=True)]

    def stacked(self, rows: np.ndarray) -> np.ndarray | None:
        begins = self._offsets[rows]
        lengths = self._offsets[rows + 1] - begins
        length = int(lengths[0]) if len(lengths) else 0
        if (lengths != length).any():
            return None
        picked: np.ndarray = self._values[begins[:, None] + np.arange(length)]
        return picked


class _Objects:
    """Text, bytes, and whatever else becomes Python objects, decoded when picked."""

    def __init__(self, values: pa.Array | pa.ChunkedArray) -> None:
        self._values = values
        kind = values.type.value_type if pt.is_dictionary(values.type) else values.type
        self._stacks = bool(
            pt.is_string(kind)
            or pt.is_large_string(kind)
            or pt.is_binary(kind)
            or pt.is_large_binary(kind)
        )
        self.nbytes = values.nbytes

    def one(self, row: int) -> Any:
        return self._values[row].as_py()

    def many(self, rows: np.ndarray) -> list[Any]:
        values = self._values
        if len(rows) < _FEW:
            return [values[row].as_py() for row in rows.tolist()]
        picked: list[Any] = values.take(pa.array(rows)).to_pylist()
        return picked

    def stacked(self, rows: np.ndarray) -> list[str] | list[bytes] | None:
        if not self._stacks:
            return None
        picked = self.many(rows)
        return None if None in picked else picked


def _present(values: pa.Array) -> np.ndarray:
    present: np.ndarray = values.is_valid().to_numpy(zero_copy_only=False)
    return present


def _to_numpy(values: pa.Array) -> np.ndarray:
    """Numbers as numpy's, with some value in place of nulls."""
    if values.null_count and not pt.is_temporal(values.type):
        # Left alone, nulls would make integers floats.
        values = pc.fill_null(values, pa.scalar(0).cast(values.type))
    out: np.ndarray = values.to_numpy(zero_copy_only=False)
    return out


def _numbers(values: pa.Array) -> Column:
    column = _Numbers(_to_numpy(values))
    return _Nullable(column, _present(values)) if values.null_count else column


def _fixed_lists(values: pa.Array) -> Column:
    width = values.type.list_size
    # Counts the places under null lists, too; `flatten` would leave those out.
    items = values.values.slice(values.offset * width, len(values) * width)
    if items.null_count and (not values.null_count or values.flatten().null_count):
        return _Objects(values)
    column = _Numbers(_to_numpy(items).reshape(len(values), width))
    return _Nullable(column, _present(values)) if values.null_count else column


def _lists(values: pa.Array) -> Column:
    if values.flatten().null_count:
        return _Objects(values)
    offsets: np.ndarray = values.offsets.to_numpy().astype(np.int64)
    column = _Lists(_to_numpy(values.values), offsets)
    return _Nullable(column, _present(values)) if values.null_count else column
