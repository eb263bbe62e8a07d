"""Tables among elements: columns of equal length, structured arrays, and data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grain.observe.page.preview import safe_repr, shortened, type_name

_MOST_ROWS = 5
_MOST_COLUMNS = 12
_CELL = 40


@dataclass(frozen=True)
class TablePreview:
    """The first rows of a table.

    Attributes:
        kind: The type of the object.
        columns: The names of the columns.
        rows: The texts of the cells, row by row.
        length: The number of all rows.
        hidden_columns: The number of columns that are left out.
    """

    kind: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    length: int
    hidden_columns: int = 0


def as_table(value: Any) -> TablePreview | None:
    """Return the first rows of an object that is a table; None if it is not.

    >>> as_table({"name": ["a", "b"], "age": np.array([3, 4])}).rows
    (('a', '3'), ('b', '4'))
    >>> as_table({"ids": np.arange(4), "mask": np.ones(4, int)})
    """
    if isinstance(value, np.ndarray):
        if value.dtype.names is None or value.ndim != 1:
            return None
        first = value[:_MOST_ROWS]
        return _table(value, {name: first[name] for name in value.dtype.names}, len(value))
    if type(value) is dict:
        return _columns(value)
    return _frame(value)


def _columns(value: Mapping[Any, Any]) -> TablePreview | None:
    """Return a table of a dictionary of columns with different types, such as a batch of rows."""
    if len(value) < 2 or not all(_is_column(column) for column in value.values()):
        return None
    lengths = {len(column) for column in value.values()}
    if len(lengths) != 1 or (length := lengths.pop()) < 2:
        return None
    kinds = {_kind(column) for column in value.values()}
    if len(kinds) == 1 and "text" not in kinds:
        return None  # Rather vectors than columns: tokens and their masks, for example.
    return _table(value, {safe_name(name): column for name, column in value.items()}, length)


def safe_name(name: Any) -> str:
    """Return the name of a column as text."""
    return name if isinstance(name, str) else safe_repr(name, _CELL)


def _is_column(column: Any) -> bool:
    if isinstance(column, np.ndarray):
        return column.ndim == 1 and column.dtype.names is None
    return type(column) in (list, tuple) and all(
        item is None or isinstance(item, (str, int, float)) for item in column[:_MOST_ROWS]
    )


def _kind(column: Any) -> str:
    if isinstance(column, np.ndarray):
        return "text" if column.dtype.kind in "USO" else str(column.dtype)
    return "text" if any(isinstance(item, str) for item in column[:_MOST_ROWS]) else "list"


def _frame(value: Any) -> TablePreview | None:
    """Return a table of a data frame of pandas, polars or Arrow, by the members these have."""
    kind = type(value)
    if hasattr(kind, "column_names") and hasattr(kind, "slice") and hasattr(kind, "to_pydict"):
        first = value.slice(0, _MOST_ROWS).to_pydict()
        return _table(value, {str(name): column for name, column in first.items()}, value.num_rows)
    if not hasattr(kind, "head") or not hasattr(kind, "columns") or not hasattr(kind, "shape"):
        return None
    first = value.head(_MOST_ROWS)
    names = list(value.columns)[: _MOST_COLUMNS + 1]
    columns = {safe_name(name): list(first[name]) for name in names}
    return _table(value, columns, int(value.shape[0]), len(list(value.columns)))


def _table(
    value: Any, columns: Mapping[str, Sequence[Any]], length: int, count: int | None = None
) -> TablePreview:
    names = tuple(columns)[:_MOST_COLUMNS]
    shown = min(_MOST_ROWS, length)
    rows = tuple(tuple(_cell(columns[name][row]) for name in names) for row in range(shown))
    hidden = (len(columns) if count is None else count) - len(names)
    kind = "columns" if type(value) is dict else type_name(value)
    return TablePreview(kind, names, rows, length, hidden)


def _cell(value: Any) -> str:
    if isinstance(value, (str, np.str_)):
        return shortened(str(value), _CELL)
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        value = value.item()
    if isinstance(value, float):
        return f"{value:.6g}"
    return safe_repr(value, _CELL)
