"""Columns: values by row, read one by one, many at a time, or stacked.

A column of numbers is a numpy array, which worker processes map without a copy. Other values stay in the
container they were given in; a column of text is sent to workers as one array of bytes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from grain import tree
from grain.memory.allocation import allocate

IndexArray = np.ndarray[Any, np.dtype[np.int64]]

# Kinds of arrays for which indexing with many indices equals stacking rows.
_STACKABLE = "?biufcmM"


class RowReader(Protocol):
    """Values by row, of one column or of several."""

    def __len__(self) -> int: ...

    def read_one(self, index: int) -> Any:
        """Return the value of one row, which the caller may change."""

    def read_many(self, indices: IndexArray) -> list[Any]:
        """Return the values of rows, in the order of `indices`."""
        ...

    def read_stacked(self, indices: IndexArray) -> Any:
        """Return what batching the values of rows would return."""

    def __repr__(self) -> str: ...


class ArrayColumn:
    """The rows of an array."""

    def __init__(self, values: np.ndarray[Any, Any]):
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def read_one(self, index: int) -> Any:
        row = self.values[index]
        return row.copy() if isinstance(row, (np.ndarray, np.void)) else row

    def read_many(self, indices: IndexArray) -> list[Any]:
        return list(self.values[indices])

    def read_stacked(self, indices: IndexArray) -> Any:
        values = self.values
        if values.dtype.kind not in _STACKABLE or not values.dtype.isnative:
            return tree.stack(self.read_many(indices))
        rows = allocate((indices.size, *values.shape[1:]), values.dtype)
        # All indices are inside: mode="clip" makes numpy write to `rows` directly, without a buffer.
        return np.take(values, indices, axis=0, out=rows, mode="clip")

    def __repr__(self) -> str:
        return f"{self.values.dtype}[{', '.join(map(str, self.values.shape))}]"


class ObjectColumn:
    """Values of a sequence that is read by position: a list, an array of objects, a series of polars.

    Args:
        values: The sequence.
        as_value: Function that makes a record's value of an item of the sequence; None for the item.
    """

    def __init__(self, values: Any, as_value: Callable[[Any], Any] | None = None):
        self.values = values
        self._as_value = as_value

    def __len__(self) -> int:
        return len(self.values)

    def read_one(self, index: int) -> Any:
        value = self.values[index]
        return value if self._as_value is None else self._as_value(value)

    def read_many(self, indices: IndexArray) -> list[Any]:
        return list(map(self.read_one, indices.tolist()))

    def read_stacked(self, indices: IndexArray) -> Any:
        return tree.stack(self.read_many(indices))

    def __repr__(self) -> str:
        return f"object[{len(self)}]"

    def __reduce__(self) -> Any:
        values = list(self.values)
        if values and all(type(value) is str for value in values):
            return _unpickle_text, _encode(values)
        return ObjectColumn, (self.values, self._as_value)


class TextColumn:
    """Text in one array of bytes, which any number of worker processes map without a copy."""

    def __init__(self, data: np.ndarray[Any, Any], ends: IndexArray):
        self._data = data
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends)

    def read_one(self, index: int) -> str:
        start = self._ends[index - 1] if index else 0
        return str(self._data[start : self._ends[index]].data, "utf-8", "surrogatepass")

    def read_many(self, indices: IndexArray) -> list[Any]:
        return list(map(self.read_one, indices.tolist()))

    def read_stacked(self, indices: IndexArray) -> Any:
        return tree.stack(self.read_many(indices))

    def __repr__(self) -> str:
        return f"object[{len(self)}]"  # As before it was sent to a worker.


def _encode(values: list[str]) -> tuple[np.ndarray[Any, Any], IndexArray]:
    encoded = [value.encode("utf-8", "surrogatepass") for value in values]
    ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
    return np.frombuffer(b"".join(encoded), np.uint8), ends


def _unpickle_text(data: np.ndarray[Any, Any], ends: IndexArray) -> TextColumn:
    return TextColumn(data, ends)


class ArrowColumn:
    """A chunked array of pyarrow that is no array of numbers: text, bytes, lists, missing values.

    It pickles by reference to its memory, so worker processes map it without a copy.

    Args:
        values: The chunked array.
        as_arrays: Whether values are lists of numbers, to be read as arrays.
    """

    def __init__(self, values: Any, as_arrays: bool):
        self._values = values
        self._as_arrays = as_arrays

    def __len__(self) -> int:
        return len(self._values)

    def read_one(self, index: int) -> Any:
        if self._as_arrays:
            return self.read_many(np.array([index]))[0]
        return self._values[index].as_py()

    def read_many(self, indices: IndexArray) -> list[Any]:
        chosen = self._values.take(indices)
        values: list[Any] = chosen.to_pylist() if not self._as_arrays else _arrays_of(chosen)
        return values

    def read_stacked(self, indices: IndexArray) -> Any:
        return tree.stack(self.read_many(indices))

    def __repr__(self) -> str:
        return f"{self._values.type}[{len(self)}]"


def _arrays_of(lists: Any) -> list[Any]:
    """Return lists of numbers as arrays that the caller may change."""
    return [np.array(row) for chunk in lists.chunks for row in chunk.to_numpy(zero_copy_only=False)]


class DictColumns:
    """Columns with names: a row is a dictionary."""

    def __init__(self, columns: Mapping[Any, RowReader]):
        self._columns = dict(columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def read_one(self, index: int) -> dict[Any, Any]:
        return {name: column.read_one(index) for name, column in self._columns.items()}

    def read_many(self, indices: IndexArray) -> list[Any]:
        names = tuple(self._columns)
        columns = [column.read_many(indices) for column in self._columns.values()]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def read_stacked(self, indices: IndexArray) -> dict[Any, Any]:
        return {name: column.read_stacked(indices) for name, column in self._columns.items()}

    def written_form(self) -> str:
        """Return the names, for pipelines."""
        names = [f"{name!r}: ..." for name in self._columns]
        return "{" + ", ".join(names[:6] + ["..."] * (len(names) > 6)) + "}"

    def __repr__(self) -> str:
        return repr(self._columns)


class TupleColumns:
    """Columns by position: a row is a tuple, or a named tuple."""

    def __init__(self, columns: Sequence[RowReader], kind: type[tuple[Any, ...]]):
        self._columns = tuple(columns)
        self._kind = kind

    def __len__(self) -> int:
        return len(self._columns[0])

    def read_one(self, index: int) -> tuple[Any, ...]:
        return self._make(column.read_one(index) for column in self._columns)

    def read_many(self, indices: IndexArray) -> list[Any]:
        columns = [column.read_many(indices) for column in self._columns]
        return list(map(self._make, zip(*columns, strict=True)))

    def read_stacked(self, indices: IndexArray) -> tuple[Any, ...]:
        return self._make(column.read_stacked(indices) for column in self._columns)

    @property
    def _make(self) -> Callable[[Any], tuple[Any, ...]]:
        named: Callable[[Any], tuple[Any, ...]] | None = getattr(self._kind, "_make", None)
        return self._kind if named is None else named

    def written_form(self) -> str:
        """Return the number of columns, for pipelines."""
        return f"ColumnarDataSource(<{self._kind.__name__} of {len(self._columns)} columns>)"

    def __repr__(self) -> str:
        return repr(self._columns)


def as_positions(indices: Any, length: int) -> IndexArray:
    """Return indices of any integer type as an array, or raise an error that shows one outside."""
    positions = np.asarray(indices)
    if positions.dtype.kind not in "iu":
        positions = np.array([operator.index(index) for index in indices], np.int64)
    outside = (positions < 0) | (positions >= length)
    if outside.any():
        raise IndexError(f"Index {positions[outside][0]} is out of range for {length} rows.")
    return positions.astype(np.int64, copy=False)
