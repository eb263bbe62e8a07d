"""Streams: datasets that cannot be divided, each read from start to end by one worker.

The worker holds the iterator (`RemoteStream`) and returns chunks of elements with the states after each
of them; the consumer's `StreamIterator` keeps a few calls in flight, so that the worker is never idle.
Calls on a stream have an affinity: one worker computes them in order, so chunks arrive in order. Each call
names the *place* at which it reads: how often the stream was positioned, and the number of chunks since.
A worker that is elsewhere (one that replaces a lost worker, or one whose chunk was dropped) reads nothing
and says so.

An error is part of its chunk and is raised after the elements before it; calls in flight already read on
after the error, so the stream continues in order. When a chunk is lost with its worker, dropped by an
interrupt or cannot be pickled, the stream is out of sync, and the worker, or another one, is positioned at
the consumer's state before the next call. After such a failure elements are read one by one for a while,
so that those which can be delivered are, and the element to blame is the one that fails.
"""

from __future__ import annotations

import collections
import dataclasses
import pickle
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from grain import tree
from grain._chunk_size import ChunkSizeController
from grain._exceptions import add_note, is_worker_failure
from grain._policy import current_policy
from grain.dataset.base import DatasetIterator, IterDataset
from grain.dataset.chunk import END, Chunk
from grain.dataset.context import IterationContext, iteration_context
from grain.dataset.iterator import ChunkIterator, same_state
from grain.execution import shared_sources
from grain.execution.executor import TaskLost
from grain.execution.task_scheduler import (
    TASK_ERRORS,
    CallLostError,
    PoisonTaskError,
    SessionCall,
)
from grain.execution.worker_session import WorkerSession
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
        is_elsewhere: Whether the worker is at another place of the stream, and has read nothing.
    """

    elements: list[Any]
    states: list[bytes]
    error: Exception | None = None
    end: bytes = b""
    is_elsewhere: bool = False


class Pace(NamedTuple):
    """How much of a stream one call reads.

    Attributes:
        seconds: Preferred duration.
        buffer_size: Elements that a worker may compute ahead.
        is_single: Whether to read one element only.
    """

    seconds: float
    buffer_size: int
    is_single: bool


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
        self._chunk_size: ChunkSizeController | None = None
        # How often the stream was positioned, and the number of chunks since; None where that is unknown.
        self._place: tuple[int, int] | None = (0, 0)

    def __getstate__(self) -> dict[str, Any]:
        return {"dataset": self.dataset, "options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __str__(self) -> str:
        return str(self.dataset)

    def _open(self) -> DatasetIterator[Any]:
        if self._iterator is None:
            with iteration_context(IterationContext(options=self._options)):
                self._iterator = self.dataset.__iter__()
            self._capture_state()
        return self._iterator

    def _capture_state(self) -> bytes:
        """Return the state of the iterator, pickled."""
        assert self._iterator is not None
        self._state = _pickled(self._iterator.get_state())
        return self._state

    def first_state(self) -> bytes:
        """Open the dataset for the state at its start only."""
        with self._open():
            return self._state

    def compute(self, place: tuple[int, int], pace: Pace) -> StreamChunk:
        """Read the next chunk, if the stream is at `place`; an error is part of the result."""
        if self._place != place:
            return StreamChunk([], [], is_elsewhere=True)
        self._place = None  # After an interrupt the place is unknown.
        iterator = self._open()
        result = self._read(iterator, pace)
        self._place = (place[0], place[1] + 1)
        return result

    def _read(self, iterator: DatasetIterator[Any], pace: Pace) -> StreamChunk:
        policy = current_policy()
        if self._chunk_size is None:
            self._chunk_size = ChunkSizeController(
                pace.seconds, policy.max_stream_chunk, policy.block_bytes
            )
        result = StreamChunk([], [self._state])
        started = time.perf_counter()
        seconds = 0.0
        size = 1 if pace.is_single else self._chunk_size.size
        while len(result.elements) < size and seconds < pace.seconds:
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
            self._chunk_size.fit(per_element, nbytes, allowance=pace.buffer_size // 2)
        else:
            result.end = self._capture_state()
        return result

    def position(self, state: bytes | None, turn: int) -> bytes:
        """Restore a state, or start again from the first element; return the state of the iterator.

        Args:
            state: The state, pickled; None for the first element.
            turn: How often the stream was positioned, this time included.
        """
        self._place = self._chunk_size = None
        if state is None:
            self.close()
            self._iterator = None
            self._open()
        else:
            self._open().set_state(pickle.loads(state))
        self._capture_state()
        self._place = (turn, 0)
        return self._state

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
        session: The workers.
    """

    def __init__(self, dataset: IterDataset[T], session: WorkerSession):
        super().__init__()
        self._dataset = dataset
        self._session = session
        stream = RemoteStream(dataset, self._context.options)
        self._number = session.add(stream, is_stream=True)
        self._calls: collections.deque[SessionCall] = collections.deque()
        # The place of the next call.
        self._turn = self._chunks = 0
        # A chunk that has arrived and was not delivered yet.
        self._arrived: StreamChunk | None = None
        # The consumer's state, once it is known; before that the stream is at its start.
        self._state_known = False
        self._state = b""
        # Whether the worker is elsewhere than the consumer expects.
        self._out_of_sync = False
        # Failures and losses of workers since the last chunk.
        self._failures = 0
        self._losses: tuple[TaskLost, ...] = ()
        # Elements to be read one by one after a failure, and the size of the largest chunk so far.
        self._singles = 0
        self._largest = 1
        self._chunk_bytes = 0

    def __str__(self) -> str:
        return f"StreamIterator({self._dataset})"

    def _fill(self) -> None:
        if self._out_of_sync:
            self._position(self._state if self._state_known else None)
        session = self._session
        while len(self._calls) < session.policy.stream_tasks:
            if self._calls and not session.has_room(self._chunk_bytes):
                return
            pace = Pace(session.costs.block_seconds, session.buffer_size, self._singles > 0)
            call = session.submit(
                self._number, "compute", (self._turn, self._chunks), pace, nbytes=self._chunk_bytes
            )
            self._calls.append(call)
            self._chunks += 1

    def _position(self, state: bytes | None) -> None:
        """Move the worker to a state, or to the start, and drop the chunks in flight."""
        self._cancel_all()
        self._arrived, self._out_of_sync = None, True
        while True:
            # Never a place that a call still in flight names.
            self._turn, self._chunks = self._turn + 1, 0
            call = self._session.submit(self._number, "position", state, self._turn)
            try:
                reached = self._session.result(call)
            except CallLostError as error:
                self._record_loss(error.loss)
                continue
            if state is not None:
                self._state, self._state_known = reached, True
            self._out_of_sync = False
            return

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
                result: StreamChunk = self._session.result_or_error(self._calls[0])
            except CallLostError as error:
                self._lose_sync()
                self._record_loss(error.loss)
            except TASK_ERRORS as error:
                # The elements may be valid, and only their transfer failed.
                self._lose_sync()
                self._failures += 1
                if self._failures > 1 or is_worker_failure(error) or isinstance(error, Warning):
                    add_note(error, f"raised while a worker process read {self._dataset}.")
                    raise
            else:
                if result.is_elsewhere:
                    self._lose_sync()
                    continue
                self._arrived = result
                self._calls.popleft()
                self._observe(result)
                return result

    def _observe(self, result: StreamChunk) -> None:
        count = len(result.elements)
        self._failures, self._losses = 0, ()
        self._singles = max(0, self._singles - count)
        self._largest = max(self._largest, count)
        if count:
            self._chunk_bytes = count * tree.nbytes(result.elements[0])

    def _lose_sync(self) -> None:
        self._cancel_all()
        self._out_of_sync = True
        # The chunks that were in flight were at most twice as large as the largest before.
        self._singles = 2 * self._largest * self._session.policy.stream_tasks

    def _record_loss(self, loss: TaskLost | None) -> None:
        """Record the loss of the worker; raise an error if workers are lost at the same element."""
        if loss is not None and loss.started:
            self._losses += (loss,)
        if len(self._losses) >= self._session.policy.poison_losses:
            losses, self._losses = self._losses, ()
            state = pickle.loads(self._state) if self._state_known else "its start"
            raise PoisonTaskError(losses, f"the element of {self._dataset} after {state}")

    def _cancel_all(self) -> None:
        for call in self._calls:
            self._session.cancel(call)
        self._calls.clear()

    def _live_state(self) -> Any:
        if not self._state_known:
            if self._session.closed:
                self._state = RemoteStream(self._dataset, self._context.options).first_state()
            else:
                self._state = self._take().states[0]
            self._state_known = True
        return pickle.loads(self._state)

    def state_function(self) -> Callable[[], Any] | None:
        # A stream at its start is not read for this: the worker can return there without a state.
        return super().state_function() if self._state_known or self._rollback is not None else None

    def _restore(self, state: Any) -> None:
        known = self._state_known and not self._out_of_sync
        if not known or not same_state(pickle.loads(self._state), state):
            self._position(_pickled(state))  # Otherwise the chunks in flight are delivered next.

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
