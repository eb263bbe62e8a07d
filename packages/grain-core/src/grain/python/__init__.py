"""The names of `grain` under `grain.python`, for existing code; new code needs only `grain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain._lazy import lazy_names

if TYPE_CHECKING:
    from grain import (
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
    from grain import CheckpointRestore as CheckpointRestore
    from grain import CheckpointSave as CheckpointSave
    from grain import GrainCheckpointRestore as GrainCheckpointRestore
    from grain import GrainCheckpointSave as GrainCheckpointSave
    from grain import PyGrainCheckpointRestore as PyGrainCheckpointRestore
    from grain import PyGrainCheckpointSave as PyGrainCheckpointSave
    from grain.checkpoint import CheckpointHandler
    from grain.constants import (
        DATASET_INDEX,
        EPOCH,
        INDEX,
        META_FEATURES,
        RECORD,
        RECORD_KEY,
        SEED,
    )
    from grain.loader.data_loader import DataLoaderIterator as PyGrainDatasetIterator
    from grain.loader.operations import (
        BatchOperation,
        FilterOperation,
        MapOperation,
        Operation,
        RandomMapOperation,
    )
    from grain.multiprocessing import SharedMemoryArray
    from grain.python import experimental
    from grain.transforms import DatasetSelectionMap
    from grain_arrayrecord import ArrayRecordDataSource as ArrayRecordDataSource
    from grain_inmemory import InMemoryDataSource as InMemoryDataSource
    from grain_inmemory import SharedMemoryDataSource as SharedMemoryDataSource
    from grain_parquet import ParquetDataSource as ParquetDataSource
    from grain_tfds import TfdsDataSource as TfdsDataSource

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

_CONSTANTS = [name for name in __all__ if name.isupper()]
_ELSEWHERE = {*_CONSTANTS, "DatasetSelectionMap", "experimental"}

if not TYPE_CHECKING:  # With it, a type checker would accept every name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "grain": [
                *(name for name in __all__ if name not in _ELSEWHERE),
                *(
                    f"{prefix}Checkpoint{what}"
                    for prefix in ("Grain", "PyGrain", "")
                    for what in ("Save", "Restore")
                ),
            ],
            "grain.constants": _CONSTANTS,
            "grain.transforms": ["DatasetSelectionMap"],
        },
        submodules=["experimental"],
        from_plugins=lambda name: True,
    )
