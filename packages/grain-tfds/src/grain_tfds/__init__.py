"""TensorFlow Datasets as data sources for grain, without TensorFlow.

Names are imported on first use, so that discovering the plugin does not load tensorflow-datasets.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grain_tfds.version import __version__

if TYPE_CHECKING:
    from grain_tfds.source import TfdsDataSource

__all__ = ["TfdsDataSource", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.source"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
