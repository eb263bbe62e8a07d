"""Shuffling inside windows: elements move only a little, and reading stays sequential."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import numpy as np

from grain.dataset import epochs
from grain.dataset.chunk import END, Chunk
from grain.dataset.index_transform import IndexTransformMapDataset
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.map_dataset import MapDataset
from grain.dataset.node import written_form
from grain.dataset.parent_cursor import ParentCursor
from grain.dataset.validation import checked_iter_parent, checked_map_parent
from grain.index.permutation import (
    IndexArray,
    permute,
    shuffle_epochs,
    shuffle_one,
    shuffle_one_in_window,
    shuffle_windows,
)
from grain.options import checked_int

T = TypeVar("T")

# A large window needs little memory beside its elements.
_PERMUTED_AT_ONCE = 1 << 14


def _checked_seed(seed: Any) -> int:
    number = checked_int("seed", seed, least=-(2**63))
    if not 0 <= number < 2**32:
        # Message kept from google/grain 0.2.18
        raise ValueError(f"Seed must be an integer between 0 and 2**32-1 (got seed={number}).")
    return number


class WindowShuffleMapDataset(IndexTransformMapDataset[T]):
    """Windows of consecutive elements, each shuffled inside itself.

    Args:
        parent: The dataset.
        window_size: Number of elements of a window.
        seed: Seed of the order; every window is shuffled differently.
        within_epochs: Whether windows end at the end of an epoch. When they are not, and the window
            size does not divide the length, a window reaches from one epoch into the next: over many
            epochs every element comes equally often, but one epoch alone lacks some and has others twice.

    >>> import grain
    >>> list(WindowShuffleMapDataset(grain.MapDataset.range(6), window_size=3, seed=1))
    [1, 2, 0, 3, 5, 4]
    """

    fingerprint_name = "window_shuffle"
    is_random = True

    def __init__(
        self, parent: MapDataset[T], *, window_size: int, seed: int, within_epochs: bool = False
    ):
        super().__init__(checked_map_parent("WindowShuffleMapDataset", parent))
        self._window_size = checked_int("window_size", window_size, least=1)
        self._seed = _checked_seed(seed)
        self._within_epochs = within_epochs
        self._length = len(parent)

    def __len__(self) -> int:
        return self._length

    def _parent_indices(self, indices: IndexArray) -> IndexArray:
        if self._within_epochs:
            return shuffle_windows(indices, self._length, self._window_size, self._seed)
        # Windows are like the epochs of a dataset of the window's size.
        return shuffle_epochs(indices, self._window_size, self._seed)

    def _parent_index(self, index: int) -> int:
        if self._within_epochs:
            return shuffle_one_in_window(index, self._length, self._window_size, self._seed)
        return shuffle_one(index, self._window_size, self._seed)

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {
            "window_size": self._window_size,
            "seed": self._seed,
            "within_epochs": self._within_epochs,
        }

    def written_call(self) -> str:
        return written_form.call("window_shuffle", self._window_size, seed=self._seed)


class WindowShuffleIterDataset(IterDataset[T]):
    """Windows of elements, each in shuffled order."""

    fingerprint_name = "window_shuffle"
    is_random = True
    preserves_elements = True

    def __init__(self, parent: IterDataset[T], *, window_size: int, seed: int):
        super().__init__(checked_iter_parent(type(self).__name__, parent))
        self._window_size = checked_int("window_size", window_size, least=1)
        self._seed = _checked_seed(seed)

    def for_epoch(self, epoch: int) -> Self:
        node = super().for_epoch(epoch)
        node._seed = epochs.epoch_seed(self._seed, epoch)
        return node

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return WindowShuffleDatasetIterator(parents[0], self._window_size, self._seed)

    def known_length(self) -> int | None:
        length: int | None = self._parent.known_length()
        return length

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"window_size": self._window_size, "seed": self._seed}


class WindowShuffleDatasetIterator(ChunkIterator[T]):
    """An iterator that reads window by window.

    The state is the parent's before the window, the number of the window (already the next one when all
    of it was returned), and the number of its elements that were returned; restoring reads the window
    again.
    """

    def __init__(self, parent: DatasetIterator[T], window_size: int, seed: int):
        super().__init__(parent)
        self._size = window_size
        self._seed = seed
        self._cursor = ParentCursor(parent)
        self._begin(window_index=0, given=0)

    def __str__(self) -> str:
        return type(self).__name__

    def _begin(self, window_index: int, given: int) -> None:
        self._cursor.reset()
        self._before: Callable[[], Any] = self._cursor.end()
        self._index = window_index
        self._given = given
        self._window: list[Any] = []
        # Elements of the current window that were returned before the state was saved.
        self._skip = given

    def _pull(self, limit: int) -> Chunk:
        while self._given >= len(self._window):
            before, window = self._read_window()
            if not window:
                return END
            skip, self._skip = self._skip, 0
            self._before = before
            if skip >= len(window):
                # The state was saved when all of this window had been returned.
                continue
            self._window, self._given = self._shuffled(window), skip
        size, first = len(self._window), self._given
        elements = self._window[first : first + max(1, limit)]
        self._given += len(elements)
        before, index = self._before, self._index
        if self._given == size:
            self._index += 1

        def state_after(offset: int) -> Any:
            given = first + offset + 1
            return _state(before, index + (given == size), given)

        return Chunk(elements, state_after)

    def _read_window(self) -> tuple[Callable[[], Any], list[Any]]:
        """Return the parent's state before the next window, and the window in the parent's order."""
        size = self._size
        window: list[Any] = []
        before = self._before
        while len(window) < size and (elements := self._cursor.pull(size - len(window))):
            if not window:
                before = self._cursor.before(0)
            missing = size - len(window)
            window += elements[:missing]
            if len(elements) > missing:
                self._cursor.keep(missing)
        return before, window

    def _shuffled(self, window: list[Any]) -> list[Any]:
        last = len(window) - 1
        seed = (self._seed + self._index) % 2**32
        shuffled: list[Any] = []
        for first in range(last, -1, -_PERMUTED_AT_ONCE):
            offsets = np.arange(first, max(first - _PERMUTED_AT_ONCE, -1), -1, dtype=np.int64)
            shuffled += [window[offset] for offset in permute(offsets, last, seed).tolist()]
        return shuffled

    def _live_state(self) -> Any:
        return _state(self._before, self._index, self._given)

    def _restore(self, state: Any) -> None:
        index = int(state_field(state, "window_index", self))
        given = int(state_field(state, "pos_in_window", self))
        self._parent.restore_as_parent(state_field(state, "parent_window_start_state", self))
        self._begin(index, given)


def _state(before: Callable[[], Any], index: int, given: int) -> dict[str, Any]:
    return {
        "parent_window_start_state": before(),
        "window_index": index,
        "pos_in_window": given,
    }
