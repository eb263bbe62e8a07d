"""The data source over columns, and the rule for which objects are columns."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, SupportsIndex

import numpy as np

from grain.columnar.column import as_positions
from grain.columnar.conversion import is_frame, is_instance_of, to_columns


class ColumnarDataSource:
    """The rows of equally long columns, read without a copy of the columns.

    Columns are given as a dictionary (rows are dictionaries; values may be dictionaries again), a tuple
    or named tuple (rows are tuples), a numpy structured array, a data frame of pandas or polars, or a
    table of pyarrow. A column is an array, a list, or a series of these libraries, none of which is
    imported. `MapDataset.source` makes this source of dictionaries and data frames by itself.

    A row of an array is a numpy value; text, bytes and items of lists are Python objects; a list of
    numbers in a data frame is an array. A missing value is None, or nan and NaT where the column is
    an array of floats and dates.

    Batches are read column by column. Worker processes share the memory of arrays, text and columns of
    pyarrow; items of other lists are copied to each.

    Example:
        >>> source = ColumnarDataSource({"x": np.zeros((3, 2)), "label": np.arange(3)})
        >>> len(source), source[2]
        (3, {'x': array([0., 0.]), 'label': np.int64(2)})
        >>> ColumnarDataSource((np.arange(3), ["a", "b", "c"]))[1]
        (np.int64(1), 'b')
    """

    holds_records_in_memory = True
    """Looking at a record costs nothing, as for a list."""

    def __init__(self, columns: Any) -> None:
        self._columns = to_columns(columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __getitem__(self, index: SupportsIndex) -> Any:
        position = operator.index(index)
        if not 0 <= position < len(self):
            raise IndexError(f"Index {position} is out of range for {len(self)} rows.")
        return self._columns.read_one(position)

    def __getitems__(self, indices: Any) -> list[Any]:
        """Return the rows at `indices`, in that order."""
        return self._columns.read_many(as_positions(indices, len(self)))

    def __getcolumns__(self, indices: Any) -> Any:
        """Return the rows at `indices`, stacked."""
        return self._columns.read_stacked(as_positions(indices, len(self)))

    def written_form(self) -> str:
        """Return a short text for pipelines, which show the types of elements beside it."""
        return self._columns.written_form()

    def __repr__(self) -> str:
        return f"ColumnarDataSource({self._columns!r})"


def as_source(source: Any) -> Any:
    """Return columns as a `ColumnarDataSource`, and any other object as it is.

    Columns are a dictionary with names as keys, and a data frame. A dictionary with integers as keys is
    read by index, and so are lists, tuples and arrays. An object that could be either raises an error.

    >>> as_source({"x": np.arange(2)})
    ColumnarDataSource({'x': int64[2]})
    >>> as_source(["a", "b"])
    ['a', 'b']
    """
    if type(source) is list:  # The most frequent kind.
        return source
    if isinstance(source, Mapping):
        return ColumnarDataSource(source) if source and _has_names(source) else source
    if is_frame(source):
        return ColumnarDataSource(source)
    if isinstance(source, tuple) and _looks_like_columns(source):
        shapes = ", ".join(str(column.shape) for column in source)
        raise TypeError(
            f"The source is a tuple of {len(source)} arrays of one length, with shapes {shapes}: "
            f"columns, or {len(source)} records? For tuples of their rows pass "
            "`grain.sources.ColumnarDataSource(arrays)`, or a dictionary of names and arrays; for "
            "records pass a list of the arrays."
        )
    if is_instance_of(source, "pandas", "Series") and not _counts_rows(source.index):
        raise TypeError(
            "The source is a Series of pandas whose index is not 0, 1, 2, and so on, and a "
            "Series is read by the labels of its index. Pass `series.to_numpy()` to read it by "
            "position."
        )
    return source


def _has_names(source: Mapping[Any, Any]) -> bool:
    return all(isinstance(name, str) for name in source)


def _looks_like_columns(source: tuple[Any, ...]) -> bool:
    """Return whether items are arrays of one length that cannot be records of one batch."""
    if len(source) < 2 or not all(isinstance(item, np.ndarray) and item.ndim for item in source):
        return False
    kinds = {(item.shape, item.dtype) for item in source}
    return len({len(item) for item in source}) == 1 and len(kinds) > 1


def _counts_rows(index: Any) -> bool:
    return bool(np.array_equal(np.asarray(index), np.arange(len(index))))
