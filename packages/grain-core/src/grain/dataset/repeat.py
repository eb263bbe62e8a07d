"""Repetition: several epochs, or endlessly many."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from grain.dataset.chunk import END, Chunk
from grain.dataset.combined import CombinedReader, ReindexedReader
from grain.dataset.index_transform import IndexTransformMapDataset
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, count_field, state_field
from grain.dataset.map_dataset import MapDataset
from grain.dataset.validation import checked_iter_parent
from grain.index.permutation import IndexArray
from grain.options import checked_int

T = TypeVar("T")


class RepeatMapDataset(IndexTransformMapDataset[T]):
    """The parent's epochs in order, or its first epoch again and again."""

    fingerprint_name = "repeat"

    def __init__(
        self, parent: MapDataset[T], num_epochs: int | None = None, reseed_each_epoch: bool = True
    ):
        super().__init__(parent)
        length = len(parent)
        if num_epochs is not None:
            num_epochs = checked_int("num_epochs", num_epochs, least=-(2**63))
            if num_epochs <= 0:
                # Message kept from google/grain 0.2.18
                raise ValueError(f"num_epochs must be positive, but got {num_epochs}.")
        if length >= sys.maxsize:
            # Message kept from google/grain 0.2.18
            raise ValueError(f"Repeating already infinite dataset {parent} does nothing.")
        self._num_epochs = num_epochs
        self._reseed = reseed_each_epoch
        self._parent_length = length
        endless = sys.maxsize if length else 0
        self._length = endless if num_epochs is None else min(num_epochs * length, sys.maxsize)

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return f"RepeatMapDataset(num_epochs={self._num_epochs})"

    def _parent_indices(self, indices: IndexArray) -> IndexArray:
        return indices if self._reseed else indices % self._parent_length

    def _parent_index(self, index: int) -> int:
        return index if self._reseed else index % self._parent_length

    @classmethod
    def combine(cls, nodes: Sequence[RepeatMapDataset[Any]]) -> CombinedReader | None:
        if all(node._reseed for node in nodes):
            return ReindexedReader(nodes, lambda chosen, indices: indices)
        return None

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"num_epochs": self._num_epochs, "same_each_epoch": not self._reseed}

    def written_call(self) -> str:
        epochs = () if self._num_epochs is None else (self._num_epochs,)
        same = "" if self._reseed else f"{', ' if epochs else ''}reseed_each_epoch=False"
        return f"repeat({', '.join(map(str, epochs))}{same})"


class RepeatIterDataset(IterDataset[T]):
    """A dataset repeated several times, or without end; every epoch is like the first.

    To shuffle and transform differently in every epoch, repeat the `MapDataset` instead.

    >>> import grain
    >>> list(RepeatIterDataset(grain.MapDataset.range(2).to_iter_dataset(), 2))
    [0, 1, 0, 1]
    """

    fingerprint_name = "repeat"
    preserves_elements = True

    def __init__(self, parent: IterDataset[T], num_epochs: int | None = None):
        super().__init__(checked_iter_parent(type(self).__name__, parent))
        if num_epochs is not None:
            num_epochs = checked_int("num_epochs", num_epochs, least=-(2**63))
            if num_epochs <= 0:
                # Message kept from google/grain 0.2.18
                raise ValueError(f"num_epochs must be positive, but got {num_epochs}.")
        self._num_epochs = num_epochs

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return RepeatDatasetIterator(parents[0], self._num_epochs)

    def __str__(self) -> str:
        return f"RepeatIterDataset(num_epochs={self._num_epochs})"

    def known_length(self) -> int | None:
        length = self._parent.known_length()
        if length is None or self._num_epochs is None:
            return 0 if length == 0 else None
        return int(length * self._num_epochs)

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"num_epochs": self._num_epochs}


class RepeatDatasetIterator(ChunkIterator[T]):
    """An iterator that sets its parent back to the start at the end of each epoch."""

    def __init__(self, parent: DatasetIterator[T], num_epochs: int | None):
        super().__init__(parent)
        self._num_epochs = num_epochs
        self._start = parent.get_state()
        self._epoch = 0

    def __str__(self) -> str:
        return f"RepeatDatasetIterator(num_epochs={self._num_epochs})"

    def _pull(self, limit: int) -> Chunk:
        fresh = False
        while self._num_epochs is None or self._epoch < self._num_epochs:
            chunk = self._parent.next_chunk(limit)
            if chunk.elements:
                return self._in_this_epoch(chunk)
            if fresh and self._num_epochs is None:
                return END  # There is nothing to repeat.
            self._epoch += 1
            if self._epoch == self._num_epochs:
                break
            self._parent.set_state(self._start)
            fresh = True
        return END

    def _in_this_epoch(self, chunk: Chunk) -> Chunk:
        epoch, state_after = self._epoch, chunk.state_after
        return Chunk(
            chunk.elements,
            lambda offset: {"parent": state_after(offset), "epoch": epoch},
            chunk.live,
        )

    def _live_state(self) -> Any:
        return _state(self._parent.get_state, self._epoch)

    def _live_state_function(self) -> Callable[[], Any]:
        below = self._parent.state_function()
        if below is None:
            return super()._live_state_function()
        return partial(_state, below, self._epoch)

    def _restore(self, state: Any) -> None:
        epoch = count_field(state, "epoch", self)
        self._parent.restore_as_parent(state_field(state, "parent", self))
        self._epoch = epoch


def _state(below: Callable[[], Any], epoch: int) -> dict[str, Any]:
    return {"parent": below(), "epoch": epoch}
