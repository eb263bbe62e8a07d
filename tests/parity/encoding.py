"""Lossless JSON forms of values, and the first difference between two of them.

Python's numbers, strings, None, lists and dicts with string keys are unchanged. Everything else is
a dict with one key that starts with ``$``: ``$nd`` an array, ``$np`` a numpy scalar, ``$tuple``,
``$named`` a namedtuple, ``$bytes``, ``$complex``, ``$map`` a dict with other keys, ``$data`` a
dataclass, ``$rng`` a generator's next draws.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from typing import Any

import numpy as np

_LARGEST_ARRAY_WRITTEN_OUT = 512


def encode(value: Any) -> Any:
    """Return the JSON form of `value`; a type without one is a TypeError."""
    match value:
        case np.ndarray():
            return _encode_array(value)
        case np.generic():
            return {"$np": [str(value.dtype), encode(value.item())]}
        case None | bool() | int() | float() | str():
            return value
        case complex():
            return {"$complex": [value.real, value.imag]}
        case bytes():
            return {"$bytes": value.hex()}
        case dict():
            return _encode_dict(value)
        case tuple() if hasattr(value, "_fields"):
            return {
                "$named": [type(value).__name__, {k: encode(v) for k, v in value._asdict().items()}]
            }
        case tuple():
            return {"$tuple": [encode(v) for v in value]}
        case list():
            return [encode(v) for v in value]
        case np.random.Generator():
            draws = copy.deepcopy(value).integers(0, 2**63, size=3)
            return {"$rng": draws.tolist()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return {"$data": [type(value).__name__, fields]}
    raise TypeError(
        f"a fact cannot hold {type(value).__qualname__}: {value!r}; "
        "let the builder return plain values"
    )


def _encode_array(array: np.ndarray) -> dict[str, Any]:
    head = [str(array.dtype), list(array.shape)]
    if array.size > _LARGEST_ARRAY_WRITTEN_OUT:
        return {
            "$ndhash": [*head, hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()]
        }
    return {"$nd": [*head, encode(array.tolist())]}


def _encode_dict(mapping: dict[Any, Any]) -> dict[str, Any]:
    if all(isinstance(key, str) and not key.startswith("$") for key in mapping):
        return {key: encode(item) for key, item in mapping.items()}
    return {"$map": [[encode(key), encode(item)] for key, item in mapping.items()]}


def decode_state(encoded: Any) -> Any:
    """Return a recorded state as `set_state` takes it; tuples become lists, as in JSON."""
    match encoded:
        case {"$nd": [dtype, shape, values]}:
            return np.array(decode_state(values), dtype=dtype).reshape(shape)
        case {"$np": [dtype, item]}:
            return np.dtype(dtype).type(decode_state(item))
        case {"$tuple": items} | list(items):
            return [decode_state(item) for item in items]
        case {"$bytes": digits}:
            return bytes.fromhex(digits)
        case {"$map": pairs}:
            return {decode_state(key): decode_state(item) for key, item in pairs}
        case dict():
            return {key: decode_state(item) for key, item in encoded.items()}
    return encoded


def without_tuples(encoded: Any) -> Any:
    """Return `encoded` with each tuple as a list, as in a JSON checkpoint."""
    match encoded:
        case {"$tuple": items} | list(items):
            return [without_tuples(item) for item in items]
        case dict():
            return {key: without_tuples(item) for key, item in encoded.items()}
    return encoded


def difference(expected: Any, actual: Any, where: str = "") -> str | None:
    """Describe the first difference of two encoded values; None if they are equal.

    Stricter than ``==``: 1, 1.0 and True differ, and nan equals itself.
    """
    path = where or "the value"
    if type(expected) is not type(actual):
        return f"{path}: expected {expected!r}, got {actual!r}"
    match expected:
        case dict():
            for key in expected:
                if key not in actual:
                    return f"{path}: {key!r} is missing; got only {sorted(actual)}"
            for key in actual:
                if key not in expected:
                    return f"{path}: {key!r} should not be there; expected only {sorted(expected)}"
            parts = ((f"{where}[{key!r}]", expected[key], actual[key]) for key in expected)
        case list():
            parts = (
                (f"{where}[{i}]", e, a)
                for i, (e, a) in enumerate(zip(expected, actual, strict=False))
            )
        case _:
            same = expected == actual or (expected != expected and actual != actual)
            return None if same else f"{path}: expected {expected!r}, got {actual!r}"
    for part_where, part_expected, part_actual in parts:
        found = difference(part_expected, part_actual, part_where)
        if found:
            return found
    if len(expected) > len(actual):
        missing = expected[len(actual)]
        return f"{path}: ends after {len(actual)} of {len(expected)}; next would be {missing!r}"
    if len(expected) < len(actual):
        return f"{path}: continues after {len(expected)} with {actual[len(expected)]!r}"
    return None
