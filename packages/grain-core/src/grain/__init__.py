"""Grain: fast, exact, resumable data loading for training models.

Two ways to build a pipeline: `MapDataset` and `IterDataset`, which chain operations, and `DataLoader`,
which puts a source, a sampler and a list of transformations together. Either has one stream of
elements and one state, whoever computes it.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any

from grain.execution.install import install
from grain.version import __version__

if TYPE_CHECKING:
    from grain import (
        checkpoint,
        constants,
        experimental,
        multiprocessing,
        plugins,
        python,
        samplers,
        sharding,
        sources,
        transforms,
    )
    from grain.python import (
        Batch,
        BatchTransform,
        DataLoader,
        DataLoaderIterator,
        DatasetIterator,
        FilterTransform,
        FlatMapTransform,
        GrainCheckpointHandler,
        IndexSampler,
        IterDataset,
        MapDataset,
        MapTransform,
        MapWithIndexTransform,
        MultiprocessingOptions,
        NoSharding,
        OrbaxCheckpointHandler,
        PyGrainCheckpointHandler,
        RandomAccessDataSource,
        RandomMapTransform,
        RangeDataSource,
        ReadOptions,
        Record,
        RecordMetadata,
        Sampler,
        SequentialSampler,
        ShardByJaxProcess,
        ShardOptions,
        Transformation,
        Transformations,
        config,
        load,
    )

__all__ = [
    "Batch",
    "BatchTransform",
    "DataLoader",
    "DataLoaderIterator",
    "DatasetIterator",
    "FilterTransform",
    "FlatMapTransform",
    "GrainCheckpointHandler",
    "IndexSampler",
    "IterDataset",
    "MapDataset",
    "MapTransform",
    "MapWithIndexTransform",
    "MultiprocessingOptions",
    "NoSharding",
    "OrbaxCheckpointHandler",
    "PyGrainCheckpointHandler",
    "RandomAccessDataSource",
    "RandomMapTransform",
    "RangeDataSource",
    "ReadOptions",
    "Record",
    "RecordMetadata",
    "Sampler",
    "SequentialSampler",
    "ShardByJaxProcess",
    "ShardOptions",
    "Transformation",
    "Transformations",
    "__version__",
    "checkpoint",
    "config",
    "constants",
    "experimental",
    "load",
    "multiprocessing",
    "plugins",
    "python",
    "samplers",
    "sharding",
    "sources",
    "transforms",
]

install()

# All of it is loaded when it is asked for: who imports the library need not use it, and a worker process
# needs little of it.
_MODULES = frozenset(
    {
        "checkpoint",
        "constants",
        "experimental",
        "multiprocessing",
        "plugins",
        "python",
        "samplers",
        "sharding",
        "sources",
        "transforms",
    }
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"grain.{name}")
    # The import system asks here before it looks for a module. All names below that are not public
    # are of classes, so it is answered without loading anything.
    if name not in __all__ and not name[:1].isupper():
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    if name in _names():
        value = globals()[name] = getattr(importlib.import_module("grain.python"), name)
        return value
    return _plugin_attributes().get(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_names(), *_plugin_attributes().list()})


@functools.cache
def _names() -> frozenset[str]:
    """What is here by the name that it has in `grain.python`."""
    elsewhere = importlib.import_module("grain.python")._ELSEWHERE
    return frozenset(__all__) - _MODULES | frozenset(elsewhere)


@functools.cache
def _plugin_attributes() -> plugins.PluginAttributes:
    found = importlib.import_module("grain.plugins")
    attributes: plugins.PluginAttributes = found.attributes_of(__name__, only=found.KNOWN_NAMES)
    return attributes
