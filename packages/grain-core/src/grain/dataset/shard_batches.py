"""Batches for one of several shards, with a policy for elements that do not fill a batch of all of them."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, TypeVar

import numpy as np

from grain import transforms, tree
from grain._exceptions import as_failure, note_element
from grain.dataset.batch import BatchFn, checked_batch_fn, checked_batch_size
from grain.dataset.chunk import PartialRead
from grain.dataset.map_dataset import IndexedMapDataset, MapDataset
from grain.dataset.node import computed
from grain.dataset.validation import checked_map_parent
from grain.index.even_split import global_steps
from grain.index.permutation import IndexArray
from grain.options import checked_int, checked_type
from grain.sharding import ShardOptions, checked_shard_options

T = TypeVar("T")


class Remainder(enum.Enum):
    """The handling of elements at the end of an epoch that do not fill a batch of every shard."""

    DROP = "drop"
    """They are left out."""
    KEEP = "keep"
    """Each shard has a short, possibly empty last batch."""
    PAD = "pad"
    """The last batch is padded with zeros; a mask in every batch marks the rows that count."""
    WRAP = "wrap"
    """The last batch is filled with elements from the start of the epoch."""

    @property
    def keeps_rest(self) -> bool:
        """Whether elements that do not fill a batch of every shard are kept at all."""
        return self is not Remainder.DROP


def checked_remainder(remainder: Any) -> Remainder:
    """Return the policy of a value, or raise an error that lists the policies."""
    try:
        return Remainder(remainder)
    except ValueError:
        known = ", ".join(repr(policy.value) for policy in Remainder)
        raise ValueError(f"remainder must be one of {known}, got {remainder!r}.") from None


@dataclasses.dataclass(frozen=True)
class Share:
    """One shard's elements of a batch of all shards.

    Attributes:
        elements: At least one; those after the first `real` ones are only samples.
        real: Number of elements that count.
    """

    elements: list[Any]
    real: int


@dataclasses.dataclass(frozen=True)
class BatchShare(transforms.Map):
    """A transformation that makes one shard's batch of its share.

    Attributes:
        batch_size: Number of rows of a batch of one shard.
        remainder: The handling of a short share.
        mask_name: The feature that holds the mask, with `Remainder.PAD`.
        batch_fn: Function that makes a batch of a list of elements; stacks them if None.
    """

    batch_size: int
    remainder: Remainder
    mask_name: str
    batch_fn: BatchFn | None

    def map(self, element: Share) -> Any:
        """Return the batch, with the number of rows that the policy requires."""
        share, size = element, self.batch_size
        stack = self.batch_fn or tree.stack
        if self.remainder is Remainder.PAD:
            filled = (share.elements * size if share.real < size else share.elements)[:size]
            return self.masked(stack(filled), share.real)
        batch = stack(share.elements[: max(1, share.real)])
        # An empty batch has the structure of the others: a batch without its rows.
        return batch if share.real else tree.map_leaves(lambda rows: rows[:0], batch)

    def masked(self, batch: Any, real: int) -> Any:
        """Return a batch with its mask, and zeros after the first `real` rows."""
        if not isinstance(batch, dict):
            raise TypeError(
                "Padding needs elements that are dictionaries, for the mask; got "
                f"{type(batch).__name__}. Make dictionaries with `map`."
            )
        if self.mask_name in batch:
            raise ValueError(
                f"The elements have a feature {self.mask_name!r} already; choose another mask_name."
            )
        if real < self.batch_size:

            def blank(rows: Any) -> Any:
                return np.concatenate([rows[:real], np.zeros_like(rows[real:])])

            batch = tree.map_leaves(blank, batch)
        return {**batch, self.mask_name: np.arange(self.batch_size) < real}


class ShardBatchesMapDataset(IndexedMapDataset[T]):
    """The batches of one shard. All shards have equally many, for any length.

    Element `i` of a batch of all shards goes to shard `i % shard_count`.

    Args:
        parent: The whole dataset, the same for all shards.
        shard_options: The index and the number of shards.
        batch_size: Number of rows of a batch of one shard.
        remainder: The handling of elements that do not fill a batch of every shard; a `Remainder` or
            its value.
        mask_name: The feature that holds the mask, True for rows that count, with `Remainder.PAD`.
            Elements must be dictionaries then.
        batch_fn: Function that makes a batch of a list of elements; stacks them if not given.
        start: Number of elements to leave out at the start of an epoch, over all shards.

    >>> import grain
    >>> shards = [
    ...     ShardBatchesMapDataset(
    ...         grain.MapDataset.range(5), grain.sharding.ShardOptions(i, 2), 2, remainder="wrap"
    ...     )
    ...     for i in range(2)
    ... ]
    >>> [[batch.tolist() for batch in shard] for shard in shards]
    [[[0, 2], [4, 1]], [[1, 3], [0, 2]]]
    """

    fingerprint_name = "shard_batches"

    def __init__(
        self,
        parent: MapDataset[Any],
        shard_options: ShardOptions,
        batch_size: int,
        *,
        remainder: Remainder | str = Remainder.DROP,
        mask_name: str = "mask",
        batch_fn: BatchFn | None = None,
        start: int = 0,
    ):
        super().__init__(checked_map_parent("ShardBatchesMapDataset", parent))
        self._shard = checked_shard_options(shard_options)
        checked_type("mask_name", mask_name, str, "a text")
        if parent.is_sparse:
            raise ValueError(
                "Batches of shards can not follow `MapDataset.filter`: which elements it keeps is "
                "unknown, and shards would not have equally many batches. "
                "`grain.experimental.ElasticIterator` divides the output of a filter."
            )
        self._remainder = checked_remainder(remainder)
        self._batch_size = checked_batch_size(batch_size)
        self._batch_fn = checked_batch_fn(batch_fn)
        self._make = BatchShare(self._batch_size, self._remainder, mask_name, self._batch_fn)
        self._start = checked_int("start", start, least=0)
        self._parent_length = len(parent)
        self._global_size = self._batch_size * self._shard.shard_count
        left = max(0, self._parent_length - self._start)
        self._full = left // self._global_size
        self._length = global_steps(left, self._global_size, self._remainder.keeps_rest)
        # This shard's batches, of those that every shard can fill.
        stop = self._start + self._full * self._global_size
        first = min(self._start + self._shard.shard_index, stop)
        own = parent.slice(slice(first, stop, self._shard.shard_count))
        self._batches = own.batch(self._batch_size, drop_remainder=True, batch_fn=batch_fn)

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return (
            f"ShardBatchesMapDataset(batch_size={self._batch_size}, "
            f"remainder={self._remainder.value!r})"
        )

    def read_many(self, indices: IndexArray) -> list[Any]:
        if not indices.size:
            return []
        epochs, steps = np.divmod(indices, self._length)
        full = epochs * self._full + steps
        batches: list[Any] = []
        begin = 0
        for offset in [*np.flatnonzero(steps == self._full).tolist(), indices.size]:
            if begin < offset:
                read = self._read_full(indices[begin:offset], full[begin:offset])
                batches += read
                if isinstance(read, PartialRead):
                    return PartialRead(batches, read.error)
            if offset < indices.size:
                try:
                    batches.append(self._last(int(epochs[offset])))
                except Exception as raised:
                    return self._failed(batches, raised, int(indices[offset]))
            begin = offset + 1
        return batches

    def _read_full(self, indices: IndexArray, full: IndexArray) -> list[Any]:
        """Read batches that every shard can fill."""
        batches = self._batches.read_many(full)
        if self._remainder is not Remainder.PAD:
            return batches
        masked: list[Any] = []
        for index, batch in zip(indices.tolist(), batches, strict=False):
            try:
                masked.append(self._make.masked(batch, self._batch_size))
            except Exception as raised:
                return self._failed(masked, raised, index)
        return PartialRead(masked, batches.error) if isinstance(batches, PartialRead) else masked

    def _last(self, epoch: int) -> Any:
        """Return this shard's batch of the elements that do not fill a batch of every shard."""
        first = self._start + self._full * self._global_size
        offsets = np.arange(
            first + self._shard.shard_index,
            first + self._global_size,
            self._shard.shard_count,
            dtype=np.int64,
        )
        if self._remainder is Remainder.WRAP:
            offsets, real = offsets % self._parent_length, offsets.size
        else:
            offsets = offsets[offsets < self._parent_length]
            real = offsets.size
        shown = offsets if real else np.array([first], np.int64)
        elements = self._parent.read_many(shown + epoch * self._parent_length)
        if isinstance(elements, PartialRead):
            raise elements.error
        return self._make.map(Share(elements, real))

    def _failed(self, batches: list[Any], raised: Exception, index: int) -> PartialRead:
        error = as_failure(raised)
        note_element(error, self, index, self.describe_sources())
        return PartialRead(batches, error)

    @computed
    def is_dense(self) -> bool:
        return self._batch_fn is None

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {
            "shard": self._shard,
            "batch_size": self._batch_size,
            "remainder": self._remainder,
            "batch_fn": self._batch_fn,
        }
