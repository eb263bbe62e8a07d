"""Opening the datasets that are read by turns: when their turn comes, or before if that takes long."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from grain.dataset.chunk import Chunk
from grain.dataset.context import IterationContext, executors, iteration_context
from grain.dataset.interleave.cycle import (
    CycleSlot,
    LatencyMonitor,
    watch_of_elements,
    watch_of_openings,
)
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import DatasetIterator
from grain.dataset.map_dataset import MapDataset
from grain.dataset.parent_cursor import constant

# Whoever is wrong about threads so often leaves it.
_MOST_RETURNS = 64


class Opened(NamedTuple):
    """A dataset that was opened before its turn came.

    Attributes:
      iterator: over the dataset.
      state: where it stood before anything was read.
      chunk: the first elements; none at the end, None if nothing was read.
      error: what came instead of the first element.
      seconds: how long all that took.
      reads_ahead: whether a thread reads on.
    """

    iterator: DatasetIterator[Any]
    state: Any
    chunk: Chunk | None = None
    error: Exception | None = None
    seconds: float = 0.0
    reads_ahead: bool = False


class Opener(Protocol):
    """Opens datasets before their turn comes."""

    def submit(self, number: int, job: Callable[[], Opened]) -> None:
        """Lets somebody do `job`; once for each number."""

    def take(self, number: int) -> Opened | None:
        """What a job returned, waiting for it; None if there is none; an error is raised here."""

    def close(self) -> None:
        """Forgets what was not taken, and closes it."""


class Ahead(Protocol):
    """Who opens datasets and reads them ahead in this process."""

    def opener(self, threads: int) -> Opener:
        """Makes an opener that works on as many datasets at a time."""

    def reading(
        self, iterator: DatasetIterator[Any], size: int, note: Callable[[float], None]
    ) -> DatasetIterator[Any]:
        """The same iterator, read up to `size` elements ahead.

        `note` is told how many seconds each element took.
        """

    def back(self, reading: DatasetIterator[Any]) -> DatasetIterator[Any]:
        """The iterator that `reading` was made of, where the consumer stands."""


def ahead() -> Ahead:
    """Who reads ahead in this process."""
    found: Ahead = executors().ahead()
    return found


class Openings:
    """Opens datasets by their number.

    States that are asked late may need a dataset to be opened, so they hold this object; it holds
    neither what was read nor who reads.

    Args:
      datasets: a sequence of datasets.
      context: in which they are opened.
      threads: how many may be opened at a time before their turn; 0 opens each when its turn comes.
      buffer: how many elements each may be read ahead of its consumer.
    """

    def __init__(self, datasets: Any, context: IterationContext, threads: int, buffer: int):
        self._datasets = datasets
        self._context = context
        self._threads = threads
        self._buffer = buffer
        self._opener: Opener | None = None
        # Iterators that an executor opens ahead, by the number of their dataset.
        self._made: dict[int, DatasetIterator[Any]] = {}
        # How long it takes to open datasets and to read an element: what is slow is done ahead.
        self._opening = watch_of_openings()
        self._reading = watch_of_elements()
        self._returned = 0
        self.eager = False

    @property
    def in_threads(self) -> bool:
        """Whether threads may open and read datasets; those of an executor are asked from one."""
        return self._context.executor is None

    @property
    def slow_to_open(self) -> bool:
        """Whether datasets should be opened before their turn."""
        return self.in_threads and (self.eager or self._opening.slow)

    def open(self, turn: CycleSlot) -> DatasetIterator[Any]:
        """The iterator of a place in the cycle, made when it is needed first."""
        if turn.iterator is None:
            opened = self._opened(turn)
            turn.iterator, turn.first = opened.iterator, opened.state
            if turn.state is None:
                turn.state = constant(opened.state)
            turn.error, turn.reads_ahead = opened.error, opened.reads_ahead
            self._opening.add(opened.seconds)
            if opened.chunk is not None:
                turn.set_chunk(opened.chunk)
                turn.ended = not opened.chunk.elements
            if turn.dropped:  # Somebody asks for a state when all is over.
                turn.iterator.close()
        return turn.iterator

    def first_state(self, turn: CycleSlot) -> Any:
        """Where the dataset of a place stood when it was opened."""
        self.open(turn)
        return turn.first

    def _opened(self, turn: CycleSlot) -> Opened:
        if not self.in_threads:
            return self._opened_by_executor(turn)
        opened = None if self._opener is None else self._opener.take(turn.number)
        return opened or _open(self._datasets, turn.number, turn.state, self._context)

    def _opened_by_executor(self, turn: CycleSlot) -> Opened:
        iterator = self._made.pop(turn.number, None)
        if iterator is None:
            iterator = _make(self._datasets, turn.number, self._context)
        try:
            return _at(iterator, turn.state)
        except Exception:
            self._made[turn.number] = iterator
            raise

    def ahead(
        self, turns: Iterable[CycleSlot], more: Iterable[CycleSlot], start: bool = False
    ) -> None:
        """Lets others open, at the same time, what is to be read next.

        Args:
          turns: places of the cycle.
          more: what will take places that become free.
          start: whether they are to begin reading ahead at once, each in its own way.
        """
        wanted = [turn for turn in (*turns, *more) if turn.iterator is None and not turn.exhausted]
        if not self.in_threads:
            self._ahead_by_executor(wanted)
        elif self._threads:
            if self._opener is None:
                self._opener = ahead().opener(self._threads)
            for turn in wanted:
                self._opener.submit(turn.number, self._job(turn.number, turn.state, start))

    def _ahead_by_executor(self, turns: list[CycleSlot]) -> None:
        numbers = [
            turn.number for turn in turns if turn.state is None and turn.number not in self._made
        ]
        # What goes wrong is told when the turn of that dataset comes, as it is without an executor.
        for number in numbers:
            with contextlib.suppress(Exception):
                self._made[number] = _make(self._datasets, number, self._context)
        # All are made before the first one is asked for something, so that they are sent together.
        for number in numbers:
            with contextlib.suppress(Exception):
                self._made[number].start_prefetch()

    def _job(
        self, number: int, state: Callable[[], Any] | None, start: bool
    ) -> Callable[[], Opened]:
        # The job holds none of this object, which may be dropped while a thread opens a dataset.
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
                return opened._replace(iterator=reading, reads_ahead=reading is not iterator)
            try:
                opened = opened._replace(chunk=iterator.next_chunk(1))
            except Exception as error:
                opened = opened._replace(error=error)
            return opened._replace(seconds=time.perf_counter() - started)

        return job

    def judge(self, turn: CycleSlot, seconds: float) -> None:
        """Lets a thread read on in a dataset, while others have their turns, if that took long."""
        if not self.in_threads or not self._buffer or turn.reads_ahead or not turn.available:
            return
        seconds /= turn.available
        if turn.watch.rules_out(seconds):
            self._reading.forget()
            turn.watch.forget()
            return
        self._note(turn.watch, seconds)
        # Those that are short tell something by what they have in common.
        if (turn.watch.slow or self._reading.slow) and self._returned < _MOST_RETURNS:
            assert turn.iterator is not None
            turn.hold_state()
            note = functools.partial(self._note, turn.watch)
            reading = ahead().reading(turn.iterator, self._buffer, note)
            turn.reads_ahead = reading is not turn.iterator
            turn.iterator = reading
            reading.start_prefetch()

    def _note(self, watch: LatencyMonitor, seconds: float) -> None:
        watch.add(seconds)
        self._reading.add(seconds)

    def reconsider(self, turn: CycleSlot) -> None:
        """Reads in the consumer's thread again where another thread turns out to bring nothing."""
        if turn.reads_ahead and turn.watch.quick:
            assert turn.iterator is not None
            turn.iterator = ahead().back(turn.iterator)
            turn.reads_ahead = False
            self._returned += 1

    def close(self) -> None:
        """Closes what was opened and not taken; what is asked for from now on is opened anew."""
        if self._opener is not None:
            self._opener.close()
            self._opener = None
        for iterator in self._made.values():
            iterator.close()
        self._made.clear()


def check_dataset(dataset: Any, number: int) -> None:
    """Raises an error for an item that is no dataset."""
    if not isinstance(dataset, (IterDataset, MapDataset)):
        raise TypeError(
            f"InterleaveIterDataset needs datasets, but item {number} is {dataset!r} of type "
            f"{type(dataset).__name__}."
        )


def _open(
    datasets: Any, number: int, state: Callable[[], Any] | None, context: IterationContext
) -> Opened:
    """Opens a dataset at a state, or at its beginning."""
    started = time.perf_counter()
    iterator = _make(datasets, number, context)
    try:
        return _at(iterator, state)._replace(seconds=time.perf_counter() - started)
    except BaseException:
        iterator.close()
        raise


def _at(iterator: DatasetIterator[Any], state: Callable[[], Any] | None) -> Opened:
    if state is None:
        return Opened(iterator, iterator.get_state())
    iterator.set_state(state())
    return Opened(iterator, state())


def _make(datasets: Any, number: int, context: IterationContext) -> DatasetIterator[Any]:
    dataset = datasets[number]
    check_dataset(dataset, number)
    iterator: DatasetIterator[Any]
    with iteration_context(context):
        if context.executor is None or _reads_map_dataset(dataset):
            iterator = dataset.__iter__()
        else:
            # One that nobody can divide is a stream for one of the executor's workers.
            iterator = context.executor.stream(dataset)
    return iterator


def _reads_map_dataset(dataset: Any) -> bool:
    return isinstance(dataset, MapDataset) or any(map(_reads_map_dataset, dataset._parents))
