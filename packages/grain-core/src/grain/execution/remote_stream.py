"""Streams: datasets that cannot be divided, each read from start to end by one worker.

The worker holds the iterator (`RemoteStream`) and returns chunks of elements with the states after each
of them; the consumer's `StreamIterator` keeps a few calls in flight, so that the worker is never idle.
Calls for one worker are computed in order, so chunks arrive in order.

An error is part of its chunk and is raised after the elements before it; calls in flight already read on
after the error, so the stream continues in order. When a result is lost or calls in flight are dropped
(an interrupt, a pool that was replaced, a chunk that cannot be pickled), the worker is ahead of the
consumer: the stream is out of sync, and the worker seeks to the consumer's state before the next call.
After a failed transfer elements are read one by one, so that those which can be pickled are delivered.
"""

from __future__ import annotations

import collections
import dataclasses
import pickle
import time
from collections.abc import Callable
from typing import Any, TypeVar

from grain import tree
from grain._chunk_size import ChunkSizeController
from grain._exceptions import add_note
from grain._policy import current_policy
from grain.dataset.base import DatasetIterator, IterDataset
from grain.dataset.chunk import END, Chunk
from grain.dataset.context import IterationContext, iteration_context
from grain.dataset.iterator import ChunkIterator, same_state
from grain.execution import shared_sources
from grain.execution.processes.pool import NotOutstanding
from grain.execution.worker_session import TRANSFER_ERRORS, WorkerSession
from grain.options import DatasetOptions

T = TypeVar("T")


@dataclasses.dataclass
class StreamChunk:
    """The next elements of a stream.

    Attributes:
        elements: The elements; empty at the end of the stream.
        states: The state before the first element and after each, pickled: a user's iterator may return
            the same object each time, and most states are never used.
        error: The error after the elements.
        end: The state after the error, or at the end of the stream, pickled.
    """

    elements: list[Any]
    states: list[bytes]
    error: Exception | None = None
    end: bytes = b""


class RemoteStream:
    """A dataset and its iterator, in the worker that reads it.

    Args:
        dataset: The dataset.
        options: Options in force where the stream is iterated.
    """

    def __init__(self, dataset: IterDataset[Any], options: DatasetOptions):
        self.dataset = dataset
        self._options = options
        self._iterator: DatasetIterator[Any] | None = None
        self._state = b""

    def __getstate__(self) -> dict[str, Any]:
        return {"dataset": self.dataset, "options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __str__(self) -> str:
        return str(self.dataset)

    def _open(self) -> DatasetIterator[Any]:
        if self._iterator is None:
            policy = current_policy()
            self._seconds = policy.block_seconds
            self._chunk_size = ChunkSizeController(
                self._seconds, policy.max_stream_chunk, policy.block_bytes
            )
            with iteration_context(IterationContext(options=self._options)):
                self._iterator = self.dataset.__iter__()
            self._capture_state()
        return self._iterator

    def _capture_state(self) -> bytes:
        """Return the state of the iterator, pickled."""
        assert self._iterator is not None
        self._state = _pickled(self._iterator.get_state())
        return self._state

    def compute(self, buffer_size: int) -> StreamChunk:
        """Read the next chunk; an error is part of the result."""
        iterator = self._open()
        result = StreamChunk([], [self._state])
        started = time.perf_counter()
        seconds = 0.0
        size = self._chunk_size.size
        while len(result.elements) < size and seconds < self._seconds:
            try:
                chunk = iterator.next_chunk(size - len(result.elements))
            except Exception as error:
                result.error, result.end = error, self._capture_state()
                return result
            if not chunk.elements:
                break
            result.elements += chunk.elements
            offsets = range(len(chunk.elements))
            result.states += [_pickled(chunk.state_after(offset)) for offset in offsets]
            seconds = time.perf_counter() - started
        if result.elements:
            self._state = result.states[-1]
            nbytes = tree.nbytes(result.elements[0])
            per_element = seconds / len(result.elements)
            self._chunk_size.fit(per_element, nbytes, allowance=buffer_size // 2)
        else:
            result.end = self._capture_state()
        return result

    def seek(self, state: bytes) -> bytes:
        """Restore a state; return the state of the iterator afterwards."""
        self._open().set_state(pickle.loads(state))
        self._chunk_size.reset()
        return self._capture_state()

    def rewind(self) -> None:
        """Start again from the first element."""
        self.close()
        self._iterator = None

    def close(self) -> None:
        """Close the iterator."""
        if self._iterator is not None:
            self._iterator.close()


def _pickled(state: Any) -> bytes:
    try:
        return pickle.dumps(state, protocol=5)
    except Exception:  # An object of `__main__`, for example; cloudpickle explains other failures.
        return shared_sources.dumps(state, ())


class StreamIterator(ChunkIterator[T]):
    """Iterator over a stream that one worker reads ahead.

    Args:
        dataset: The dataset.
        session: The workers; each stream is read by the next of them.
    """

    def __init__(self, dataset: IterDataset[T], session: WorkerSession):
        super().__init__()
        self._dataset = dataset
        self._session = session
        stream = RemoteStream(dataset, self._context.options)
        self._number = session.add(stream, worker=session.next_stream_worker())
        self._tickets: collections.deque[int] = collections.deque()
        # A chunk that has arrived and was not delivered yet.
        self._arrived: StreamChunk | None = None
        # The consumer's state, once it is known; before that the stream is at its start.
        self._state_known = False
        self._state = b""
        # Whether the worker has read elements that did not arrive.
        self._out_of_sync = False
        self._failures = 0

    def __str__(self) -> str:
        return f"StreamIterator({self._dataset})"

    def _fill(self) -> None:
        if self._out_of_sync:
            self._synchronize()
        while len(self._tickets) < self._session.policy.stream_tasks:
            # An interrupt before the ticket is stored would lose its chunk.
            self._out_of_sync = True
            try:
                ticket = self._session.submit(self._number, "compute", self._session.buffer_size)
            except TRANSFER_ERRORS:
                self._out_of_sync = False
                if self._tickets:
                    return  # Chunks in flight are delivered first, then this is tried again.
                raise
            self._tickets.append(ticket)
            self._out_of_sync = False

    def _synchronize(self) -> None:
        """Move the worker back to the consumer's position."""
        if self._state_known:
            self._seek(self._state)
        else:
            self._cancel_all()
            self._arrived = None
            self._session.result(self._session.submit(self._number, "rewind"))
        self._out_of_sync = False

    def _pull(self, limit: int) -> Chunk:
        del limit
        result = self._take()
        chunk = END
        if result.elements:
            states = result.states
            chunk = Chunk(result.elements, lambda offset: pickle.loads(states[offset + 1]))
        # Calls in flight have read on after an error, so the stream continues in order.
        error = result.error
        state = result.states[-1] if error is None and chunk.elements else result.end
        self._arrived, self._state_known, self._state = None, True, state
        return chunk if error is None else self._fail_after(error, chunk)

    def _take(self) -> StreamChunk:
        """Wait for the next chunk; it stays the next one if the consumer is interrupted."""
        if self._arrived is not None:
            return self._arrived
        while True:
            self._fill()
            try:
                result: StreamChunk = self._session.result_or_error(self._tickets[0])
            except TRANSFER_ERRORS as error:
                # The elements may be valid and only their transfer failed. They are read again one by
                # one, so that those which can be transferred are delivered.
                self._cancel_all()
                self._out_of_sync = True
                self._failures += not isinstance(error, NotOutstanding)
                if self._failures > 1:
                    add_note(error, f"raised while a worker process read {self._dataset}.")
                    raise
            else:
                self._arrived = result
                self._tickets.popleft()
                self._failures = 0
                return result

    def _cancel_all(self) -> None:
        for ticket in self._tickets:
            self._session.cancel(ticket)
        self._tickets.clear()

    def _seek(self, state: bytes) -> None:
        self._cancel_all()
        self._arrived, self._out_of_sync = None, True
        self._state = self._session.result(self._session.submit(self._number, "seek", state))
        self._state_known, self._out_of_sync = True, False

    def _live_state(self) -> Any:
        if not self._state_known:
            self._state = self._take().states[0]
            self._state_known = True
        return pickle.loads(self._state)

    def state_function(self) -> Callable[[], Any] | None:
        # A stream at its start is not read for this: `_synchronize` can return there without a state.
        return super().state_function() if self._state_known or self._rollback is not None else None

    def _restore(self, state: Any) -> None:
        known = self._state_known and not self._out_of_sync
        if not known or not same_state(pickle.loads(self._state), state):
            self._seek(_pickled(state))  # Otherwise the chunks in flight are delivered next.

    def start_prefetch(self) -> None:
        """Submit the first calls."""
        self._assert_not_closed()
        self._fill()

    def close(self) -> None:
        """Discard prefetched chunks."""
        if self._closed:
            return
        super().close()
        self._cancel_all()
        self._session.release(self._number)
