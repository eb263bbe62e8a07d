"""Samplers: the order in which a `DataLoader` reads records."""

from __future__ import annotations

import sys
from typing import Any, Protocol

import numpy as np

from grain._lazy import LazyModule
from grain.index.even_split import even_split
from grain.index.permutation import IndexArray, shuffle_epochs
from grain.options import checked_int
from grain.records import RecordMetadata
from grain.sharding import NO_SHARDING, ShardOptions, checked_shard_options

__all__ = ["IndexSampler", "Sampler", "SequentialSampler"]


def __dir__() -> list[str]:
    return [*__all__]


# Imported when there is something to log: most programs do not load it otherwise.
_logging: Any = LazyModule("logging")


class Sampler(Protocol):
    """The record to read at each global index.

    Global index `i` belongs to shard `i % shard_count`. A sampler may have `__len__`; without it the
    loader ends when the sampler raises IndexError.
    """

    def __getitem__(self, index: int) -> RecordMetadata:
        """Return the metadata of the record at a global index."""


def keyed_rng(key: int) -> np.random.Generator:
    """Return the generator of the record whose seed and global index have the sum `key`."""
    return np.random.Generator(np.random.Philox(key=key))


class IndexSampler:
    """Records in order or shuffled, for some epochs or without end, divided over shards.

    Args:
        num_records: The number of records of the data source.
        shard_options: The part of the records that this process reads.
        shuffle: Whether each epoch is shuffled, in a different order.
        num_epochs: The number of epochs; None repeats without end.
        seed: The seed of shuffling and of the records' generators; `0 <= seed < 2**32`.

    >>> sampler = IndexSampler(num_records=3, num_epochs=1, seed=7)
    >>> [metadata.record_key for metadata in sampler]
    [0, 1, 2]
    """

    def __init__(
        self,
        num_records: int,
        shard_options: ShardOptions = NO_SHARDING,
        shuffle: bool = False,
        num_epochs: int | None = None,
        seed: int | None = None,
    ):
        num_records = _checked_num_records(num_records)
        if num_epochs is not None:
            num_epochs = checked_int("num_epochs", num_epochs, least=-(2**63))
            if num_epochs <= 0:
                raise ValueError(
                    f"Invalid number of epochs in Index Sampler. Got {num_epochs} epochs, but number "
                    "of epochs must be greater than 0."
                )
        if shuffle and seed is None:
            # Message kept from google/grain 0.2.18
            raise ValueError("Shuffling requires specifying a seed.")
        if seed is not None:
            seed = checked_int("seed", seed, least=-(2**63))
            if not 0 <= seed < 2**32:
                raise ValueError(f"Seed should be positive 32-bit integer. Got {seed}.")
        self._num_records = num_records
        self._shard_options = checked_shard_options(shard_options)
        self._shuffle = shuffle
        self._num_epochs = num_epochs
        self._seed = seed
        shard = self._shard_options
        self._keys = even_split(
            num_records, shard.shard_index, shard.shard_count, shard.drop_remainder
        )
        dropped = num_records % shard.shard_count if shard.drop_remainder else 0
        if dropped:
            # Message kept from google/grain 0.2.18
            _logging.getLogger("grain").warning(
                "Dropping %d examples of %d examples (shard %d).",
                dropped,
                num_records,
                shard.shard_count,
            )
        if num_epochs is None:
            self._length = sys.maxsize if len(self._keys) else 0
        else:
            self._length = min((num_records - dropped) * num_epochs, sys.maxsize)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return (
            f"IndexSampler(num_records={self._num_records}, shard_options={self._shard_options!r}, "
            f"shuffle={self._shuffle}, num_epochs={self._num_epochs}, seed={self._seed})"
        )

    def __getitem__(self, index: int) -> RecordMetadata:
        _check_index(index, self._length if self.has_records else 0)
        key = int(self.record_keys(np.array([index], dtype=np.int64))[0])
        rng = None if self._seed is None else keyed_rng(self._seed + index)
        return RecordMetadata(index=index, record_key=key, rng=rng)

    @property
    def seed(self) -> int | None:
        """The seed of shuffling and of the records' generators."""
        return self._seed

    def record_keys(self, global_indices: IndexArray) -> IndexArray:
        """Return the record keys at global indices of this shard, later epochs included."""
        count = len(self._keys)
        positions = global_indices // self._shard_options.shard_count
        if self._shuffle and self._seed is not None:
            positions = shuffle_epochs(positions, count, self._seed)
        return self._keys.start + positions % count

    @property
    def has_records(self) -> bool:
        """Whether this shard has a record; false where there are more shards than records."""
        return len(self._keys) > 0


class SequentialSampler:
    """Every record once, in order.

    >>> [metadata.record_key for metadata in SequentialSampler(num_records=3)]
    [0, 1, 2]
    """

    def __init__(
        self,
        num_records: int,
        shard_options: ShardOptions = NO_SHARDING,
        seed: int | None = None,
    ):
        num_records = _checked_num_records(num_records)
        if seed is not None:
            seed = checked_int("seed", seed, least=0)
        self._num_records = num_records
        self._shard_options = checked_shard_options(shard_options)
        self._seed = seed
        # Every shard reads equally many of these.
        rest = num_records % self._shard_options.shard_count
        self._length = num_records - (rest if self._shard_options.drop_remainder else 0)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return (
            f"SequentialSampler(num_records={self._num_records}, "
            f"shard_options={self._shard_options!r})"
        )

    def __getitem__(self, index: int) -> RecordMetadata:
        _check_index(index, self._length)
        rng = None if self._seed is None else keyed_rng(self._seed + index)
        return RecordMetadata(index=index, record_key=index, rng=rng)

    @property
    def seed(self) -> int | None:
        """The seed of the records' generators."""
        return self._seed

    def record_keys(self, global_indices: IndexArray) -> IndexArray:
        """Return the record keys at global indices: the indices."""
        return global_indices


def _checked_num_records(num_records: int) -> int:
    num_records = checked_int("num_records", num_records, least=-(2**63))
    if num_records <= 0:
        raise ValueError(
            # Message kept from google/grain 0.2.18
            f"Invalid number of records in Sampler. Got {num_records} records, but number of "
            "records must be greater than 0."
        )
    return num_records


def _check_index(index: int, length: int) -> None:
    if not 0 <= index < length:
        raise IndexError(
            # Message kept from google/grain 0.2.18
            f"RecordMetadata object index is out of bounds; Got index {index}, allowed indices "
            f"should be in [0, {length}]"
        )
