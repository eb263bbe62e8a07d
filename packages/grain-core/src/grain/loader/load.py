"""`grain.load`: a `DataLoader` in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grain.columnar.columnar_source import as_source
from grain.loader.data_loader import DataLoader
from grain.options import ReadOptions
from grain.samplers import IndexSampler
from grain.sharding import NO_SHARDING, ShardOptions
from grain.transforms import Batch, Transformation


def load(
    source: Any,
    *,
    num_epochs: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
    shard_options: ShardOptions = NO_SHARDING,
    transformations: Sequence[Transformation] = (),
    batch_size: int | None = None,
    drop_remainder: bool = False,
    worker_count: int | None = 0,
    read_options: ReadOptions | None = None,
) -> DataLoader:
    """Return a `DataLoader` over a source.

    Args:
        source: The records, by `__len__` and `__getitem__`, or columns as `MapDataset.source` takes them.
        num_epochs: The number of epochs; None repeats without end.
        shuffle: Whether each epoch is shuffled; needs a seed.
        seed: The seed of shuffling and random transformations.
        shard_options: The part of the records that this process reads.
        transformations: Transformations, applied one after the other.
        batch_size: The size of batches; None does not batch.
        drop_remainder: Whether the last, shorter batch is dropped.
        worker_count: Worker processes; 0 computes in this process.
        read_options: Threads and buffer of the read-ahead.

    >>> list(load([1, 2, 3], num_epochs=1, batch_size=2))
    [array([1, 2]), array([3])]
    """
    source = as_source(source)
    sampler = IndexSampler(
        num_records=len(source),
        shard_options=shard_options,
        shuffle=shuffle,
        num_epochs=num_epochs,
        seed=seed,
    )
    operations = list(transformations)
    if batch_size is not None:
        operations.append(Batch(batch_size, drop_remainder=drop_remainder))
    return DataLoader(
        data_source=source,
        sampler=sampler,
        operations=operations,
        worker_count=worker_count,
        read_options=read_options,
    )
