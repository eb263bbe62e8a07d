"""Ray clusters for grain: an executor, and one preprocessing fleet for many hosts.

Names are imported on first use, and Ray only in the processes that join a cluster.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grain_ray.version import __version__

if TYPE_CHECKING:
    from grain_ray.ray_executor import RayExecutor
    from grain_ray.sequenced_iterator import SequencedIterator
    from grain_ray.train_shard import ShardByRayTrain

_HOMES = {
    "RayExecutor": "ray_executor",
    "SequencedIterator": "sequenced_iterator",
    "ShardByRayTrain": "train_shard",
}

__all__ = ["RayExecutor", "SequencedIterator", "ShardByRayTrain", "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
