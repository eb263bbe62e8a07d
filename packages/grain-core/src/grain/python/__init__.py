"""The names of `grain.python`, for code that was written for them; new code needs only `grain`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grain import plugins
from grain._config import config
from grain.constants import (
    DATASET_INDEX,
    EPOCH,
    INDEX,
    META_FEATURES,
    RECORD,
    RECORD_KEY,
    SEED,
)
from grain.dataset.base import DatasetIterator, IterDataset, MapDataset
from grain.options import MultiprocessingOptions, ReadOptions
from grain.records import Record, RecordMetadata
from grain.samplers import IndexSampler, Sampler, SequentialSampler
from grain.sharding import NoSharding, ShardByJaxProcess, ShardOptions
from grain.sources import RandomAccessDataSource, RangeDataSource
from grain.transforms import Batch, DatasetSelectionMap, Transformation, Transformations
from grain.transforms import Batch as BatchTransform
from grain.transforms import Filter as FilterTransform
from grain.transforms import FlatMap as FlatMapTransform
from grain.transforms import Map as MapTransform
from grain.transforms import MapWithIndex as MapWithIndexTransform
from grain.transforms import RandomMap as RandomMapTransform

if TYPE_CHECKING:
    from grain.checkpoint import CheckpointHandler
    from grain.checkpoint import CheckpointHandler as GrainCheckpointHandler
    from grain.checkpoint import CheckpointHandler as OrbaxCheckpointHandler
    from grain.checkpoint import CheckpointHandler as PyGrainCheckpointHandler
    from grain.loader.data_loader import DataLoader, DataLoaderIterator
    from grain.loader.data_loader import DataLoaderIterator as PyGrainDatasetIterator
    from grain.loader.load import load
    from grain.loader.operations import (
        BatchOperation,
        FilterOperation,
        MapOperation,
        Operation,
        RandomMapOperation,
    )
    from grain.multiprocessing import SharedMemoryArray
    from grain.python import experimental

__all__ = [
    "DATASET_INDEX",
    "EPOCH",
    "INDEX",
    "META_FEATURES",
    "RECORD",
    "RECORD_KEY",
    "SEED",
    "Batch",
    "BatchOperation",
    "BatchTransform",
    "CheckpointHandler",
    "DataLoader",
    "DataLoaderIterator",
    "DatasetIterator",
    "DatasetSelectionMap",
    "FilterOperation",
    "FilterTransform",
    "FlatMapTransform",
    "GrainCheckpointHandler",
    "IndexSampler",
    "IterDataset",
    "MapDataset",
    "MapOperation",
    "MapTransform",
    "MapWithIndexTransform",
    "MultiprocessingOptions",
    "NoSharding",
    "Operation",
    "OrbaxCheckpointHandler",
    "PyGrainCheckpointHandler",
    "PyGrainDatasetIterator",
    "RandomAccessDataSource",
    "RandomMapOperation",
    "RandomMapTransform",
    "RangeDataSource",
    "ReadOptions",
    "Record",
    "RecordMetadata",
    "Sampler",
    "SequentialSampler",
    "ShardByJaxProcess",
    "ShardOptions",
    "SharedMemoryArray",
    "Transformation",
    "Transformations",
    "config",
    "experimental",
    "load",
]

_plugin_attributes = plugins.attributes_of(__name__, kinds=plugins.SOURCE_KINDS)

# Names that are found when they are asked for: other names of objects elsewhere, which not every
# program needs and which cost time to import.
_ELSEWHERE = {
    "DataLoader": ("grain.loader.data_loader", "DataLoader"),
    "DataLoaderIterator": ("grain.loader.data_loader", "DataLoaderIterator"),
    "PyGrainDatasetIterator": ("grain.loader.data_loader", "DataLoaderIterator"),
    "load": ("grain.loader.load", "load"),
    "BatchOperation": ("grain.loader.operations", "BatchOperation"),
    "FilterOperation": ("grain.loader.operations", "FilterOperation"),
    "MapOperation": ("grain.loader.operations", "MapOperation"),
    "Operation": ("grain.loader.operations", "Operation"),
    "RandomMapOperation": ("grain.loader.operations", "RandomMapOperation"),
    "SharedMemoryArray": ("grain.multiprocessing", "SharedMemoryArray"),
    "OrbaxCheckpointHandler": ("grain.checkpoint", "CheckpointHandler"),
} | {
    f"{prefix}Checkpoint{what}": ("grain.checkpoint", f"Checkpoint{what}")
    for prefix in ("Grain", "PyGrain", "")
    for what in ("Handler", "Save", "Restore")
}


def __getattr__(name: str) -> Any:
    if name == "experimental":
        return importlib.import_module("grain.python.experimental")
    if name in _ELSEWHERE:
        module, attribute = _ELSEWHERE[name]
        return getattr(importlib.import_module(module), attribute)
    return _plugin_attributes.get(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_plugin_attributes.list(), *_ELSEWHERE})
