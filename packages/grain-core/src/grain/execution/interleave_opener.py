"""Threads that open and read the datasets of an interleave ahead of the consumer.

Opening: `ThreadOpener` runs jobs in the order of submission; a thread lives as long as there are jobs.
    The consumer takes
the result of a job by the number of its dataset, and blocks until it is there. An error of a job is
raised by `take`. Results that are not taken are closed. Threads hold the job queue but not the opener, so
that dropping it stops them.

Reading: `ThreadsAhead.reading` puts a prefetch thread under a cycle slot and reports how long elements
    take, so that
the interleave can take the thread away again (`back`), at the consumer's position.
"""

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
    """Opens and reads datasets ahead in threads."""

    def opener(self, threads: int) -> ThreadOpener:
        """Return an opener with at most `threads` threads."""
        return ThreadOpener(threads)

    def reading(
        self, iterator: DatasetIterator[Any], size: int, note: Callable[[float], None]
    ) -> DatasetIterator[Any]:
        """Return the iterator prefetched by a thread; unchanged if it is prefetched already."""
        if isinstance(iterator, ThreadPrefetchDatasetIterator):
            return iterator
        return _TimedPrefetchIterator(iterator, size, note)

    def back(self, reading: DatasetIterator[Any]) -> DatasetIterator[Any]:
        """Return the iterator without its thread, at the consumer's position."""
        assert isinstance(reading, _TimedPrefetchIterator)
        return reading.detach()


class _TimedPrefetchIterator(ThreadPrefetchDatasetIterator[Any]):
    """Prefetches in a thread that reports the seconds of each element."""

    def __init__(self, parent: DatasetIterator[Any], size: int, note: Callable[[float], None]):
        super().__init__(parent, size)
        self._note = note

    def _thread_input(self) -> _TimedParent:
        return _TimedParent(self._parent, self._note)

    def detach(self) -> DatasetIterator[Any]:
        """End the thread; return the parent at the consumer's position."""
        state = self.get_state()
        self.stop_prefetch()
        self._parent.set_state(state)
        return self._parent


class _TimedParent:
    """The parent as the prefetch thread reads it."""

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
    """Opens datasets in threads, in the order of submission.

    Args:
        threads: Most threads at a time.
    """

    def __init__(self, threads: int):
        self._jobs = _OpeningJobs(max(1, threads))
        # Threads hold the jobs, not the opener, so that dropping it stops them.
        weakref.finalize(self, self._jobs.stop)

    def submit(self, number: int, job: Callable[[], Opened]) -> None:
        """Submit a job, unless one for this number is in flight."""
        self._jobs.submit(number, job)

    def take(self, number: int) -> Opened | None:
        """Wait for the job of a number and return its result; None if there is no job."""
        return self._jobs.take(number)

    def close(self) -> None:
        """Close the results that were not taken, and wait for the threads."""
        self._jobs.stop()
        self._jobs.join()


class _OpeningJobs:
    """Jobs, their results, and the threads that run them."""

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
                # It cannot end and be removed before this lock is released.
                self._threads.add(start_thread("grain-open", self.stop, self._run))

    def _run(self) -> None:
        while (found := self._next()) is not None:
            number, job = found
            result: Opened | Exception
            try:
                result = job()
            except Exception as error:
                result = error
            except BaseException as error:  # Also an exit: the consumer must receive the error.
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
