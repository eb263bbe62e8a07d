"""Newer operations and helpers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain._lazy import lazy_names
from grain.dataset.base import apply_transformations
from grain.dataset.batch import batch_and_pad
from grain.dataset.cache import CacheIterDataset
from grain.dataset.elastic.elastic_iterator import ElasticIterator
from grain.dataset.element_spec import (
    ShapeDtypeStruct,
    ShapeDtypeStructProtocol,
    get_element_spec,
)
from grain.dataset.flat_map import FlatMapIterDataset, FlatMapMapDataset
from grain.dataset.interleave.interleave import InterleaveIterDataset
from grain.dataset.limit import LimitIterDataset
from grain.dataset.next_index import get_next_index, set_next_index
from grain.dataset.packing.concat_split import BOSHandling, ConcatThenSplitIterDataset
from grain.dataset.packing.fit import BestFitPackIterDataset, FirstFitPackIterDataset
from grain.dataset.pad_or_trim import PadOrTrim
from grain.dataset.rebatch import RebatchIterDataset
from grain.dataset.rekey import Rekey
from grain.dataset.repeat import RepeatIterDataset
from grain.dataset.resume_check import assert_equal_output_after_checkpoint
from grain.dataset.seed import WithOptionsIterDataset
from grain.dataset.shard_batches import Remainder, ShardBatchesMapDataset
from grain.dataset.split import train_validation_split
from grain.dataset.tfrecord.tfrecord_dataset import TFRecordIterDataset
from grain.dataset.unbatch import UnbatchIterDataset
from grain.dataset.window_shuffle import WindowShuffleIterDataset, WindowShuffleMapDataset
from grain.dataset.zip import ZipIterDataset, ZipMapDataset
from grain.execution.device import device_put, to_mesh
from grain.execution.multithread_prefetch import multithread_prefetch
from grain.execution.thread_prefetch import (
    ThreadPrefetchDatasetIterator,
    ThreadPrefetchIterDataset,
)
from grain.execution.tuning import PerformanceConfig, autotune, pick_performance_config
from grain.index.permutation import index_shuffle
from grain.loader.pack_and_batch import PackAndBatchOperation
from grain.options import DatasetOptions, ExecutionTrackingMode
from grain.rng import RngPool
from grain.transforms import FlatMap as FlatMapTransform
from grain.transforms import MapWithIndex as MapWithIndexTransform

if TYPE_CHECKING:
    from grain.observe.progress_line import progress
    from grain_parquet import ParquetIterDataset as ParquetIterDataset

__all__ = [
    "BOSHandling",
    "BestFitPackIterDataset",
    "CacheIterDataset",
    "ConcatThenSplitIterDataset",
    "DatasetOptions",
    "ElasticIterator",
    "ExecutionTrackingMode",
    "FirstFitPackIterDataset",
    "FlatMapIterDataset",
    "FlatMapMapDataset",
    "FlatMapTransform",
    "InterleaveIterDataset",
    "LimitIterDataset",
    "MapWithIndexTransform",
    "PackAndBatchOperation",
    "PadOrTrim",
    "PerformanceConfig",
    "RebatchIterDataset",
    "Rekey",
    "Remainder",
    "RepeatIterDataset",
    "RngPool",
    "ShapeDtypeStruct",
    "ShapeDtypeStructProtocol",
    "ShardBatchesMapDataset",
    "TFRecordIterDataset",
    "ThreadPrefetchDatasetIterator",
    "ThreadPrefetchIterDataset",
    "UnbatchIterDataset",
    "WindowShuffleIterDataset",
    "WindowShuffleMapDataset",
    "WithOptionsIterDataset",
    "ZipIterDataset",
    "ZipMapDataset",
    "apply_transformations",
    "assert_equal_output_after_checkpoint",
    "autotune",
    "batch_and_pad",
    "device_put",
    "get_element_spec",
    "get_next_index",
    "index_shuffle",
    "multithread_prefetch",
    "pick_performance_config",
    "progress",
    "set_next_index",
    "to_mesh",
    "train_validation_split",
]

if not TYPE_CHECKING:  # With it, a type checker would accept every name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {"grain.observe.progress_line": ["progress"]},
        from_plugins=lambda name: name == "ParquetIterDataset",
    )
