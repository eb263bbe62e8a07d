"""Threads that open datasets, and read them, before their turn comes."""

from __future__ import annotations

import collections
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from grain.dataset.base import DatasetIterator
from grain.dataset.chunk import Chunk
from grain.dataset.interleave.opener import Opened
from grain.execution.thread_prefetch import (
    ThreadPrefetchDatasetIterator,
)
from grain.execution.thread_shutdown import start_thread


class ThreadsAhead:
    """Opens and reads ahead in threads."""

    def opener(self, threads: int) -> ThreadOpener:
        """Makes an opener with up to so many threads."""
        return ThreadOpener(threads)

    def reading(
        self, iterator: DatasetIterator[Any], size: int, note: Callable[[float], None]
    ) -> DatasetIterator[Any]:
        """Lets a thread read an iterator ahead, unless one does."""
        if isinstance(iterator, ThreadPrefetchDatasetIterator):
            return iterator
        return _WatchedPrefetchIterator(iterator, size, note)

    def back(self, reading: DatasetIterator[Any]) -> DatasetIterator[Any]:
        """Ends the thread; what it read is read again."""
        assert isinstance(reading, _WatchedPrefetchIterator)
        state = reading.get_state()
        reading._halt()
        reading._parent.set_state(state)
        return reading._parent


class _WatchedPrefetchIterator(ThreadPrefetchDatasetIterator[Any]):
    """Reads ahead in a thread that tells how long elements take."""

    def __init__(self, parent: DatasetIterator[Any], size: int, note: Callable[[float], None]):
        super().__init__(parent, size)
        self._note = note

    def _what_is_read(self) -> _Watched:
        return _Watched(self._parent, self._note)


class _Watched:
    """What the thread of such an iterator reads from; it holds nothing of the iterator."""

    def __init__(self, parent: DatasetIterator[Any], note: Callable[[float], None]):
        self._parent = parent
        self._note = note

    def next_chunk(self, limit: int) -> Chunk:
        started = time.perf_counter()
        chunk = self._parent.next_chunk(limit)
        if chunk.elements:
            self._note((time.perf_counter() - started) / len(chunk.elements))
        return chunk


class ThreadOpener:
    """Opens datasets in threads, in the order they were asked for.

    A thread lives as long as there is something to open.
    """

    def __init__(self, threads: int):
        self._work = _Work(max(1, threads))
        # The threads hold the work, not the opener: one that is dropped leaves nothing behind.
        weakref.finalize(self, self._work.stop)

    def submit(self, number: int, job: Callable[[], Opened]) -> None:
        """Lets a thread do `job`, unless one for this number is under way."""
        self._work.submit(number, job)

    def take(self, number: int) -> Opened | None:
        """Waits for what the job of a number returned; None if there is none."""
        return self._work.take(number)

    def close(self) -> None:
        """Closes what was opened for nobody, and waits for the threads."""
        self._work.stop()
        self._work.join()


class _Work:
    """Jobs, their results, and the threads that do them."""

    def __init__(self, most: int):
        self._most = most
        self._changed = threading.Condition()
        self._waiting: collections.deque[tuple[int, Callable[[], Opened]]] = collections.deque()
        self._known: set[int] = set()
        self._done: dict[int, Opened | Exception] = {}
        self._threads: set[threading.Thread] = set()
        self._stopped = False

    def submit(self, number: int, job: Callable[[], Opened]) -> None:
        with self._changed:
            if self._stopped or number in self._known:
                return
            self._known.add(number)
            self._waiting.append((number, job))
            if len(self._threads) < self._most:
                # It cannot end, and be taken out again, before this lock is released.
                self._threads.add(start_thread("grain-open", self.stop, self._run))

    def _run(self) -> None:
        while (found := self._next()) is not None:
            number, job = found
            result: Opened | Exception
            try:
                result = job()
            except Exception as error:
                result = error
            except BaseException as error:  # An exit in a thread: the consumer must hear of it.
                result = RuntimeError(f"The thread that opens datasets was stopped by {error!r}.")
            del job, found
            self._put(number, result)

    def _next(self) -> tuple[int, Callable[[], Opened]] | None:
        with self._changed:
            if self._waiting:
                return self._waiting.popleft()
            self._threads.discard(threading.current_thread())
            return None

    def _put(self, number: int, result: Opened | Exception) -> None:
        with self._changed:
            if not self._stopped:
                self._done[number] = result
                self._changed.notify_all()
                return
        if isinstance(result, Opened):
            result.iterator.close()

    def take(self, number: int) -> Opened | None:
        with self._changed:
            if number not in self._known:
                return None
            while number not in self._done:
                if self._stopped:
                    return None
                self._changed.wait()
            self._known.discard(number)
            result = self._done.pop(number)
        if isinstance(result, Exception):
            raise result
        return result

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            left = list(self._done.values())
            self._done.clear()
            self._changed.notify_all()
        for result in left:
            if isinstance(result, Opened):
                result.iterator.close()

    def join(self) -> None:
        with self._changed:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()
