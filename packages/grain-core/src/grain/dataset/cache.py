"""Caching the elements of a dataset in memory, for the epochs after the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from grain._policy import current_policy
from grain.dataset.chunk import END, Chunk
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, count_field, state_field
from grain.dataset.parent_cursor import constant
from grain.dataset.validation import checked_iter_parent

T = TypeVar("T")


class CacheIterDataset(IterDataset[T]):
    """The elements of a dataset, cached so that `RepeatIterDataset` reads its parent once.

    Elements are not copied: operations that follow must not change them in place.

    >>> import grain
    >>> cached = CacheIterDataset(grain.MapDataset.range(2).to_iter_dataset())
    >>> list(grain.experimental.RepeatIterDataset(cached, 2))
    [0, 1, 0, 1]
    """

    fingerprint_name = "cache"
    preserves_elements = True

    def __init__(self, parent: IterDataset[T]):
        super().__init__(checked_iter_parent(type(self).__name__, parent))

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return CacheDatasetIterator(parents[0])

    def __str__(self) -> str:
        return f"CacheIterDataset(parent={self._parent})"

    def known_length(self) -> int | None:
        length: int | None = self._parent.known_length()
        return length


class CacheDatasetIterator(ChunkIterator[T]):
    """An iterator that fills its cache while it reads its parent for the first time.

    The cache of a new iterator is empty: after restoring a state it reads earlier elements again.
    """

    def __init__(self, parent: DatasetIterator[T]):
        super().__init__(parent)
        self._start = parent.get_state()
        self._max_chunk = current_policy().max_chunk
        self._cache: list[Any] = []
        self._filled = False
        self._position = 0
        self._snapshot: Callable[[], Any] = constant(self._start)

    def __str__(self) -> str:
        return type(self).__name__

    def _pull(self, limit: int) -> Chunk:
        while not self._filled:
            # Elements before a restored position are needed in any case.
            missing = min(self._position - len(self._cache), self._max_chunk)
            chunk = self._parent.next_chunk(max(limit, missing))
            if not chunk.elements:
                self._filled = True
                self._snapshot = constant(self._parent.get_state())
                break
            known = len(self._cache)
            self._cache += chunk.elements
            if len(self._cache) > self._position:
                chunk = chunk.rest(self._position - known)
                return self._chunk_of(chunk.elements, chunk.state_after, chunk.live)
            # Elements before the restored position.
        elements = self._cache[self._position : self._position + max(1, limit)]
        snapshot = self._snapshot
        return self._chunk_of(elements, lambda _: snapshot()) if elements else END

    def _chunk_of(
        self, elements: list[Any], parent_state: Callable[[int], Any], live: bool = False
    ) -> Chunk:
        first, filled = self._position + 1, self._filled
        self._position += len(elements)
        if not filled:
            last = len(elements) - 1
            self._snapshot = lambda: parent_state(last)
        return Chunk(
            elements, lambda offset: _state(parent_state(offset), first + offset, filled), live
        )

    def _live_state(self) -> Any:
        return _state(self._snapshot(), self._position, self._filled)

    def _restore(self, state: Any) -> None:
        position = count_field(state, "position", self)
        parent_state = state_field(state, "parent", self)
        if not self._filled:
            self._cache = []
            self._parent.restore_as_parent(self._start)
        self._position = position
        self._snapshot = constant(parent_state)


def _state(parent: Any, position: int, filled: bool) -> dict[str, Any]:
    return {"parent": parent, "position": position, "cache_filled": filled}
