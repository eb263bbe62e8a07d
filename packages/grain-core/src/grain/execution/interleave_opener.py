"""Threads that open and read the datasets of an interleave ahead of the consumer.

Opening: `ThreadOpener` runs jobs in the order of submission; a thread lives as long as there are jobs. The
consumer takes the result of a job by the number of its dataset, and blocks until it is there. An error of a
job is raised by `take`. Results that are not taken are closed. Threads hold the job queue but not the
opener, so that dropping it stops them.

Reading: `ThreadsAhead.reading` puts a prefetch thread under a cycle slot and reports how long elements
take, so that the interleave can take the thread away again (`back`), at the consumer's position.
"""

from __future__ import annotations

import collections
import os
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
from grain.execution.thread_shutdown import BackgroundThread, require_threads_of


class ThreadsAhead:
    """Opens and reads datasets ahead in threads."""

    def opener(self, threads: int) -> ThreadOpener:
        """Return an opener with at most `threads` threads."""
        return ThreadOpener(threads)

    def reading(
        self, iterator: DatasetIterator[Any], size: int, note: Callable[[float], None]
    ) -> DatasetIterator[Any]:
        """Return the iterator prefetched by a thread; unchanged if it is prefetched already.

        A second buffer would hold more elements than the first one allows, and taking its thread away
        would discard those of both.
        """
        if isinstance(iterator, ThreadPrefetchDatasetIterator) or getattr(
            iterator, "computes_elsewhere", False
        ):
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


class _Job:
    """One dataset to open.

    Attributes:
        result: The result or error; None for a job that was given up.
        done: Whether the result is there.
        ready: Lock that is released when the job is done.
    """

    __slots__ = ("done", "open", "ready", "result")

    def __init__(self, open_dataset: Callable[[], Opened]):
        self.open = open_dataset
        self.result: Opened | Exception | None = None
        self.done = False
        self.ready = threading.Lock()
        self.ready.acquire()

    def finish(self, result: Opened | Exception | None) -> None:
        self.result, self.done = result, True
        self.ready.release()


class _OpeningJobs:
    """Jobs, their results, and the threads that run them.

    The consumer waits for the lock of one job, so that an interrupt leaves nothing locked.
    """

    def __init__(self, most: int):
        self._most = most
        self._process = os.getpid()
        # Reentrant: a finalizer may call `stop` anywhere.
        self._lock = threading.RLock()
        self._jobs: dict[int, _Job] = {}
        self._waiting: collections.deque[_Job] = collections.deque()
        self._threads: list[BackgroundThread] = []
        self._stopped = False

    def submit(self, number: int, job: Callable[[], Opened]) -> None:
        if not self._stopped and number not in self._jobs:
            opening = _Job(job)
            self._jobs[number] = opening
            self._waiting.append(opening)
            self._start_threads()

    def _start_threads(self) -> bool:
        """Start a thread for jobs that wait; return whether any thread runs."""
        require_threads_of(self._process)
        with self._lock:
            if self._waiting and len(self._threads) < self._most:
                self._threads.append(BackgroundThread("grain-open", self.stop, self._run))
            threads = list(self._threads)
        for thread in threads:
            try:
                thread.start()
            except RuntimeError:  # The system has no more of them.
                with self._lock:
                    self._threads.remove(thread)
        return bool(self._threads)

    def _run(self) -> None:
        while (job := self._next()) is not None:
            self._open(job)
            del job

    def _open(self, job: _Job) -> None:
        result: Opened | Exception
        try:
            result = job.open()
        except Exception as error:
            result = error
        except BaseException as error:  # Also an exit: the consumer must receive the error.
            result = RuntimeError(f"The thread that opens datasets was stopped by {error!r}.")
        with self._lock:
            job.finish(None if self._stopped else result)
            if not self._stopped:
                return
        if isinstance(result, Opened):
            result.iterator.close()

    def _next(self) -> _Job | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._threads[:] = [thread for thread in self._threads if not thread.is_current]
            return None

    def take(self, number: int) -> Opened | None:
        job = self._jobs.get(number)
        if job is None:
            return None
        while not job.done:
            if self._start_threads():
                job.ready.acquire()
            elif self._waiting:
                self._open(self._waiting.popleft())
        self._jobs.pop(number, None)
        if isinstance(job.result, Exception):
            raise job.result
        return job.result

    def stop(self) -> None:
        if os.getpid() != self._process:
            self._stopped = True  # The lock may be held by a thread that exists only in the parent.
            return
        with self._lock:
            self._stopped = True
            waiting = list(self._waiting)
            self._waiting.clear()
            finished = [job for job in self._jobs.values() if job.done]
            self._jobs.clear()
        for job in waiting:
            job.finish(None)
        for job in finished:
            if isinstance(job.result, Opened):
                job.result.iterator.close()

    def join(self) -> None:
        if os.getpid() != self._process:
            return
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            if not thread.is_current:
                thread.join()
