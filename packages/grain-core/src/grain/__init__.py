"""Grain: fast, exact, resumable data loading for training models.

Two ways to build a pipeline: `MapDataset` and `IterDataset`, which chain operations, and `DataLoader`,
which puts a source, a sampler and a list of transformations together. Either has one stream of
elements and one state, whoever computes it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grain import constants, plugins, python, samplers, sharding, sources, transforms
from grain.execution.install import install
from grain.python import (
    Batch,
    BatchTransform,
    DatasetIterator,
    FilterTransform,
    FlatMapTransform,
    IndexSampler,
    IterDataset,
    MapDataset,
    MapTransform,
    MapWithIndexTransform,
    MultiprocessingOptions,
    NoSharding,
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
)
from grain.version import __version__

if TYPE_CHECKING:
    from grain import checkpoint, experimental, multiprocessing
    from grain.python import (
        DataLoader,
        DataLoaderIterator,
        GrainCheckpointHandler,
        OrbaxCheckpointHandler,
        PyGrainCheckpointHandler,
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


# Modules that are loaded when they are asked for: not every program needs them.
_LAZY_MODULES = ("checkpoint", "experimental", "multiprocessing")
_plugin_attributes = plugins.attributes_of(__name__, only=plugins.KNOWN_NAMES)


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return importlib.import_module(f"grain.{name}")
    if name in python._ELSEWHERE:
        return getattr(python, name)
    return _plugin_attributes.get(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *python._ELSEWHERE, *_plugin_attributes.list()})
