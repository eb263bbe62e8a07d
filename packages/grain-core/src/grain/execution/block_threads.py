"""Threads that read blocks of a map dataset; their number can change at any time."""

from __future__ import annotations

import collections
import os
import queue
import threading
import time
from typing import Any

import numpy as np

from grain.dataset.chunk import PartialRead
from grain.execution.thread_shutdown import BackgroundThread, StopSignal, require_threads_of


class ReadBlock:
    """A range of indices for a thread to read, and its elements once it is `done`.

    Attributes:
        start: First index.
        count: Number of indices; 0 for a block that was cancelled.
        generation: Generation of the threads when one of them started the block.
        elements: The elements, those before an error as `PartialRead`.
        begin: Time at which reading started.
        seconds: Seconds that reading took.
        busy: Seconds of processor time among them.
        done: Whether the elements are there.
        ready: Lock that is released when the block is done.
    """

    __slots__ = (
        "begin",
        "busy",
        "count",
        "done",
        "elements",
        "generation",
        "ready",
        "seconds",
        "start",
    )

    def __init__(self, start: int, count: int):
        self.start = start
        self.count = count
        self.generation = 0
        self.elements: list[Any] = []
        self.begin = self.seconds = self.busy = 0.0
        self.done = False
        self.ready = threading.Lock()
        self.ready.acquire()

    def compute(self, dataset: Any) -> None:
        """Read the elements; called in a thread."""
        indices = np.arange(self.start, self.start + self.count, dtype=np.int64)
        try:
            self.elements = dataset.read_many(indices) if self.count else []
        except BaseException as error:  # Also an exit: the consumer must receive the error.
            failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
            self.elements = PartialRead([], failure)


class BlockThreads:
    """Threads that compute blocks in the order of submission.

    Args:
        dataset: Passed to `compute` of each block.

    All methods must be called from one thread. Only `wait` and `join` block. Threads hold no reference to
    this object, so that dropping it ends them.
    """

    def __init__(self, dataset: Any):
        self._dataset = dataset
        self._tasks = _Tasks(self)
        self._threads: list[BackgroundThread] = []
        self._running = 0
        self._process = os.getpid()
        self.submit = self._tasks.submit

    def at_least(self, count: int) -> None:
        """Start threads up to `count`; accept fewer, but not none, if the system has no more."""
        require_threads_of(self._process)
        while self._running < count:
            if not self._tasks.take_dismissal():
                # Dismissed threads that have ended need no message to stop.
                self._threads[:] = [thread for thread in self._threads if thread.is_alive()]
                self._threads.append(_new_thread(self._dataset, self._tasks))
                try:
                    self._threads[-1].start()
                except RuntimeError:
                    self._threads.pop()
                    if not self._running:
                        raise
                    return
            self._running += 1

    def at_most(self, count: int) -> None:
        """Dismiss threads down to `count`, each after its current block."""
        while self._running > count:
            # Counted first: after an interrupt there may be more threads than counted, but never fewer.
            self._running -= 1
            self._tasks.dismiss()

    def wait(self, block: ReadBlock) -> None:
        """Wait until a block that was submitted is done."""
        if not block.done:
            require_threads_of(self._process)
        block.ready.acquire()

    def set_generation(self, generation: int) -> None:
        """Set the generation of the blocks that are started from now on."""
        self._tasks.generation = generation

    def stop(self) -> None:
        """Let all threads end, each after its current block."""
        self._tasks.stop(len(self._threads))

    def join(self) -> None:
        """Wait for threads to finish their current block."""
        for thread in self._threads:
            if not thread.is_current:
                thread.join()
        self._threads.clear()
        self._running = 0


class _Tasks:
    """State shared with the threads: blocks that wait, and how many threads are dismissed.

    Args:
        owner: The object that the threads work for.
    """

    def __init__(self, owner: BlockThreads) -> None:
        self.generation = 0
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        # One entry for each dismissed thread; taking one is atomic.
        self._dismissals: collections.deque[None] = collections.deque()
        self._stop = StopSignal(owner, self._queue)
        self.submit = self._queue.put

    def get(self) -> ReadBlock | None:
        """Wait for the next block; return None for a thread that must end."""
        while not self._stop and not self.take_dismissal():
            block = self._queue.get()
            if isinstance(block, ReadBlock):
                return None if self._stop else block
            if block is not None:
                self._queue.put(block)  # The owner is gone: the next thread must end too.
        return None

    def dismiss(self) -> None:
        """Let one thread end, also one that waits for a block."""
        self._dismissals.append(None)
        self._queue.put(None)

    def take_dismissal(self) -> bool:
        """Take one dismissal, to revoke or to follow it; return whether there was one."""
        try:
            self._dismissals.pop()
        except IndexError:
            return False
        return True

    def stop(self, threads: int) -> None:
        self._stop.set()
        for _ in range(threads):
            self._queue.put(None)


def _work(dataset: Any, tasks: _Tasks) -> None:
    """Compute blocks until there is none; the main function of a thread."""
    while (block := tasks.get()) is not None:
        block.generation = tasks.generation
        block.begin, busy = time.perf_counter(), time.thread_time()
        block.compute(dataset)
        block.seconds = time.perf_counter() - block.begin
        block.busy = time.thread_time() - busy
        block.done = True
        block.ready.release()
        del block


def _new_thread(dataset: Any, tasks: _Tasks) -> BackgroundThread:
    return BackgroundThread("grain-read", lambda: tasks.stop(1), _work, dataset, tasks)
