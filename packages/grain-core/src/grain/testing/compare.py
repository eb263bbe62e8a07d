"""Compare two elements: structure, types, dtypes and values."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_OVERWRITTEN = "overwritten by grain.testing"


def difference(expected: Any, actual: Any, where: str = "") -> str | None:
    """Return a description of where two elements differ; None when they are equal.

    Example:
        >>> difference({"a": [1, 2]}, {"a": [1, 3]})
        "at ['a'][1]: expected 2, got 3"
        >>> difference(np.float32(1), np.float32(1)) is None
        True
    """
    prefix = f"at {where}: " if where else ""
    expected, actual = _plain_array(expected), _plain_array(actual)
    if type(expected) is not type(actual):
        return f"{prefix}expected {_short(expected)}, got {_short(actual)}"
    if isinstance(expected, (np.ndarray, np.generic)):
        return _array_difference(expected, actual, prefix)
    if _is_array_like(expected):
        if expected.dtype != actual.dtype:
            return f"{prefix}expected {expected.dtype}, got {actual.dtype}"
        return _array_difference(np.asarray(expected), np.asarray(actual), prefix)
    if isinstance(expected, Mapping):
        if list(expected) != list(actual):
            return f"{prefix}expected the keys {list(expected)}, got {list(actual)}"
        items = [(f"{where}[{key!r}]", expected[key], actual[key]) for key in expected]
        return _first_difference(items)
    if isinstance(expected, (list, tuple)):
        if len(expected) != len(actual):
            return f"{prefix}expected {len(expected)} items, got {len(actual)}"
        pairs = enumerate(zip(expected, actual, strict=True))
        return _first_difference([(f"{where}[{i}]", one, other) for i, (one, other) in pairs])
    if _equal(expected, actual):
        return None
    return f"{prefix}expected {_short(expected)}, got {_short(actual)}"


def expect_same(expected: Any, actual: Any, message: str) -> None:
    """Raise an AssertionError that starts with `message` when two elements differ."""
    if (found := difference(expected, actual)) is not None:
        raise AssertionError(f"{message}: {found}.")


def expect_same_all(expected: Sequence[Any], actual: Sequence[Any], message: str) -> None:
    """Raise an AssertionError for the first elements of two sequences that differ."""
    if len(expected) != len(actual):
        raise AssertionError(f"{message}: expected {len(expected)} elements, got {len(actual)}.")
    for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
        expect_same(one, other, f"{message}, element {index}")


def snapshot(element: Any) -> Any:
    """Return a deep copy; an element that cannot be copied is returned as it is."""
    try:
        return copy.deepcopy(element)
    except Exception:
        return element


def overwrite(element: Any) -> None:
    """Overwrite every mutable part of an element in place."""
    if _is_array_like(element):
        element = np.asarray(element)  # shares memory where the library's arrays are mutable
    if isinstance(element, np.ndarray):
        if element.flags.writeable and element.size:
            element[...] = _other_value(element.dtype, element.flat[0])
    elif isinstance(element, dict):
        for value in element.values():
            overwrite(value)
        element[_OVERWRITTEN] = True
    elif isinstance(element, list):
        for value in element:
            overwrite(value)
        element.append(_OVERWRITTEN)
    elif isinstance(element, tuple):
        for value in element:
            overwrite(value)
    elif isinstance(element, bytearray):
        element[:] = b"\x5a" * len(element)


def _plain_array(value: Any) -> Any:
    """Return a memory map as an array: a pickled copy of its rows is one."""
    return np.asarray(value) if isinstance(value, np.memmap) else value


def _is_array_like(value: Any) -> bool:
    """Return whether a value is an array of another library, such as a tensor."""
    numpy = isinstance(value, (np.ndarray, np.generic))
    return not numpy and all(hasattr(value, name) for name in ("__array__", "shape", "dtype"))


def _other_value(dtype: np.dtype[Any], value: Any) -> Any:
    """Return a value of a dtype that differs from the given value."""
    if dtype.hasobject:
        return _OVERWRITTEN
    if dtype.kind == "b":
        return not value
    if dtype.kind in "US":
        return "Z" * max(1, dtype.itemsize // 4)
    overwritten = np.frombuffer(b"\x5a" * dtype.itemsize, dtype)[0]
    return np.zeros((), dtype)[()] if overwritten == value else overwritten


def _first_difference(items: Sequence[tuple[str, Any, Any]]) -> str | None:
    for where, one, other in items:
        if (found := difference(one, other, where)) is not None:
            return found
    return None


def _array_difference(expected: Any, actual: Any, prefix: str) -> str | None:
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return (
            f"{prefix}expected {expected.dtype} of shape {expected.shape}, got {actual.dtype} of"
            f" shape {actual.shape}"
        )
    if expected.dtype.hasobject:
        same = difference(expected.tolist(), actual.tolist()) is None
    else:
        same = bool(np.array_equal(expected, actual, equal_nan=expected.dtype.kind in "fcmM"))
    return None if same else f"{prefix}expected {_short(expected)}, got {_short(actual)}"


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and one != one:
        return bool(other != other)
    try:
        if bool(one == other):
            return True
    except Exception:  # `==` does not return a boolean for every class
        pass
    try:
        return pickle.dumps(one) == pickle.dumps(other)
    except Exception:
        return False


def _short(value: Any) -> str:
    text = f"{type(value).__name__} {value!r}" if not isinstance(value, (int, str)) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 120 else f"{text[:117]}…"
