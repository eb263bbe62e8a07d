"""A dataset that is read by turns with others: what was read of it, and where it stands."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from grain.dataset.chunk import END, Chunk
from grain.dataset.iterator import DatasetIterator
from grain.dataset.parent_cursor import constant

# Something that took longer than this many times the limit is slow without more evidence.
_CLEARLY = 25


class LatencyMonitor:
    """Tells whether something is always slow.

    A machine that is busy elsewhere makes anything slow now and then, so the fastest of the last few
    times counts.

    Args:
      limit: how many seconds are slow.
      times: how often it must be seen; less often if it is clearly slow.
    """

    def __init__(self, limit: float, times: int):
        self._limit = limit
        self._times = times
        # Replaced as a whole: one thread may add while another asks.
        self._last: tuple[float, ...] = ()

    def add(self, seconds: float) -> None:
        """Notes how long it took."""
        self._last = (*self._last, seconds)[-self._times :]

    def rules_out(self, seconds: float) -> bool:
        """Whether something that took so long is not always slow."""
        return seconds < self._limit

    def forget(self) -> None:
        """Begins anew."""
        self._last = ()

    @property
    def slow(self) -> bool:
        """Whether it is worth a thread."""
        last = self._last
        few = len(last) < self._times
        return bool(last) and min(last) > self._limit * (_CLEARLY if few else 1)

    @property
    def quick(self) -> bool:
        """Whether it is worth none, even if it was before."""
        return bool(self._last) and min(self._last) < self._limit / 4


class CycleSlot:
    """A place in the cycle: a dataset that is being read.

    Attributes:
      number: which of the datasets it is.
      iterator: over the dataset; None until it is opened.
      chunk: what was read last; it stays here when all of it was taken.
      taken: how many elements of the chunk were taken.
      state: where the dataset stands after what was taken; None until it is opened.
      first: where the iterator stood when it was opened.
      exhausted: whether the place waits for another dataset.
      ended: whether the end was read, though it is not this dataset's turn yet.
      error: what was read instead of an element, likewise.
      dropped: whether nobody reads it any more.
      watch: how long its elements take.
      reads_ahead: whether a thread reads it.
    """

    __slots__ = (
        "chunk",
        "dropped",
        "ended",
        "error",
        "exhausted",
        "first",
        "iterator",
        "number",
        "reads_ahead",
        "state",
        "taken",
        "watch",
    )

    def __init__(self, number: int, state: Any = None, exhausted: bool = False):
        self.number = number
        self.exhausted = exhausted
        self.iterator: DatasetIterator[Any] | None = None
        self.state: Callable[[], Any] | None = None if state is None else constant(state)
        self.first: Any = None
        self.ended = False
        self.error: Exception | None = None
        self.dropped = False
        self.watch = watch_of_elements()
        self.reads_ahead = False
        self.set_chunk(END)

    def set_chunk(self, chunk: Chunk) -> None:
        """Holds what was read."""
        self.chunk = chunk
        self.taken = 0

    @property
    def available(self) -> int:
        """How many elements were read and not taken."""
        return len(self.chunk.elements) - self.taken

    def take(self, count: int) -> list[Any]:
        """Takes elements that are available."""
        start = self.taken
        self.taken = start + count
        self.state = self.chunk.snapshot(self.taken - 1)
        return self.chunk.elements[start : self.taken]

    def hold_state(self) -> None:
        """Asks for a state that cannot be asked for any more once the dataset is read on."""
        if self.chunk.live and self.state is not None:
            # Copies, for a user's iterator may give the same object each time.
            before = copy.deepcopy(self.state())
            places = range(len(self.chunk.elements))
            states = [copy.deepcopy(self.chunk.state_after(place)) for place in places]
            self.chunk = Chunk(self.chunk.elements, states.__getitem__)
            self.state = constant(before)

    def drop(self) -> None:
        """Closes the dataset, unless its end was closed before."""
        self.dropped = True
        if self.iterator is not None and not self.exhausted:
            self.iterator.close()


def watch_of_elements() -> LatencyMonitor:
    """Tells whether elements come so slowly that a thread should read them ahead."""
    return LatencyMonitor(limit=0.0002, times=8)


def watch_of_openings() -> LatencyMonitor:
    """Tells whether datasets take so long to open that it should be done before their turn."""
    return LatencyMonitor(limit=0.001, times=3)
