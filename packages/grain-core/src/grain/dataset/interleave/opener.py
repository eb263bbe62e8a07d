"""Opening the datasets of an interleave: when their slot is due, or ahead if opening is slow.

The consumer opens datasets itself until openings or elements prove to be slow. Then threads open
datasets ahead and read them, through the `Opener` and `Ahead` that the execution layer provides. Elements,
their order and states never depend on it. An error of an opening is raised when its slot is due, except that
`set_state` opens datasets whose state only their iterator can judge, and refuses the state with the error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from grain._policy import current_policy
from grain.dataset.chunk import Chunk
from grain.dataset.context import IterationContext, iteration_context
from grain.dataset.entry_points import executors
from grain.dataset.interleave.cycle import (
    CycleSlot,
    LatencyMonitor,
    element_latency,
    opening_latency,
)
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import DatasetIterator
from grain.dataset.map_dataset import MapDataset
from grain.dataset.parent_cursor import constant


@dataclasses.dataclass
class Opened:
    """A dataset that was opened.

    Attributes:
        iterator: The dataset's iterator.
        state: The iterator's state before anything was read.
        chunk: The first elements; empty at the end, None if nothing was read.
        error: The error that was raised instead of the first element.
        seconds: Time that opening and reading took.
        reads_ahead: Whether a thread reads the iterator.
    """

    iterator: DatasetIterator[Any]
    state: Any
    chunk: Chunk | None = None
    error: Exception | None = None
    seconds: float = 0.0
    reads_ahead: bool = False


class Opener(Protocol):
    """Opens datasets ahead."""

    def submit(self, number: int, job: Callable[[], Opened]) -> None:
        """Run `job` ahead, once for each number."""

    def take(self, number: int) -> Opened | None:
        """Wait for the result of a job and return it; None without a job. A job's error is raised."""

    def close(self) -> None:
        """Close the iterators that were not taken."""


class Ahead(Protocol):
    """The execution layer's way to open datasets and read them ahead."""

    def opener(self, threads: int) -> Opener:
        """Return an opener that works on `threads` datasets at a time."""

    def reading(
        self, iterator: DatasetIterator[Any], size: int, note: Callable[[float], None]
    ) -> DatasetIterator[Any]:
        """Return an iterator that reads `iterator` up to `size` elements ahead.

        `note` is called with the seconds that each element took.
        """

    def back(self, reading: DatasetIterator[Any]) -> DatasetIterator[Any]:
        """Return the iterator that `reading` was made of, at the consumer's position."""


def ahead() -> Ahead:
    """Return what reads ahead in this process."""
    found: Ahead = executors().ahead()
    return found


class IteratorOpener:
    """Opens datasets by their number.

    A state that is requested late may need a dataset to be opened, so state functions hold this object;
    it holds neither chunks nor slots.

    Args:
        datasets: A sequence of datasets.
        context: The context in which they are opened.
        threads: Number of datasets that may be opened ahead at a time; 0 opens each when it is due.
        buffer: Number of elements of each that may be read ahead.
        open_dataset: Function that makes iterators computed by workers; then no threads are used.
    """

    def __init__(
        self,
        datasets: Any,
        context: IterationContext,
        threads: int,
        buffer: int,
        open_dataset: Callable[[Any], DatasetIterator[Any]] | None = None,
    ):
        self._datasets = datasets
        self._open_dataset = open_dataset
        self._context = context
        self._threads = threads
        self._buffer = buffer
        self._opener: Opener | None = None
        # Iterators that workers compute, opened ahead, by the number of their dataset.
        self._made: dict[int, DatasetIterator[Any]] = {}
        # Slow openings and elements are computed ahead.
        self._opening = opening_latency()
        self._reading = element_latency()
        # Read-ahead threads that did not pay off.
        self._reversals = 0
        self._max_reversals = current_policy().max_read_ahead_reversals
        self.eager = False

    @property
    def in_threads(self) -> bool:
        """Whether threads may open and read datasets: workers are called from one thread only."""
        return self._open_dataset is None

    @property
    def slow_to_open(self) -> bool:
        """Whether datasets should be opened ahead."""
        return self.in_threads and (self.eager or self._opening.slow)

    def open(self, slot: CycleSlot) -> DatasetIterator[Any]:
        """Return the iterator of a slot, opened at first use."""
        if slot.iterator is None:
            opened = self._opened(slot)
            self._opening.add(opened.seconds)
            chunk, state = opened.chunk, constant(opened.state)
            # No call until the iterator is set: an interrupt comes before or after all of it.
            if slot.state is None:
                slot.state = state
            slot.error, slot.reads_ahead = opened.error, opened.reads_ahead
            if chunk is not None:
                slot.chunk, slot.taken, slot.ended = chunk, 0, not chunk.elements
            slot.iterator, slot.first = opened.iterator, opened.state
            if slot.dropped:  # A state was requested after the end.
                slot.iterator.close()
        return slot.iterator

    def first_state(self, slot: CycleSlot) -> Any:
        """Return the state in which the dataset of a slot was opened."""
        self.open(slot)
        return slot.first

    def _opened(self, slot: CycleSlot) -> Opened:
        if not self.in_threads:
            return self._opened_by_workers(slot)
        opened = None if self._opener is None else self._opener.take(slot.number)
        return opened or _open(self._datasets, slot.number, slot.state, self._context)

    def _opened_by_workers(self, slot: CycleSlot) -> Opened:
        iterator = self._made.pop(slot.number, None)
        if iterator is None:
            iterator = self._make(slot.number)
        try:
            return _at(iterator, slot.state)
        except Exception:
            self._made[slot.number] = iterator
            raise

    def ahead(
        self, slots: Iterable[CycleSlot], more: Iterable[CycleSlot], start: bool = False
    ) -> None:
        """Open ahead, concurrently, the datasets that are read next.

        Args:
            slots: Slots of the cycle.
            more: Slots of the datasets that follow.
            start: Whether the iterators start their own prefetch at once.
        """
        wanted = [slot for slot in (*slots, *more) if slot.iterator is None and not slot.exhausted]
        if not self.in_threads:
            self._ahead_by_workers(wanted)
        elif self._threads:
            if self._opener is None:
                self._opener = ahead().opener(self._threads)
            for slot in wanted:
                self._opener.submit(slot.number, self._job(slot.number, slot.state, start))

    def _ahead_by_workers(self, slots: list[CycleSlot]) -> None:
        numbers = [
            slot.number for slot in slots if slot.state is None and slot.number not in self._made
        ]
        # An error is raised when the slot is due, as without workers.
        for number in numbers:
            with contextlib.suppress(Exception):
                self._made[number] = self._make(number)
        # All are made before the first one is used, so that they are sent together.
        for number in numbers:
            with contextlib.suppress(Exception):
                self._made[number].start_prefetch()

    def _make(self, number: int) -> DatasetIterator[Any]:
        return _make(self._datasets, number, self._context, self._open_dataset)

    def _job(
        self, number: int, state: Callable[[], Any] | None, start: bool
    ) -> Callable[[], Opened]:
        # The job must not hold this object, which may be dropped while a thread opens a dataset.
        datasets, context, buffer = self._datasets, self._context, self._buffer
        slow_to_read, note = self._reading.slow, self._reading.add

        def job() -> Opened:
            started = time.perf_counter()
            opened = _open(datasets, number, state, context)
            iterator = opened.iterator
            if start:
                iterator.start_prefetch()
            if not buffer:
                return opened
            if slow_to_read:
                reading = ahead().reading(iterator, buffer, note)
                reading.start_prefetch()
                return dataclasses.replace(
                    opened, iterator=reading, reads_ahead=reading is not iterator
                )
            try:
                opened = dataclasses.replace(opened, chunk=iterator.next_chunk(1))
            except Exception as error:
                opened = dataclasses.replace(opened, error=error)
            return dataclasses.replace(opened, seconds=time.perf_counter() - started)

        return job

    def consider_read_ahead(self, slot: CycleSlot, seconds: float) -> None:
        """Start a thread that reads a slot ahead if its elements are slow."""
        if not self.in_threads or not self._buffer or slot.reads_ahead or not slot.available:
            return
        seconds /= slot.available
        if slot.latency.rules_out(seconds):
            self._reading.reset()
            slot.latency.reset()
            return
        self._note(slot.latency, seconds)
        # Short datasets are judged by what they have in common.
        if (slot.latency.slow or self._reading.slow) and self._reversals < self._max_reversals:
            assert slot.iterator is not None
            slot.hold_state()
            note = functools.partial(self._note, slot.latency)
            reading = ahead().reading(slot.iterator, self._buffer, note)
            slot.reads_ahead = reading is not slot.iterator
            slot.iterator = reading
            reading.start_prefetch()

    def _note(self, latency: LatencyMonitor, seconds: float) -> None:
        latency.add(seconds)
        self._reading.add(seconds)

    def reconsider_read_ahead(self, slot: CycleSlot) -> None:
        """Stop the thread of a slot whose elements turned out to be quick."""
        if slot.reads_ahead and slot.latency.quick:
            assert slot.iterator is not None
            slot.iterator = ahead().back(slot.iterator)
            slot.reads_ahead = False
            self._reversals += 1

    def successor(self) -> IteratorOpener:
        """Return a new opener of the same datasets, with the latencies that were measured."""
        opener = IteratorOpener(
            self._datasets, self._context, self._threads, self._buffer, self._open_dataset
        )
        opener._opening, opener._reading = self._opening, self._reading
        opener._reversals, opener.eager = self._reversals, self.eager
        return opener

    def close(self) -> None:
        """Close what was opened and not taken; later requests open datasets again."""
        if self._opener is not None:
            self._opener.close()
            self._opener = None
        for iterator in self._made.values():
            iterator.close()
        self._made.clear()


def check_dataset(dataset: Any, number: int) -> None:
    """Raise an error for an item that is no dataset."""
    if not isinstance(dataset, (IterDataset, MapDataset)):
        raise TypeError(
            f"InterleaveIterDataset needs datasets, but item {number} is {dataset!r} of type "
            f"{type(dataset).__name__}."
        )


def _open(
    datasets: Any, number: int, state: Callable[[], Any] | None, context: IterationContext
) -> Opened:
    """Open a dataset at a state, or at its start."""
    started = time.perf_counter()
    iterator = _make(datasets, number, context)
    try:
        return dataclasses.replace(_at(iterator, state), seconds=time.perf_counter() - started)
    except BaseException:
        iterator.close()
        raise


def _at(iterator: DatasetIterator[Any], state: Callable[[], Any] | None) -> Opened:
    if state is None:
        return Opened(iterator, iterator.get_state())
    iterator.set_state(state())
    return Opened(iterator, state())


def _make(
    datasets: Any,
    number: int,
    context: IterationContext,
    open_dataset: Callable[[Any], DatasetIterator[Any]] | None = None,
) -> DatasetIterator[Any]:
    dataset = datasets[number]
    check_dataset(dataset, number)
    iterator: DatasetIterator[Any]
    with iteration_context(context):
        iterator = dataset.__iter__() if open_dataset is None else open_dataset(dataset)
    return iterator
