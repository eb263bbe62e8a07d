"""The classes that a dataset outside of the library extends, in one place."""

from grain.dataset.apply import apply_transformations
from grain.dataset.iter_dataset import IterDataset, TransparentIterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator
from grain.dataset.map_dataset import IndexedMapDataset, MapDataset, as_index, as_indices
from grain.dataset.node import DatasetNode, ExecutionTrait, computed

__all__ = [
    "ChunkIterator",
    "DatasetIterator",
    "DatasetNode",
    "ExecutionTrait",
    "IndexedMapDataset",
    "IterDataset",
    "MapDataset",
    "TransparentIterDataset",
    "apply_transformations",
    "as_index",
    "as_indices",
    "computed",
]
