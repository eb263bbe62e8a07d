"""Conversion of what users have (arrays, lists, data frames) into columns.

Libraries of data frames are recognised by the classes of modules that the program has imported, so none
of them is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from grain.columnar.column import (
    ArrayColumn,
    ArrowColumn,
    DictColumns,
    ObjectColumn,
    RowReader,
    TupleColumns,
)

_EXPECTED = "a column is an array, a list, or a series of pandas, polars or pyarrow"


def is_instance_of(value: Any, library: str, *names: str) -> bool:
    """Return whether a value is of a class of a library, without importing the library.

    >>> import numpy as np
    >>> is_instance_of(np.arange(3), "numpy", "ndarray"), is_instance_of(3, "no_such_library", "X")
    (True, False)
    """
    module = sys.modules.get(library)
    if module is None:
        return False
    kinds = tuple(kind for name in names if (kind := getattr(module, name, None)) is not None)
    return isinstance(value, kinds)


def is_frame(value: Any) -> bool:
    """Return whether a value is a table of pandas, polars or pyarrow."""
    return (
        is_instance_of(value, "pandas", "DataFrame")
        or is_instance_of(value, "polars", "DataFrame")
        or is_instance_of(value, "pyarrow", "Table", "RecordBatch")
    )


def to_columns(value: Any) -> DictColumns | TupleColumns:
    """Return a dictionary, a tuple, a structured array or a data frame as columns."""
    columns = _columns_of(value, "")
    if isinstance(columns, (DictColumns, TupleColumns)):
        return columns
    raise TypeError(
        f"ColumnarDataSource got one column, {_shown(value)}, expected several: a dictionary or a "
        "tuple of arrays, a structured array, or a data frame. The rows of one array are read by "
        "`MapDataset.source(array)`."
    )


def _columns_of(value: Any, path: str) -> RowReader:
    if is_instance_of(value, "pandas", "DataFrame"):
        pairs = list(value.items())
        return _named(_unrepeated(pairs), path)
    if is_instance_of(value, "polars", "DataFrame"):
        return _named(dict(zip(value.columns, value.get_columns(), strict=True)), path)
    if is_instance_of(value, "pyarrow", "Table", "RecordBatch"):
        return _named(_unrepeated(list(zip(value.schema.names, value.columns, strict=True))), path)
    if isinstance(value, np.ndarray) and value.dtype.names is not None:
        return _named({name: value[name] for name in value.dtype.names}, path)
    if isinstance(value, Mapping):
        return _named(value, path)
    if isinstance(value, tuple):
        columns = [_columns_of(child, f"{path}[{number}]") for number, child in enumerate(value)]
        _check_lengths({f"{path}[{number}]": len(c) for number, c in enumerate(columns)})
        return TupleColumns(columns, type(value))
    return _column(value, path)


def _unrepeated(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    names = [name for name, _ in pairs]
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ValueError(
            f"Names of columns must be unique, got {repeated[0]!r} more than once. Rename or drop "
            "one of these columns."
        )
    return dict(pairs)


def _named(values: Mapping[Any, Any], path: str) -> DictColumns:
    columns = {name: _columns_of(child, f"{path}[{name!r}]") for name, child in values.items()}
    _check_lengths({f"{path}[{name!r}]": len(column) for name, column in columns.items()})
    return DictColumns(columns)


def _check_lengths(lengths: Mapping[str, int]) -> None:
    if not lengths:
        raise ValueError("ColumnarDataSource needs at least one column, got none.")
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(
            f"All columns must have the same length, one value for each row: {shown}. If the "
            "values are not columns, pass a list of records."
        )


def _column(value: Any, path: str) -> RowReader:
    if is_instance_of(value, "pandas", "Series", "Index"):
        return _pandas_column(value)
    if is_instance_of(value, "polars", "Series"):
        return _polars_column(value)
    if is_instance_of(value, "pyarrow", "Array", "ChunkedArray"):
        return _arrow_column(value)
    if isinstance(value, list):
        return ObjectColumn(value)
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"Column {path} is a masked array, and masks are not read. Fill it first, or give the "
            "mask as another column."
        )
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        array = np.asarray(value)
        if array.ndim:
            return ObjectColumn(array) if array.dtype.hasobject else ArrayColumn(array)
        if isinstance(value, np.ndarray):
            raise TypeError(
                f"Column {path} is an array without dimensions; {_EXPECTED}, with rows."
            )
    raise TypeError(f"Column {path} is {_shown(value)}; {_EXPECTED}, with a value for each row.")


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else ""
    return (
        f"{text[:60]} of type {type(value).__name__}" if text else f"of type {type(value).__name__}"
    )


def _pandas_column(series: Any) -> RowReader:
    missing = np.asarray(series.isna())
    # The numpy type of nullable integers, booleans and floats.
    plain = getattr(series.dtype, "numpy_dtype", None)
    if plain is not None and plain.kind in "biuf" and not missing.any():
        return ArrayColumn(series.to_numpy(dtype=plain))
    if plain is not None and plain.kind == "f":
        return ArrayColumn(series.to_numpy(dtype=plain, na_value=np.nan))
    values = series.to_numpy() if plain is None else series.to_numpy(dtype=object)
    if not values.dtype.hasobject:
        return ArrayColumn(values)
    return ObjectColumn(np.where(missing, None, values) if missing.any() else values)


def _polars_column(series: Any) -> RowReader:
    if not series.null_count():
        array = series.to_numpy()
        if not array.dtype.hasobject:
            return ArrayColumn(array)
    return ObjectColumn(series, _polars_value)


def _polars_value(value: Any) -> Any:
    # A list is a series again.
    return _polars_list(value) if is_instance_of(value, "polars", "Series") else value


def _polars_list(series: Any) -> Any:
    array = np.array(series.to_numpy())
    return series.to_list() if array.dtype.hasobject or series.null_count() else array


def _arrow_column(values: Any) -> RowReader:
    if is_instance_of(values, "pyarrow", "Array"):
        values = sys.modules["pyarrow"].chunked_array([values])
    item = getattr(values.type, "value_type", None)
    if "list" in str(values.type).split("<")[0]:
        flat = [chunk.flatten() for chunk in values.chunks]
        plain = _is_plain(item) and not values.null_count and not any(f.null_count for f in flat)
        width = getattr(values.type, "list_size", None)
        if plain and width:
            parts = [f.to_numpy(zero_copy_only=False).reshape(-1, width) for f in flat]
            if parts:
                return ArrayColumn(parts[0] if len(parts) == 1 else np.concatenate(parts))
        return ArrowColumn(values, as_arrays=plain)
    if _is_plain(values.type) and not values.null_count:
        return ArrayColumn(values.to_numpy())
    return ArrowColumn(values, as_arrays=False)


def _is_plain(kind: Any) -> bool:
    """Return whether a type of pyarrow has values that numpy has."""
    try:
        return np.dtype(kind.to_pandas_dtype()).kind in "biufmM"
    except (NotImplementedError, TypeError):
        return False
