"""The open datasets of an interleave, and how long their elements take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grain._policy import current_policy
from grain.dataset.chunk import END, Chunk
from grain.dataset.iterator import DatasetIterator, copied_state
from grain.dataset.parent_cursor import constant


class LatencyMonitor:
    """Decides whether an operation is slow every time.

    A machine that is busy elsewhere delays any operation now and then, so the fastest of the last few
    observations counts.

    Args:
        limit: Seconds above which the operation is slow.
        times: Observations needed; fewer suffice if all are far above the limit.
    """

    def __init__(self, limit: float, times: int):
        self._limit = limit
        self._times = times
        # Replaced as a whole: one thread may add while another reads.
        self._last: tuple[float, ...] = ()

    def add(self, seconds: float) -> None:
        """Add an observation."""
        self._last = (*self._last, seconds)[-self._times :]

    def rules_out(self, seconds: float) -> bool:
        """Return whether an observation of `seconds` shows that the operation is not always slow."""
        return seconds < self._limit

    def reset(self) -> None:
        """Discard all observations."""
        self._last = ()

    @property
    def slow(self) -> bool:
        """Whether the operation is worth a thread."""
        last = self._last
        if not last:
            return False
        few = len(last) < self._times
        return min(last) > self._limit * (current_policy().clearly_slow_factor if few else 1)

    @property
    def quick(self) -> bool:
        """Whether the operation is worth no thread, even if it was before."""
        return bool(self._last) and min(self._last) < self._limit / 4


class CycleSlot:
    """One open dataset of an interleave.

    Attributes:
        number: Which of the datasets it is.
        iterator: The dataset's iterator; None until it is opened.
        chunk: The chunk that was read last; it stays when all of it was taken.
        taken: Number of elements of the chunk that were taken.
        state: Function of the dataset's state after what was taken; None until it is opened.
        first: The iterator's state when it was opened.
        exhausted: Whether the slot waits for another dataset.
        ended: Whether the end was read, before the slot is due.
        error: The error that was read instead of an element, before the slot is due.
        dropped: Whether the slot is no longer read.
        reads_ahead: Whether a thread reads it.
    """

    __slots__ = (
        "_latency",
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
        # Made when it is needed first, as many slots are never observed.
        self._latency: LatencyMonitor | None = None
        self.reads_ahead = False
        self.chunk = END
        self.taken = 0

    @property
    def latency(self) -> LatencyMonitor:
        """How long its elements take."""
        if self._latency is None:
            self._latency = element_latency()
        return self._latency

    def set_chunk(self, chunk: Chunk) -> None:
        """Hold the chunk that was read."""
        self.chunk = chunk
        self.taken = 0

    @property
    def available(self) -> int:
        """Number of elements that were read and not taken."""
        return len(self.chunk.elements) - self.taken

    def take(self, count: int) -> list[Any]:
        """Take `count` of the available elements."""
        start = self.taken
        self.taken = start + count
        self.state = self.chunk.snapshot(self.taken - 1)
        return self.chunk.elements[start : self.taken]

    def hold_state(self) -> None:
        """Capture the states of a live chunk, which are lost once the dataset is read further."""
        if self.chunk.live and self.state is not None:
            # Copies, since a user's iterator may return the same object each time.
            before = copied_state(self.state())
            offsets = range(len(self.chunk.elements))
            states = [copied_state(self.chunk.state_after(offset)) for offset in offsets]
            self.chunk = Chunk(self.chunk.elements, states.__getitem__)
            self.state = constant(before)

    def drop(self) -> None:
        """Close the dataset, unless it was closed at its end."""
        self.dropped = True
        if self.iterator is not None and not self.exhausted:
            self.iterator.close()


def element_latency() -> LatencyMonitor:
    """Return a monitor of elements: slow ones are read ahead in a thread."""
    policy = current_policy()
    return LatencyMonitor(policy.slow_element_seconds, policy.element_latency_samples)


def opening_latency() -> LatencyMonitor:
    """Return a monitor of openings: datasets that open slowly are opened ahead."""
    policy = current_policy()
    return LatencyMonitor(policy.slow_open_seconds, policy.open_latency_samples)
