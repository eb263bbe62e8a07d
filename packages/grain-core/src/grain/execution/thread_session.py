"""Threads that compute blocks of fused stages: a worker session without processes.

It has the methods of `WorkerSession` that `FusedIterator` uses, so order, states, errors and backpressure
are those of worker processes. Work that waits uses all threads. Work that keeps processors busy uses as
many as pay off: threads that need the interpreter lock only contend for it.

`result_or_error` blocks until a block is computed, and `release` until threads have finished theirs; an
interrupt of either changes nothing. Threads hold no reference to the session, so dropping it ends them.
"""

from __future__ import annotations

import time
import weakref
from typing import Any

from grain import tree
from grain._policy import Policy, current_policy
from grain.execution.block_threads import BlockThreads, ReadBlock
from grain.execution.fused_stage import BlockResult, BlockTask, FusedStage
from grain.execution.thread_count import FastestReads, ThreadCount


class FusedBlock(ReadBlock):
    """A block of a fused stage for a thread to compute.

    Attributes:
        result: The result, or the error of a computation that was ended by an exit.
    """

    __slots__ = ("result", "task")

    def __init__(self, task: BlockTask):
        super().__init__(task.start, task.size)
        self.task = task
        self.result: BlockResult | Exception | None = None

    def compute(self, dataset: Any) -> None:
        stage: FusedStage = dataset
        if not self.count:
            return
        try:
            self.result = stage.compute(self.task)
        except Exception as error:
            self.result = error
        except BaseException as error:  # Also an exit: the consumer must receive the error.
            self.result = RuntimeError(f"The prefetch thread was stopped by {error!r}.")


class ThreadSession:
    """Threads of one iterator, which compute blocks of one fused stage.

    Args:
        capacity: Most threads.
        buffer_size: Elements that each thread may compute ahead, however large.
        further_elements: Elements that all threads together may compute ahead besides, as far as they fit
            into `Policy.read_ahead_bytes`.
        policy: Tuning constants; those of the process by default.

    Attributes:
        policy: Tuning constants, with which `FusedIterator` keeps to the buffer.
    """

    def __init__(
        self,
        capacity: int,
        buffer_size: int,
        further_elements: int = 0,
        policy: Policy | None = None,
    ):
        policy = policy or current_policy()
        self.capacity = capacity
        self.policy = policy.replace(block_bytes=0, blocks_per_worker=1)
        self._own_buffer = buffer_size
        self._further_elements = further_elements
        self._element_bytes = 0.0
        self._threads: BlockThreads | None = None
        self._thread_count = ThreadCount(capacity, None, waits=True, policy=policy)
        self._part = -1
        self._stage: FusedStage | None = None
        self._blocks: dict[int, FusedBlock] = {}
        self._next_ticket = 0
        self._fastest = FastestReads(64)

    @property
    def buffer_size(self) -> int:
        """Elements that each thread may compute ahead."""
        if not self._element_bytes:
            return self._own_buffer  # The size of an element is not known yet.
        affordable = int(self.policy.read_ahead_bytes / self._element_bytes)
        return self._own_buffer + min(self._further_elements, affordable) // self.capacity

    @property
    def _useful_threads(self) -> int:
        """Number of threads to use: for cheap elements one is enough, and more would contend with it."""
        return self._thread_count.now if self._fastest.are_slow(self.policy) else 1

    def add(self, part: FusedStage) -> int:
        """Use threads for a fused stage; return its number."""
        self._part += 1
        self._stage = part
        return self._part

    def release(self, number: int) -> None:
        """End the threads of a stage and wait for their current blocks."""
        if number != self._part:
            return
        for ticket in list(self._blocks):
            self.cancel(ticket)
        self._stage = None
        # Not by the finalizer, which an interrupt could use up without effect.
        if self._threads is not None:
            self._threads.stop()
            self._threads.join()
        self._threads = None

    def submit(self, number: int, method: str, task: BlockTask) -> int:
        """Submit a block; return the ticket of its result."""
        del number, method
        if self._threads is None:
            self._threads = BlockThreads(self._stage)
            weakref.finalize(self, self._threads.stop)
        ticket = self._next_ticket = self._next_ticket + 1
        block = self._blocks[ticket] = FusedBlock(task)
        # First a thread to compute it: without one, waiting for the block would never end.
        self._threads.at_least(min(self._useful_threads, len(self._blocks)))
        self._threads.submit(block)
        return ticket

    def result_or_error(self, ticket: int) -> BlockResult:
        """Wait for a block; it stays available if the wait is interrupted."""
        block, waited = self._blocks[ticket], 0.0
        if not block.done:
            started = time.perf_counter()
            block.ready.acquire()
            waited = time.perf_counter() - started
        result = block.result
        if isinstance(result, BlockResult):
            self._adapt(block, result, waited)
            del self._blocks[ticket]
            return result
        del self._blocks[ticket]
        raise result or RuntimeError("The block was cancelled.")

    def _adapt(self, block: FusedBlock, result: BlockResult, waited: float) -> None:
        """Adapt the number of threads and of elements ahead to a block that was taken."""
        self._fastest.add(block.seconds, block.busy, block.count)
        if result.elements:
            self._element_bytes = max(1.0, self._element_bytes / 2, tree.nbytes(result.elements[0]))
        if self._useful_threads > 1:
            self._thread_count.observe(
                block.generation, block.count, block.begin, block.seconds, block.busy, waited
            )
            if self._threads is not None:
                self._threads.at_most(self._thread_count.now)
                self._threads.set_generation(self._thread_count.generation)

    def cancel(self, ticket: int) -> None:
        """Discard the result of a block; one that was not started is skipped."""
        block = self._blocks.pop(ticket, None)
        if block is not None:
            block.count = 0
