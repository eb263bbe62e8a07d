"""Threads that read blocks of a map dataset; there may be more or fewer of them at any time."""

from __future__ import annotations

import collections
import queue
import threading
import time
from typing import Any

import numpy as np

from grain.dataset.chunk import PartialRead
from grain.execution.thread_shutdown import start_thread


class Block:
    """A stretch of indices, and its elements once it is `done`; then `ready` is released.

    `turn` is that of the threads when one of them began to read it; `begin`, `seconds` and `busy` tell
    when that was, how long it took and how long a processor was busy with it.
    """

    __slots__ = (
        "begin",
        "busy",
        "count",
        "done",
        "elements",
        "ready",
        "seconds",
        "start",
        "turn",
    )

    def __init__(self, start: int, count: int):
        self.start = start
        self.count = count
        self.turn = 0
        self.elements: list[Any] = []
        self.begin = self.seconds = self.busy = 0.0
        self.done = False
        self.ready = threading.Lock()
        self.ready.acquire()


class BlockThreads:
    """Threads that read the blocks they are given, in the order of being given.

    All methods are for one thread, except `stop`.
    """

    def __init__(self, dataset: Any):
        self._dataset = dataset
        self._tasks = _Tasks()
        self._threads: list[threading.Thread] = []
        self._running = 0
        self.put = self._tasks.put

    def at_least(self, count: int) -> None:
        """Starts threads until there are so many; fewer, but one, where the system has no more."""
        while self._running < count:
            if not self._tasks.recall():
                # Those that were let go need no more word to end.
                self._threads[:] = [thread for thread in self._threads if thread.is_alive()]
                try:
                    self._threads.append(_start_thread(self._dataset, self._tasks))
                except RuntimeError:
                    if not self._running:
                        raise
                    return
            self._running += 1

    def at_most(self, count: int) -> None:
        """Lets threads go, each after the block that it is reading, until there are so many."""
        while self._running > count:
            self._tasks.dismiss()
            self._running -= 1

    def set_turn(self, turn: int) -> None:
        """Blocks that are begun from now on belong to this turn."""
        self._tasks.turn = turn

    def stop(self) -> None:
        """Lets all threads end, whatever there was to be done."""
        self._tasks.stop(len(self._threads))

    def join(self) -> None:
        """Waits for threads that are in the middle of a block."""
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._threads.clear()
        self._running = 0


class _Tasks:
    """What the threads know: blocks that wait for one of them, and how many of them may go."""

    def __init__(self) -> None:
        self.turn = 0
        self._queue: queue.SimpleQueue[Block | None] = queue.SimpleQueue()
        # One entry for each thread that may go; taking one is atomic.
        self._dismissals: collections.deque[None] = collections.deque()
        self._stopped = False
        self.put = self._queue.put

    def get(self) -> Block | None:
        """The next block, or None for a thread that is to end."""
        while not self._stopped and not self.recall():
            block = self._queue.get()
            if block is not None:
                return None if self._stopped else block
        return None

    def dismiss(self) -> None:
        """Lets one thread go, also one that waits for a block."""
        self._dismissals.append(None)
        self._queue.put(None)

    def recall(self) -> bool:
        """Takes back a dismissal, or follows it; whether there was one."""
        try:
            self._dismissals.pop()
        except IndexError:
            return False
        return True

    def stop(self, threads: int) -> None:
        self._stopped = True
        for _ in range(threads):
            self._queue.put(None)


def _work(dataset: Any, tasks: _Tasks) -> None:
    """What a thread does: reads blocks until it is told to end. It knows nothing of who asks."""
    while (block := tasks.get()) is not None:
        block.turn = tasks.turn
        block.begin, busy = time.perf_counter(), time.thread_time()
        indices = np.arange(block.start, block.start + block.count, dtype=np.int64)
        try:
            block.elements = dataset.read_many(indices) if block.count else []
        except BaseException as error:  # A bug here, or an exit: the consumer must hear of it.
            failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
            block.elements = PartialRead([], failure)
        block.seconds = time.perf_counter() - block.begin
        block.busy = time.thread_time() - busy
        block.done = True
        block.ready.release()
        del block


def _start_thread(dataset: Any, tasks: _Tasks) -> threading.Thread:
    return start_thread("grain-read", lambda: tasks.stop(1), _work, dataset, tasks)
