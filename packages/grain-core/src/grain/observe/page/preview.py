"""Short texts of any object, at a bounded cost, that never raise."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from grain.observe.page.markup import visible

SHORT = 80
# Converting longer integers to decimal digits is slow, and an error by default.
_MOST_BITS = 2000
_FEW = 6
_MOST_DEPTH = 4
# Larger arrays are shown in a repr by type and shape only.
_SMALL_ARRAY = 16


def type_name(value: object) -> str:
    """Return the name of an object's class.

    >>> type_name([]), type_name(np.float32(1))
    ('list', 'float32')
    """
    return str(type(value).__qualname__)


def counted(number: int, noun: str) -> str:
    """Return a number with a noun in singular or plural.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shortened(text: str, limit: int = SHORT) -> str:
    r"""Return a text in one line of `limit` characters at most.

    >>> shortened("one\ntwo three", 8)
    'one two…'
    """
    line = " ".join(text[: 8 * limit].split())
    if len(line) <= limit and len(text) <= 8 * limit:
        return line
    return f"{line[: limit - 1]}…"


def safe_repr(value: object, limit: int = SHORT) -> str:
    """Return a bounded repr; of an object whose `__repr__` raises, its class and the error.

    >>> class Broken:
    ...     def __repr__(self):
    ...         raise ValueError("no")
    >>> safe_repr(Broken())
    '<Broken: repr raised ValueError>'
    """
    try:
        return visible(shortened(_bounded_repr(value, limit), limit))
    except Exception as error:
        return visible(f"<{type_name(value)}: repr raised {type_name(error)}>")


def _bounded_repr(value: Any, limit: int) -> str:
    """Return a repr of an object, for which no more of it is read than is shown."""
    kind = type(value)
    if kind is int and value.bit_length() > _MOST_BITS:
        return f"<int of {value.bit_length():,} bits>"
    if kind in (str, bytes, bytearray) and len(value) > limit:
        return f"{kind(value[:limit])!r}…"
    if isinstance(value, np.generic) and value.dtype.kind in "biufc":
        return f"{value}"
    if isinstance(value, np.ndarray):
        return array_text(value) if value.size <= _SMALL_ARRAY else array_type(value)
    bounded = _CONTAINERS.get(kind)
    return bounded(value, limit) if bounded is not None else repr(value)


def _sequence_repr(value: Any, limit: int) -> str:
    left, right = "[]" if isinstance(value, list) else "()" if isinstance(value, tuple) else "{}"
    texts = [safe_repr(item, limit // 2) for item in itertools.islice(value, _FEW)]
    more = [f"… {len(value) - _FEW:,} more"] if len(value) > _FEW else []
    return f"{left}{', '.join(texts + more)}{right}"


def _mapping_repr(value: Mapping[Any, Any], limit: int) -> str:
    items = itertools.islice(value.items(), _FEW)
    texts = [f"{safe_repr(key, limit // 2)}: {safe_repr(item, limit // 2)}" for key, item in items]
    more = [f"… {len(value) - _FEW:,} more"] if len(value) > _FEW else []
    return f"{{{', '.join(texts + more)}}}"


_CONTAINERS: Mapping[type, Callable[[Any, int], str]] = {
    list: _sequence_repr,
    tuple: _sequence_repr,
    set: _sequence_repr,
    frozenset: _sequence_repr,
    dict: _mapping_repr,
}


def array_type(array: np.ndarray[Any, Any]) -> str:
    """Return the type and shape of an array.

    >>> array_type(np.zeros((2, 3), np.uint8)), array_type(np.array(1.5))
    ('uint8[2, 3]', 'float64')
    """
    name = {"U": "str", "S": "bytes"}.get(array.dtype.kind, array.dtype.name)
    if array.dtype.names is not None:
        name = "struct"
    return f"{name}[{', '.join(map(str, array.shape))}]" if array.ndim else name


def structure_text(value: Any, depth: int = 0) -> str:
    """Return the structure, types and shapes of an element; never raises.

    >>> structure_text({"image": np.zeros((2, 3)), "label": 7, "names": ["a", "b"]})
    "{'image': float64[2, 3], 'label': int, 'names': [str, str]}"
    """
    if isinstance(value, np.ndarray):
        return array_type(value)
    if depth < _MOST_DEPTH and type(value) is dict:
        items = itertools.islice(value.items(), _FEW)
        texts = [f"{safe_repr(key)}: {structure_text(item, depth + 1)}" for key, item in items]
        return f"{{{', '.join(texts + ['…'] * (len(value) > _FEW))}}}"
    if depth < _MOST_DEPTH and type(value) in (list, tuple):
        left, right = "[]" if isinstance(value, list) else "()"
        texts = [structure_text(item, depth + 1) for item in value[:_FEW]]
        return f"{left}{', '.join(texts + ['…'] * (len(value) > _FEW))}{right}"
    return "None" if value is None else type_name(value)


def array_text(array: np.ndarray[Any, Any], limit: int = 160) -> str:
    """Return the first and last values of an array in one line.

    >>> array_text(np.arange(1000))
    '[0 1 2 3 … 996 997 998 999]'
    """
    if not array.size:
        return "empty"
    if array.dtype.hasobject or array.dtype.names is not None or array.dtype.kind in "US":
        flat = [safe_repr(item, limit // 4) for item in _first(array, _FEW)]
        more = [f"… {array.size - _FEW:,} more"] if array.size > _FEW else []
        return shortened(f"[{', '.join(flat + more)}]", limit)
    text = np.array2string(array, threshold=16, edgeitems=4, max_line_width=10**6, precision=4)
    return shortened(text.replace("...", "…"), limit).replace("[ ", "[")


def _first(array: np.ndarray[Any, Any], count: int) -> list[Any]:
    return [item.item() if isinstance(item, np.generic) else item for item in array.flat[:count]]


def numbers_note(array: np.ndarray[Any, Any], most: int = 1_000_000) -> str:
    """Return the range of the numbers of an array of moderate size, and how many are not finite.

    >>> numbers_note(np.array([1.0, np.nan, 3.0]))
    '1 to 3, mean 2; 1 of 3 not finite'
    """
    if array.dtype.kind not in "iuf" or not 1 < array.size <= most:
        return ""
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array.reshape(-1)
    if not finite.size:
        return "no finite value"
    with np.errstate(all="ignore"):
        mean = finite.mean(dtype=np.float64)
    note = f"{finite.min():.6g} to {finite.max():.6g}, mean {mean:.5g}"
    missing = array.size - finite.size
    return f"{note}; {missing:,} of {array.size:,} not finite" if missing else note
