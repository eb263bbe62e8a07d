"""Reading an iterator ahead in a thread, whatever it reads from."""

from __future__ import annotations

import collections
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from grain.dataset.base import DatasetIterator, IterDataset, TransparentIterDataset
from grain.dataset.chunk import END, Chunk
from grain.dataset.context import current_context
from grain.dataset.interleave.interleave import InterleaveIterDataset
from grain.dataset.iterator import ChunkIterator, same_state
from grain.dataset.node import ExecutionTrait
from grain.dataset.parent_cursor import constant
from grain.dataset.validation import checked_iter_parent
from grain.execution.thread_shutdown import start_thread
from grain.options import checked_int

T = TypeVar("T")

# The thread hands over chunks that take about this long to make.
_CHUNK_SECONDS = 0.001


def _checked_size(size: Any) -> int:
    number = checked_int("prefetch_buffer_size", size, least=-(2**63))
    if number < 0:
        raise ValueError(
            f"`prefetch_buffer_size` must be greater than or equal to 0, got {number}."
        )
    return number


class ThreadPrefetchIterDataset(TransparentIterDataset[T]):
    """The parent's elements, read ahead in a thread.

    Args:
      parent: what is read.
      prefetch_buffer_size: how many elements may be read ahead; 0 reads nothing ahead.

    >>> import grain
    >>> ds = grain.MapDataset.range(3).to_iter_dataset().filter(lambda x: x != 1)
    >>> list(ThreadPrefetchIterDataset(ds, prefetch_buffer_size=2))
    [0, 2]
    """

    def __init__(self, parent: IterDataset[T], *, prefetch_buffer_size: int):
        super().__init__(checked_iter_parent("ThreadPrefetchIterDataset", parent))
        self._buffer_size = _checked_size(prefetch_buffer_size)

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        if current_context().executor is not None:
            # Worker processes compute ahead already, and are asked from one thread only.
            return parents[0]
        return ThreadPrefetchDatasetIterator(parents[0], self._buffer_size)

    execution_trait = ExecutionTrait.TRANSPARENT

    def __str__(self) -> str:
        return f"ThreadPrefetchIterDataset(prefetch_buffer_size={self._buffer_size})"


def multithread_prefetch(
    ds: IterDataset[T], num_threads: int, buffer_size: int, sequential_slice: bool = False
) -> IterDataset[T]:
    """Reads a dataset ahead in threads; their number never changes the stream.

    Args:
      ds: what is read.
      num_threads: 0 reads nothing ahead. Otherwise one thread chunks the operations that depend on
        order, besides those that `ReadOptions` allow for the rest.
      buffer_size: how many elements each thread may be ahead.
      sequential_slice: accepted for compatibility; nothing is sliced by thread.

    >>> import grain
    >>> ds = grain.MapDataset.range(5).to_iter_dataset().batch(2)
    >>> list(multithread_prefetch(ds, num_threads=2, buffer_size=1))
    [array([0, 1]), array([2, 3]), array([4])]
    """
    del sequential_slice
    threads = checked_int("num_threads", num_threads, least=0)
    size = checked_int("buffer_size", buffer_size, least=0)
    ds = checked_iter_parent("multithread_prefetch", ds)
    if not threads:
        return ds
    ahead = ThreadPrefetchIterDataset(ds, prefetch_buffer_size=threads * size)
    # The state is that of one dataset read by turns.
    return InterleaveIterDataset([ahead], cycle_length=1)


class _Adapted(DatasetIterator[T]):
    """An iterator with `get_state` and `set_state` that is no `DatasetIterator`."""

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
    """Runs that a thread has read ahead of the consumer. It knows nothing of the consumer."""

    def __init__(self, size: int):
        self.size = size
        self.changed = threading.Condition()
        self.runs: collections.deque[Chunk | Exception] = collections.deque()
        self.count = 0
        self.stopped = False
        # Held while the parent is advanced: states of what it gave before must not be asked then.
        self.advancing = threading.Lock()

    def put(self, chunk: Chunk | Exception) -> None:
        with self.changed:
            self.runs.append(chunk)
            if isinstance(chunk, Chunk):
                self.count += len(chunk.elements)
            self.changed.notify_all()

    def first(self) -> Chunk | Exception:
        """Waits for what comes next, and leaves it there in case the consumer is interrupted."""
        with self.changed:
            while not self.runs:
                if self.stopped:
                    return RuntimeError(
                        "The thread that reads ahead has ended: so does the program."
                    )
                self.changed.wait()
            return self.runs[0]

    def drop_first(self) -> None:
        """Makes room for more: the consumer has what came next."""
        with self.changed:
            chunk = self.runs.popleft()
            if isinstance(chunk, Chunk):
                self.count -= len(chunk.elements)
            self.changed.notify_all()

    def room(self) -> int:
        """Waits until something is taken if the buffer is full; 0 when it is time to stop."""
        with self.changed:
            while self.count >= self.size and not self.stopped:
                self.changed.wait()
            return 0 if self.stopped else self.size - self.count

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()


def _read_ahead(parent: DatasetIterator[Any], buffer: _Buffer) -> None:
    """What the thread does: reads until the end, an error, or until it is told to stop."""
    limit = 1
    while room := buffer.room():
        started = time.perf_counter()
        try:
            with buffer.advancing:
                chunk = parent.next_chunk(min(limit, room))
                if chunk.live:
                    # Its states can be asked only now.
                    states = [chunk.state_after(place) for place in range(len(chunk.elements))]
                    chunk = Chunk(chunk.elements, states.__getitem__)
        except Exception as error:
            buffer.put(error)
            return
        except BaseException as error:  # An exit in a thread: the consumer must hear of it.
            buffer.put(RuntimeError(f"The thread that reads ahead was stopped by {error!r}."))
            return
        quick = time.perf_counter() - started < _CHUNK_SECONDS
        limit = min(2 * limit, 1024) if quick else max(1, limit // 2)
        buffer.put(chunk)
        if not chunk.elements:
            return


class ThreadPrefetchDatasetIterator(ChunkIterator[T]):
    """Takes the elements that a thread reads from an iterator.

    Args:
      parent: the iterator; anything with `__next__`, `get_state` and `set_state`. Nobody else may
        advance it.
      prefetch_buffer_size: how many elements may be read ahead; 0 reads nothing ahead.
    """

    def __init__(self, parent: Any, prefetch_buffer_size: int):
        adapted = parent if isinstance(parent, DatasetIterator) else _Adapted(parent)
        super().__init__(adapted)
        self._buffer_size = _checked_size(prefetch_buffer_size)
        self._buffer: _Buffer | None = None
        self._thread: threading.Thread | None = None
        self._ended = False
        # How to find the parent's state after what was given last.
        self._mark: Callable[[], Any] = constant(adapted.get_state())

    def __str__(self) -> str:
        return f"ThreadPrefetchDatasetIterator(prefetch_buffer_size={self._buffer_size})"

    def start_prefetch(self) -> None:
        """Starts the thread, before the first element is asked for."""
        self._assert_not_closed()
        if self._buffer_size:
            self._start()
        else:
            super().start_prefetch()

    def _start(self) -> _Buffer:
        if self._buffer is None:
            self._buffer = _Buffer(self._buffer_size)
            # The thread holds the buffer, not this iterator: one that is dropped ends its thread.
            weakref.finalize(self, self._buffer.stop)
            self._thread = start_thread(
                "grain-prefetch", self._buffer.stop, _read_ahead, self._what_is_read(), self._buffer
            )
        return self._buffer

    def _what_is_read(self) -> Any:
        """What the thread reads from; nothing of it may hold this iterator."""
        return self._parent

    def _halt(self) -> None:
        """Ends the thread and forgets what it read; waits for it if it is in the middle of a chunk."""
        buffer, thread = self._buffer, self._thread
        self._buffer = self._thread = None
        if buffer is not None:
            buffer.stop()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _pull(self, limit: int) -> Chunk:
        if self._ended:
            return END
        buffer: _Buffer | None = None
        if not self._buffer_size:
            chunk = self._parent.next_chunk(limit)
        else:
            buffer = self._start()
            taken = buffer.first()
            if isinstance(taken, Exception):
                self._halt()
                self._mark = constant(self._parent.get_state())
                raise taken
            chunk = taken if taken.elements else END
            if chunk.elements:
                # A state may be asked while the thread reads on.
                chunk = _guarded(chunk, buffer.advancing)
        if not chunk.elements:
            self._halt()
            self._ended = True
            # What was filtered out at the end has passed as well.
            self._mark = constant(self._parent.get_state())
            return END
        self._mark = chunk.snapshot(len(chunk.elements) - 1)
        if buffer is not None:
            buffer.drop_first()
        return chunk

    def index_from_state(self, state: Any) -> int:
        return self._parent.index_from_state(state)

    def state_from_index(self, index: int) -> Any:
        return self._parent.state_from_index(index)

    def _live_state(self) -> Any:
        return self._mark()

    def _restore(self, state: Any) -> None:
        if self._buffer is not None and same_state(self._mark(), state):
            return  # What was read ahead comes next.
        self._halt()
        self._parent.set_state(state)
        self._ended = False
        self._mark = constant(self._parent.get_state())

    def close(self) -> None:
        """Ends the thread, then closes the parent."""
        self._halt()
        super().close()


def _guarded(chunk: Chunk, lock: threading.Lock) -> Chunk:
    state_after = chunk.state_after

    def guarded_state_after(place: int) -> Any:
        with lock:
            return state_after(place)

    return Chunk(chunk.elements, guarded_state_after)
