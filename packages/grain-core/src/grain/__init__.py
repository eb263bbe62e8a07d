"""Grain: fast, exact, resumable data loading for training models.

There are two ways to build a pipeline: `MapDataset` and `IterDataset` chain operations, and `DataLoader`
combines a source, a sampler and a list of transformations. Either has one stream of elements and one
state, no matter which threads or processes compute it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain._lazy import LazyModule, PluginRegistry, lazy_names
from grain.dataset.entry_points import install_observation, install_presenter
from grain.execution.install import install
from grain.version import __version__, __version_info__

if TYPE_CHECKING:
    from grain import (
        checkpoint,
        constants,
        experimental,
        monitoring,
        multiprocessing,
        observe,
        plugins,
        proto,
        python,
        samplers,
        sharding,
        sources,
        transforms,
    )
    from grain._config import config
    from grain.checkpoint import CheckpointHandler as CheckpointHandler
    from grain.checkpoint import CheckpointHandler as GrainCheckpointHandler
    from grain.checkpoint import CheckpointHandler as OrbaxCheckpointHandler
    from grain.checkpoint import CheckpointHandler as PyGrainCheckpointHandler
    from grain.checkpoint.orbax_args import CheckpointRestore as CheckpointRestore
    from grain.checkpoint.orbax_args import CheckpointSave as CheckpointSave
    from grain.dataset.base import DatasetIterator, IterDataset, MapDataset
    from grain.loader.data_loader import DataLoader, DataLoaderIterator
    from grain.loader.load import load
    from grain.loader.operations import BatchOperation as BatchOperation
    from grain.loader.operations import FilterOperation as FilterOperation
    from grain.loader.operations import MapOperation as MapOperation
    from grain.loader.operations import Operation as Operation
    from grain.loader.operations import RandomMapOperation as RandomMapOperation
    from grain.multiprocessing import SharedMemoryArray as SharedMemoryArray
    from grain.observe.diagnose import diagnose
    from grain.observe.switch import observing
    from grain.options import MultiprocessingOptions, ReadOptions
    from grain.records import Record, RecordMetadata
    from grain.samplers import IndexSampler, Sampler, SequentialSampler
    from grain.sharding import NoSharding, ShardByJaxProcess, ShardOptions
    from grain.sources import RandomAccessDataSource, RangeDataSource
    from grain.transforms import Batch, Transformation, Transformations
    from grain.transforms import Batch as BatchTransform
    from grain.transforms import Filter as FilterTransform
    from grain.transforms import FlatMap as FlatMapTransform
    from grain.transforms import Map as MapTransform
    from grain.transforms import MapWithIndex as MapWithIndexTransform
    from grain.transforms import RandomMap as RandomMapTransform
    from grain_arrayrecord import ArrayRecordDataSource as ArrayRecordDataSource
    from grain_inmemory import InMemoryDataSource as InMemoryDataSource
    from grain_inmemory import SharedMemoryDataSource as SharedMemoryDataSource
    from grain_parquet import ParquetDataSource as ParquetDataSource
    from grain_tfds import TfdsDataSource as TfdsDataSource

    GrainCheckpointRestore = PyGrainCheckpointRestore = CheckpointRestore
    GrainCheckpointSave = PyGrainCheckpointSave = CheckpointSave
    PyGrainDatasetIterator = DataLoaderIterator

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
    "__version_info__",
    "checkpoint",
    "config",
    "constants",
    "diagnose",
    "experimental",
    "load",
    "monitoring",
    "multiprocessing",
    "observe",
    "observing",
    "plugins",
    "proto",
    "python",
    "samplers",
    "sharding",
    "sources",
    "transforms",
]

install()
install_presenter(LazyModule("grain.observe.page.presentation"))
install_observation(LazyModule("grain.observe.activation"))
PluginRegistry.installed = LazyModule("grain.plugins")

# Nothing is loaded before its first use: few programs use everything, and a worker process needs little.
# The import system looks here for submodules too; names in lower case are never those of plugins.
if not TYPE_CHECKING:  # With it, a type checker would accept every name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "grain._config": ["config"],
            "grain.checkpoint": [
                f"Checkpoint{what} as {prefix}Checkpoint{what}"
                for prefix in ("Grain", "PyGrain", "")
                for what in ("Handler", "Save", "Restore")
            ]
            + ["CheckpointHandler as OrbaxCheckpointHandler"],
            "grain.dataset.base": ["DatasetIterator", "IterDataset", "MapDataset"],
            "grain.loader.data_loader": [
                "DataLoader",
                "DataLoaderIterator",
                "DataLoaderIterator as PyGrainDatasetIterator",
            ],
            "grain.loader.load": ["load"],
            "grain.loader.operations": [
                "BatchOperation",
                "FilterOperation",
                "MapOperation",
                "Operation",
                "RandomMapOperation",
            ],
            "grain.multiprocessing": ["SharedMemoryArray"],
            "grain.observe.diagnose": ["diagnose"],
            "grain.observe.switch": ["observing"],
            "grain.options": ["MultiprocessingOptions", "ReadOptions"],
            "grain.records": ["Record", "RecordMetadata"],
            "grain.samplers": ["IndexSampler", "Sampler", "SequentialSampler"],
            "grain.sharding": ["NoSharding", "ShardByJaxProcess", "ShardOptions"],
            "grain.sources": ["RandomAccessDataSource", "RangeDataSource"],
            "grain.transforms": [
                "Batch",
                "Batch as BatchTransform",
                "Filter as FilterTransform",
                "FlatMap as FlatMapTransform",
                "Map as MapTransform",
                "MapWithIndex as MapWithIndexTransform",
                "RandomMap as RandomMapTransform",
                "Transformation",
                "Transformations",
            ],
        },
        submodules=(
            "checkpoint",
            "constants",
            "experimental",
            "monitoring",
            "multiprocessing",
            "observe",
            "plugins",
            "proto",
            "python",
            "samplers",
            "sharding",
            "sources",
            "transforms",
        ),
        from_plugins=lambda name: name[:1].isupper(),
    )
