"""The reader of map datasets in workers: block by block, split among threads where reading waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from grain._policy import current_policy
from grain.dataset.chunk import PartialRead
from grain.execution.block_threads import BlockThreads, ReadBlock
from grain.index.permutation import IndexArray
from grain.options import ReadOptions

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # Only Linux counts by thread.
    _system_count: Callable[[], int] | None = None
else:

    def _system_count() -> int:
        """Return how often this thread has released the processor to wait."""
        return getrusage(RUSAGE_THREAD).ru_nvcsw


class SplitReader:
    """Reader of blocks of a map dataset, in threads once reading is seen to wait most of the time.

    Elements that need the processor are read by one thread: further threads would contend with it, and other
    workers use the other processors.

    Args:
        dataset: The map dataset.
        options: Number of threads.
        count_pauses: Function that returns how often this thread has released the processor to wait; None
            where the system does not count that.

    Attributes:
        waits: Whether reading mostly waits for I/O.
    """

    def __init__(
        self,
        dataset: Any,
        options: ReadOptions,
        count_pauses: Callable[[], int] | None = _system_count,
    ):
        self.waits = False
        self._count_pauses = count_pauses
        self._policy = current_policy()
        self._dataset = dataset
        self._max_threads = options.num_threads if options.prefetch_buffer_size else 0
        self._evidence = 0
        self._threads = BlockThreads(dataset)

    def read(self, indices: IndexArray) -> list[Any]:
        """Return the elements at consecutive indices; those before an error as `PartialRead`."""
        if self.waits and self._max_threads > 1 and indices.size > 1:
            return self._read_split(indices)
        pauses = self._pauses()
        started, busy = time.perf_counter(), time.thread_time()
        elements: list[Any] = self._dataset.read_many(indices)
        seconds = time.perf_counter() - started
        waiting = seconds - (time.thread_time() - busy)
        # A thread that was preempted has not released the processor voluntarily.
        policy, count = self._policy, len(elements)
        paused = self._count_pauses is None or self._pauses() - pauses >= count
        least = max(policy.waiting_share * seconds, policy.slow_element_seconds * count)
        self._evidence = self._evidence + count if paused and waiting > least else 0
        self.waits = self._evidence >= policy.waiting_evidence
        return elements

    def _pauses(self) -> int:
        return 0 if self._count_pauses is None else self._count_pauses()

    def _read_split(self, indices: IndexArray) -> list[Any]:
        self._threads.at_least(self._max_threads)
        parts = np.array_split(indices, min(self._max_threads, indices.size))
        blocks = [ReadBlock(int(part[0]), part.size) for part in parts]
        for block in blocks:
            self._threads.submit(block)
        elements: list[Any] = []
        failure: Exception | None = None
        for block in blocks:
            self._threads.wait(block)
            if failure is None:
                elements += block.elements
                if isinstance(block.elements, PartialRead):
                    failure = block.elements.error
        return elements if failure is None else PartialRead(elements, failure)
