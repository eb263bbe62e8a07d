"""Streams: datasets that nobody can divide, each read from beginning to end by one worker."""

from __future__ import annotations

import collections
import dataclasses
import pickle
import time
from collections.abc import Callable
from typing import Any, TypeVar

from grain import tree
from grain._exceptions import add_note
from grain.dataset.base import DatasetIterator, IterDataset
from grain.dataset.chunk import END, Chunk
from grain.dataset.context import IterationContext, iteration_context
from grain.dataset.iterator import ChunkIterator, same_state
from grain.execution import shared_sources
from grain.execution.fused_iterator import BLOCK_SECONDS, SMALL_BLOCK_BYTES
from grain.execution.processes.pool import NotOutstanding
from grain.execution.worker_session import NOT_SENT, WorkerSession
from grain.options import DatasetOptions

T = TypeVar("T")

# How many stretches are asked for at a time, so that the worker is never idle.
_AHEAD = 2
_MAX_STRETCH = 1024


@dataclasses.dataclass
class StreamChunk:
    """The next elements of a stream.

    Attributes:
      elements: the elements; none of them at the end of the stream.
      states: the state before the first and after each, pickled: a user's iterator may give the same
        object each time, and most of them nobody asks for.
      error: what came behind them.
      end: the state behind the error, or at the end, likewise.
    """

    elements: list[Any]
    states: list[bytes]
    error: Exception | None = None
    end: bytes = b""


class RemoteStream:
    """A dataset as the worker that reads it sees it."""

    def __init__(self, dataset: IterDataset[Any], options: DatasetOptions):
        self.dataset = dataset
        self._options = options
        self._iterator: DatasetIterator[Any] | None = None
        self._state = b""
        self._size = 1

    def __getstate__(self) -> dict[str, Any]:
        return {"dataset": self.dataset, "options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __str__(self) -> str:
        return str(self.dataset)

    def _opened(self) -> DatasetIterator[Any]:
        if self._iterator is None:
            with iteration_context(IterationContext(options=self._options)):
                self._iterator = self.dataset.__iter__()
            self._note_state()
        return self._iterator

    def _note_state(self) -> bytes:
        """Where the stream stands."""
        assert self._iterator is not None
        self._state = _pickled(self._iterator.get_state())
        return self._state

    def compute(self, buffer_size: int) -> StreamChunk:
        """Reads on for a moment; an error comes back as data."""
        iterator = self._opened()
        stretch = StreamChunk([], [self._state])
        started = time.perf_counter()
        seconds = 0.0
        while len(stretch.elements) < self._size and seconds < BLOCK_SECONDS:
            try:
                chunk = iterator.next_chunk(self._size - len(stretch.elements))
            except Exception as error:
                stretch.error, stretch.end = error, self._note_state()
                return stretch
            if not chunk.elements:
                break
            stretch.elements += chunk.elements
            places = range(len(chunk.elements))
            stretch.states += [_pickled(chunk.state_after(place)) for place in places]
            seconds = time.perf_counter() - started
        if stretch.elements:
            self._state = stretch.states[-1]
            self._adapt(stretch.elements, seconds, buffer_size)
        else:
            stretch.end = self._note_state()
        return stretch

    def _adapt(self, elements: list[Any], seconds: float, buffer_size: int) -> None:
        allowed = max(buffer_size // 2, SMALL_BLOCK_BYTES // max(1, tree.nbytes(elements[0])))
        wanted = int(BLOCK_SECONDS * len(elements) / max(seconds, 1e-7))
        self._size = max(1, min(wanted, allowed, 2 * self._size, _MAX_STRETCH))

    def seek(self, state: bytes) -> bytes:
        """Goes to a state; returns what the stream itself says of where it stands."""
        self._opened().set_state(pickle.loads(state))
        self._size = 1
        return self._note_state()

    def rewind(self) -> None:
        """Begins anew."""
        self.close()
        self._iterator = None
        self._size = 1

    def close(self) -> None:
        """Gives back what the iterator holds."""
        if self._iterator is not None:
            self._iterator.close()


def _pickled(state: Any) -> bytes:
    try:
        return pickle.dumps(state, protocol=5)
    except (
        Exception
    ):  # A class of `__main__`, say; what cannot be sent at all is told here as well.
        return shared_sources.dumps(state, ())


class StreamIterator(ChunkIterator[T]):
    """The elements of a stream that one worker reads, a little ahead."""

    def __init__(
        self, dataset: IterDataset[T], workers: WorkerSession, worker: int, buffer_size: int
    ):
        super().__init__()
        self._dataset = dataset
        self._workers = workers
        self._buffer = buffer_size
        self._number = workers.add(RemoteStream(dataset, self._context.options), worker=worker)
        self._tickets: collections.deque[int] = collections.deque()
        # A stretch that came and was not given yet.
        self._early: StreamChunk | None = None
        # Where the stream stands, once it is known; before that it is at its beginning.
        self._known = False
        self._state = b""
        # Whether the worker has read on without what it read getting here.
        self._out_of_sync = False
        self._failures = 0

    def __str__(self) -> str:
        return f"StreamIterator({self._dataset})"

    def _fill(self) -> None:
        if self._out_of_sync:
            self._return()
        while len(self._tickets) < _AHEAD:
            # An interrupt before the ticket is noted would lose what it stands for.
            self._out_of_sync = True
            try:
                ticket = self._workers.submit(self._number, "compute", self._buffer)
            except NOT_SENT:
                self._out_of_sync = False
                if self._tickets:
                    return  # What was read before comes first, then this again.
                raise
            self._tickets.append(ticket)
            self._out_of_sync = False

    def _return(self) -> None:
        """Lets the worker go back to where the consumer is."""
        if self._known:
            self._seek(self._state)
        else:
            self._drop_tickets()
            self._early = None
            self._workers.result(self._workers.submit(self._number, "rewind"))
        self._out_of_sync = False

    def _pull(self, limit: int) -> Chunk:
        del limit
        stretch = self._take()
        chunk = END
        if stretch.elements:
            states = stretch.states
            chunk = Chunk(stretch.elements, lambda place: pickle.loads(states[place + 1]))
        # What was read ahead lies behind an error, so the stream goes on in order.
        error = stretch.error
        state = stretch.states[-1] if error is None and chunk.elements else stretch.end
        self._early, self._known, self._state = None, True, state
        return chunk if error is None else self._fail_after(error, chunk)

    def _take(self) -> StreamChunk:
        """Waits for the next stretch; it stays the next one if the consumer is interrupted."""
        if self._early is not None:
            return self._early
        while True:
            self._fill()
            try:
                stretch: StreamChunk = self._workers.told(self._tickets[0])
            except NOT_SENT as error:
                # The elements may be fine, but could not be sent. They are asked for again, one by one
                # so that those which can be sent come first.
                self._drop_tickets()
                self._out_of_sync = True
                self._failures += not isinstance(error, NotOutstanding)
                if self._failures > 1:
                    add_note(error, f"raised while a worker process read {self._dataset}.")
                    raise
            else:
                self._early = stretch
                self._tickets.popleft()
                self._failures = 0
                return stretch

    def _drop_tickets(self) -> None:
        for ticket in self._tickets:
            self._workers.forget(ticket)
        self._tickets.clear()

    def _seek(self, state: bytes) -> None:
        self._drop_tickets()
        self._early, self._out_of_sync = None, True
        self._state = self._workers.result(self._workers.submit(self._number, "seek", state))
        self._known, self._out_of_sync = True, False

    def _live_state(self) -> Any:
        if not self._known:
            self._state = self._take().states[0]
            self._known = True
        return pickle.loads(self._state)

    def state_function(self) -> Callable[[], Any] | None:
        # What nobody has asked for yet is not read for this: `_return` knows how to come back.
        return super().state_function() if self._known or self._rollback is not None else None

    def _restore(self, state: Any) -> None:
        if self._out_of_sync or not self._known or not same_state(pickle.loads(self._state), state):
            self._seek(_pickled(state))  # Otherwise what was read ahead comes next.

    def start_prefetch(self) -> None:
        """Asks the worker for the first elements."""
        self._assert_not_closed()
        self._fill()

    def close(self) -> None:
        """Leaves what was read ahead to nobody."""
        if self._closed:
            return
        super().close()
        self._drop_tickets()
        self._workers.release(self._number)
