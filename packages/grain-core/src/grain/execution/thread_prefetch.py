"""Prefetch of any iterator in one background thread.

The thread owns the parent iterator while it runs: it pulls chunks into a bounded buffer and ends at the
end, at an error or when it is stopped. The consumer takes chunks in order. States that are valid only
until the parent advances are captured by the thread; other states are computed under a lock that excludes
advancing. An error is raised after the elements before it; then the thread is started again at the
parent's position. Ctrl-C in the consumer changes nothing. The thread holds the buffer but not the
iterator, so dropping the iterator ends the thread.
"""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from grain._chunk_size import ChunkSizeController
from grain._policy import current_policy
from grain.dataset.base import DatasetIterator, IterDataset, TransparentIterDataset
from grain.dataset.chunk import END, Chunk
from grain.dataset.iterator import ChunkIterator, copied_state, same_state
from grain.dataset.node import ExecutionTrait
from grain.dataset.parent_cursor import constant
from grain.dataset.validation import checked_iter_parent
from grain.execution.thread_shutdown import BackgroundThread, StopSignal, require_threads_of
from grain.options import checked_int

T = TypeVar("T")


def _checked_size(size: Any) -> int:
    number = checked_int("prefetch_buffer_size", size, least=-(2**63))
    if number < 0:
        raise ValueError(
            f"`prefetch_buffer_size` must be greater than or equal to 0, got {number}."
        )
    return number


class ThreadPrefetchIterDataset(TransparentIterDataset[T]):
    """The parent's elements, prefetched in a thread; not where worker processes compute the parent.

    Args:
        parent: The dataset to read.
        prefetch_buffer_size: Most elements read ahead; 0 disables prefetching.

    >>> import grain
    >>> ds = grain.MapDataset.range(3).to_iter_dataset().filter(lambda x: x != 1)
    >>> list(ThreadPrefetchIterDataset(ds, prefetch_buffer_size=2))
    [0, 2]
    """

    def __init__(self, parent: IterDataset[T], *, prefetch_buffer_size: int):
        super().__init__(checked_iter_parent("ThreadPrefetchIterDataset", parent))
        self._buffer_size = _checked_size(prefetch_buffer_size)

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return ThreadPrefetchDatasetIterator(parents[0], self._buffer_size)

    execution_trait = ExecutionTrait.TRANSPARENT

    def __str__(self) -> str:
        return f"ThreadPrefetchIterDataset(prefetch_buffer_size={self._buffer_size})"


class _Adapted(DatasetIterator[T]):
    """Adapter of an iterator with `get_state` and `set_state` that is no `DatasetIterator`."""

    def __init__(self, iterator: Any):
        super().__init__()
        for name in ("__next__", "get_state", "set_state"):
            if not hasattr(iterator, name):
                raise TypeError(
                    "ThreadPrefetchDatasetIterator needs an iterator with `__next__`, `get_state` and "
                    f"`set_state`; {type(iterator).__name__} has no `{name}`."
                )
        self._iterator = iterator

    def __next__(self) -> T:
        element: T = next(self._iterator)
        return element

    def get_state(self) -> Any:
        return self._iterator.get_state()

    def set_state(self, state: Any) -> None:
        self._iterator.set_state(state)


class _Buffer:
    """Bounded queue of the chunks that the thread has read; holds no reference to the consumer.

    There is one producer and one consumer, and each attribute is written by one of them only. A lock that is
    released, or an item in a queue, is a signal: the waiting side looks again. So an interrupt of the
    consumer, wherever it strikes, leaves no lock held and no count wrong.

    Args:
        size: Most elements at a time.
        consumer: The iterator that takes the chunks; the thread ends when it is collected.
    """

    def __init__(self, size: int, consumer: ThreadPrefetchDatasetIterator[Any]):
        self.size = size
        self.process = os.getpid()
        # Each chunk with the number of elements that were read up to its end.
        self.chunks: collections.deque[tuple[Chunk | Exception, int]] = collections.deque()
        self.read = 0
        self.taken = 0
        self.discarded = False
        self._arrived = threading.Lock()
        self._freed: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.stopped = StopSignal(consumer, self._freed)
        # Held while the parent is advanced: states of its earlier chunks must not be computed then.
        self.advancing = threading.Lock()

    def put(self, chunk: Chunk | Exception) -> None:
        if isinstance(chunk, Chunk):
            self.read += len(chunk.elements)
        self.chunks.append((chunk, self.read))
        self._signal_arrival()

    def first(self) -> Chunk | Exception:
        """Wait for the first chunk; it stays in the queue in case the consumer is interrupted."""
        while not self.chunks:
            if self.stopped:
                return RuntimeError("The prefetch thread was stopped: the program is exiting.")
            self._arrived.acquire()
        return self.chunks[0][0]

    def drop_first(self) -> None:
        """Remove the first chunk, which the consumer has taken."""
        self.taken = self.chunks[0][1]
        self.chunks.popleft()
        self._signal_room()

    def room(self) -> int:
        """Wait until the buffer is not full; return the free elements, or 0 to stop."""
        while self.read - self.taken >= self.size and not self.stopped:
            self._freed.get()
        return 0 if self.stopped else self.size - self.read + self.taken

    def stop(self) -> None:
        self.stopped.set()
        self._signal_arrival()
        self._signal_room()

    def _signal_arrival(self) -> None:
        with contextlib.suppress(RuntimeError):  # It was released before, and not waited for since.
            self._arrived.release()

    def _signal_room(self) -> None:
        if self._freed.empty():  # Else the thread has a signal that it has not seen.
            self._freed.put(None)


def _read_ahead(parent: DatasetIterator[Any], buffer: _Buffer) -> None:
    """Read until the end, an error or a stop; the main function of the thread."""
    policy = current_policy()
    size = ChunkSizeController(policy.chunk_seconds, policy.max_chunk)
    while room := buffer.room():
        started = time.perf_counter()
        try:
            with buffer.advancing:
                chunk = parent.next_chunk(min(size.size, room))
                if chunk.live:
                    # Its states are valid only now, and may be objects that the iterator changes.
                    offsets = range(len(chunk.elements))
                    states = [copied_state(chunk.state_after(offset)) for offset in offsets]
                    chunk = Chunk(chunk.elements, states.__getitem__)
        except Exception as error:
            buffer.put(error)
            return
        except BaseException as error:  # Also an exit: the consumer must receive the error.
            buffer.put(RuntimeError(f"The prefetch thread was stopped by {error!r}."))
            return
        size.observe(chunk.elements, time.perf_counter() - started)
        buffer.put(chunk)
        if not chunk.elements:
            return


class ThreadPrefetchDatasetIterator(ChunkIterator[T]):
    """Iterator over the elements that a thread reads from another iterator.

    Args:
        parent: The iterator, which must not be advanced elsewhere; any object with `__next__`,
            `get_state` and `set_state`.
        prefetch_buffer_size: Most elements read ahead; 0 disables prefetching.
    """

    def __init__(self, parent: Any, prefetch_buffer_size: int):
        adapted = parent if isinstance(parent, DatasetIterator) else _Adapted(parent)
        super().__init__(adapted)
        self._buffer_size = _checked_size(prefetch_buffer_size)
        self._buffer: _Buffer | None = None
        self._thread: BackgroundThread | None = None
        self._ended = False
        # State function of the parent after the last chunk that was delivered.
        self._snapshot: Callable[[], Any] = constant(adapted.get_state())

    def __str__(self) -> str:
        return f"ThreadPrefetchDatasetIterator(prefetch_buffer_size={self._buffer_size})"

    @property
    def computes_elsewhere(self) -> bool:
        """Whether the time that a pull takes is time of waiting for the thread."""
        return self._buffer_size > 0

    def prefetched(self) -> int:
        """Return the number of elements that the thread has read and the consumer has not taken."""
        buffer = self._buffer
        return 0 if buffer is None else max(0, buffer.read - buffer.taken)

    @property
    def prefetch_capacity(self) -> int | None:
        """The most elements that are prefetched."""
        return self._buffer_size

    def start_prefetch(self) -> None:
        """Start the thread."""
        self._assert_not_closed()
        if self._buffer_size:
            self._start()
        else:
            super().start_prefetch()

    def _start(self) -> _Buffer:
        buffer, thread = self._buffer, self._thread
        if buffer is None or thread is None:
            # The thread holds the buffer, not this iterator, so that dropping the iterator ends it.
            buffer = _Buffer(self._buffer_size, self)
            thread = BackgroundThread(
                "grain-prefetch", buffer.stop, _read_ahead, self._thread_input(), buffer
            )
            self._buffer, self._thread = buffer, thread
        require_threads_of(buffer.process)
        thread.start()
        return buffer

    def _thread_input(self) -> Any:
        """Return the object that the thread reads from; it must hold no reference to this iterator."""
        return self._parent

    def stop_prefetch(self) -> None:
        """End the thread, after its current chunk, and discard the chunks it read."""
        if self._buffer is not None:
            self._buffer.discarded = True
            self._buffer.stop()
        # Not forgotten before it has ended, since this wait may be interrupted.
        if self._thread is not None and not self._thread.is_current:
            self._thread.join()
        self._buffer = self._thread = None

    def _pull(self, limit: int) -> Chunk:
        if self._ended:
            return END
        if self._buffer is not None and self._buffer.discarded:
            self._restore(self._snapshot())  # `stop_prefetch` was interrupted.
        buffer: _Buffer | None = None
        if not self._buffer_size:
            chunk = self._parent.next_chunk(limit)
        else:
            buffer = self._start()
            taken = buffer.first()
            if isinstance(taken, Exception):
                self.stop_prefetch()
                self._snapshot = constant(self._parent.get_state())
                raise taken
            chunk = taken if taken.elements else END
            if chunk.elements:
                # States may be requested while the thread reads on.
                chunk = _guarded(chunk, buffer.advancing)
        if not chunk.elements:
            self.stop_prefetch()
            self._ended = True
            # Elements filtered out at the end have been read as well.
            self._snapshot = constant(self._parent.get_state())
            return END
        self._snapshot = chunk.snapshot(len(chunk.elements) - 1)
        if buffer is not None:
            buffer.drop_first()
        return chunk

    def index_from_state(self, state: Any) -> int:
        return self._parent.index_from_state(state)

    def state_from_index(self, index: int) -> Any:
        return self._parent.state_from_index(index)

    def _live_state(self) -> Any:
        if self._buffer is not None:
            require_threads_of(self._buffer.process)  # One of them may hold the lock in the parent.
        return self._snapshot()

    def _restore(self, state: Any) -> None:
        buffer = self._buffer
        if buffer is not None:
            require_threads_of(buffer.process)
        if buffer is not None and not buffer.discarded and same_state(self._snapshot(), state):
            return  # The prefetched chunks are delivered next.
        self.stop_prefetch()
        self._parent.set_state(state)
        self._ended = False
        self._snapshot = constant(self._parent.get_state())

    def close(self) -> None:
        """End the thread, then close the parent."""
        self.stop_prefetch()
        super().close()


def _guarded(chunk: Chunk, lock: threading.Lock) -> Chunk:
    state_after = chunk.state_after

    def guarded_state_after(offset: int) -> Any:
        with lock:
            return state_after(offset)

    return Chunk(chunk.elements, guarded_state_after)
