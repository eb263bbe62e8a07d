"""Limiting a dataset to its first elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from grain.dataset.chunk import END, Chunk
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import (
    ChunkIterator,
    DatasetIterator,
    captured_state,
    count_field,
    state_field,
)
from grain.dataset.validation import checked_iter_parent
from grain.options import checked_int

T = TypeVar("T")


class LimitIterDataset(IterDataset[T]):
    """At most the first `count` elements of a dataset.

    >>> import grain
    >>> list(LimitIterDataset(grain.MapDataset.range(10).to_iter_dataset(), 3))
    [0, 1, 2]
    """

    fingerprint_name = "limit"
    may_end_early = True
    preserves_elements = True

    def __init__(self, parent: IterDataset[T], count: int):
        super().__init__(checked_iter_parent(type(self).__name__, parent))
        self._count = checked_int("count", count, least=-(2**63))
        if self._count <= 0:
            # Message kept from google/grain 0.2.18
            raise ValueError(f"Count must be a positive integer. Got {count}")

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return LimitDatasetIterator(parents[0], self._count)

    def __str__(self) -> str:
        return f"LimitIterDataset(count={self._count})"

    def known_length(self) -> int | None:
        length = self._parent.known_length()
        return None if length is None else min(length, self._count)

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"count": self._count}


class LimitDatasetIterator(ChunkIterator[T]):
    """An iterator that counts elements, and requests no more of its parent than are left."""

    def __init__(self, parent: DatasetIterator[T], count: int):
        super().__init__(parent)
        self._count = count
        self._begin(0)

    def __str__(self) -> str:
        return f"LimitDatasetIterator(count={self._count})"

    def _begin(self, read: int) -> None:
        self._read = read
        # Not the parent's own state: the parent may return more elements than requested.
        self._snapshot: Callable[[], Any] = captured_state(self._parent)
        self._is_live = False

    def _pull(self, limit: int) -> Chunk:
        left = self._count - self._read
        if left <= 0:
            return END
        try:
            chunk = self._parent.next_chunk(min(limit, left))
        except Exception:
            # The element that failed is lost: the stream resumes after it.
            self._snapshot, self._is_live = captured_state(self._parent), False
            raise
        if not chunk.elements:
            self._snapshot, self._is_live = captured_state(self._parent), False
            return END
        chunk = chunk.first(left)
        first, state_after = self._read + 1, chunk.state_after
        self._read += len(chunk.elements)
        self._snapshot, self._is_live = chunk.snapshot(len(chunk.elements) - 1), chunk.live
        return Chunk(
            chunk.elements,
            lambda offset: {"parent": state_after(offset), "count_elements_read": first + offset},
            chunk.live,
        )

    def index_from_state(self, state: Any) -> int:
        return count_field(state, "count_elements_read", self)

    def state_from_index(self, index: int) -> Any:
        return {"parent": self._parent.state_from_index(index), "count_elements_read": index}

    def _live_state(self) -> Any:
        return _state(self._snapshot, self._read)

    def _live_state_function(self) -> Callable[[], Any]:
        if self._is_live:
            return super()._live_state_function()
        return partial(_state, self._snapshot, self._read)

    def _restore(self, state: Any) -> None:
        read = count_field(state, "count_elements_read", self)
        self._parent.restore_as_parent(state_field(state, "parent", self))
        self._begin(read)


def _state(below: Callable[[], Any], read: int) -> dict[str, Any]:
    return {"parent": below(), "count_elements_read": read}
