"""Texts of users' objects in a pipeline that are the same in every process and run."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from grain.dataset.fingerprint.complete_text import complete_text

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_MOST_CHARACTERS = 1000
_MOST_ITEMS = 32
_MOST_LEVELS = 4
_MOST_BYTES = 1 << 20
_SCALARS = (bool, int, float, complex, str, bytes)


def stable_text(value: Any, level: int = 0) -> str:
    """Return a short text of one line that distinguishes values as far as possible.

    Functions are represented by their name, without their code and line. An object of a class without
    a `__repr__` is represented by its class and its public numbers and texts.

    >>> stable_text({"size": 3, "by": len})
    "{'size': 3, 'by': len}"
    """
    return stable_line(_text(value, level))


def stable_line(text: str) -> str:
    """Return a text without addresses, on one line, of bounded length.

    >>> stable_line("<Source object at 0x7f2a5c>")
    '<Source object>'
    """
    line = "\\n".join(_ADDRESS.sub("", text).splitlines())
    return (
        line if len(line) <= _MOST_CHARACTERS else f"{line[:80]}… digest={_digest(line.encode())}"
    )


def has_own_repr(kind: type) -> bool:
    """Return whether a class has a `__repr__` that identifies its objects; that of datasets is for people."""
    method: Any = kind.__repr__
    return method is not object.__repr__ and (
        getattr(method, "__module__", None) != "grain.dataset.node"
    )


def _text(value: Any, level: int) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if value is None or isinstance(value, _SCALARS):
        return repr(value)
    if isinstance(value, np.ndarray):
        return _array_text(value)
    if isinstance(value, functools.partial):
        return f"partial({_arguments([value.func, *value.args], value.keywords, level)})"
    if hasattr(value, "__qualname__"):
        # A bound method is represented by its object as well.
        owner = getattr(value, "__self__", None)
        bound = owner is not None and not isinstance(owner, type) and hasattr(value, "__func__")
        name = str(value.__qualname__)
        return f"{stable_text(owner, level + 1)}.{value.__name__}" if bound else name
    kind: Any = type(value)
    if level >= _MOST_LEVELS:
        return str(kind.__qualname__)
    if isinstance(value, Mapping) and kind.__repr__ is dict.__repr__:
        pairs = [
            f"{stable_text(k, level + 1)}: {stable_text(v, level + 1)}" for k, v in value.items()
        ]
        return "{" + _joined(pairs) + "}"
    if kind in (list, tuple):
        left, right = "[]" if kind is list else "()"
        return left + _joined([stable_text(item, level + 1) for item in value]) + right
    if kind in (set, frozenset):
        return "{" + _joined(sorted(stable_text(item, level + 1) for item in value)) + "}"
    if dataclasses.is_dataclass(value) and kind.__dataclass_params__.repr:
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.repr}
        return f"{kind.__qualname__}({_arguments([], fields, level)})"
    if has_own_repr(kind):
        try:
            return complete_text(value)
        except Exception:
            return str(kind.__qualname__)  # An error here must not lose a checkpoint.
    public = {
        name: item
        for name, item in sorted(getattr(value, "__dict__", {}).items())
        if not name.startswith("_") and isinstance(item, _SCALARS)
    }
    return f"{kind.__qualname__}({_arguments([], public, level)})"


def _array_text(array: np.ndarray[Any, Any]) -> str:
    digest = ""
    if array.nbytes <= _MOST_BYTES and not array.dtype.hasobject:
        digest = f", digest={_digest(np.ascontiguousarray(array).tobytes())}"
    return f"array(shape={array.shape}, dtype={array.dtype}{digest})"


def _arguments(given: list[Any], named: Mapping[str, Any], level: int) -> str:
    texts = [stable_text(item, level + 1) for item in given]
    return _joined(texts + [f"{name}={stable_text(v, level + 1)}" for name, v in named.items()])


def _joined(texts: list[str]) -> str:
    if len(texts) <= _MOST_ITEMS:
        return ", ".join(texts)
    shown = ", ".join(texts[:3])
    return f"{shown}, … {len(texts)} in all, digest={_digest(repr(texts).encode())}"


def _digest(data: bytes) -> str:
    # Enough to detect a change; hashlib would be the slowest part of `import grain`.
    return f"{zlib.crc32(data):08x}"
