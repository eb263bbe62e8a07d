"""Data in shared memory as a data source for grain.

Names are imported on first use, so that discovering the plugin is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grain_inmemory.version import __version__

if TYPE_CHECKING:
    from grain_inmemory.source import InMemoryDataSource, SharedMemoryDataSource

__all__ = ["InMemoryDataSource", "SharedMemoryDataSource", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.source"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
