"""Modules that are imported when something of them is first asked for: not every program needs them."""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """Stands for a module that has not been imported yet.

    >>> LazyModule("json").dumps([1])
    '[1]'
    """

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value
