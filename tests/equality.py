"""Equality of elements in type, dtype, shape and value, for the tests of every plugin."""

from __future__ import annotations

from typing import Any

import numpy as np


def same(a: Any, b: Any) -> bool:
    """Return whether two elements are equal in type and value, not-a-number included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(same, a.values(), b.values()))
    if isinstance(a, np.ndarray) and a.dtype == object:
        return a.shape == b.shape and all(map(same, a.ravel(), b.ravel()))
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return all_same(a, b)
    return bool(a == b or (a != a and b != b))


def all_same(a: Any, b: Any) -> bool:
    """Return whether two sequences have the same elements."""
    return len(a) == len(b) and all(map(same, a, b))
