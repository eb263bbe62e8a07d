"""Threads that compute blocks of fused stages: a worker session without processes.

It has the methods of `WorkerSession` that `FusedIterator` uses, so order, states, errors and backpressure
are those of worker processes. Work that waits uses all threads. Work that keeps processors busy uses as
many as pay off: threads that need the interpreter lock only contend for it.

`result_or_error` blocks until a block is computed, and `release` until threads have finished theirs; an
interrupt of either changes nothing. Threads hold no reference to the session, so dropping it ends them.
"""

from __future__ import annotations

import time
from typing import Any

from grain import tree
from grain._policy import Policy, current_policy
from grain.execution.block_threads import BlockThreads, ReadBlock
from grain.execution.costs import Costs
from grain.execution.executor import TaskLost
from grain.execution.fused_stage import BlockResult, BlockTask, FusedStage
from grain.execution.thread_count import FastestReads, ThreadCount


class FusedBlock(ReadBlock):
    """A block of a fused stage for a thread to compute.

    Attributes:
        result: The result, or the error of a computation that was ended by an exit.
    """

    __slots__ = ("result", "stage", "task")

    def __init__(self, stage: FusedStage, task: BlockTask):
        super().__init__(task.start, task.size)
        self.stage = stage
        self.task = task
        self.result: BlockResult | Exception | None = None

    def compute(self, dataset: Any) -> None:
        del dataset
        if not self.count:
            return
        try:
            self.result = self.stage.compute(self.task)
        except Exception as error:
            self.result = error
        except BaseException as error:  # Also an exit: the consumer must receive the error.
            self.result = RuntimeError(f"The prefetch thread was stopped by {error!r}.")


class ThreadSession:
    """Threads of one iterator, which compute blocks of fused stages.

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
        self.costs = Costs.of_local_processes(policy, max_bytes=policy.read_ahead_bytes)
        self._next_number = 0
        self._stages: dict[int, FusedStage] = {}
        # Blocks whose results were not taken.
        self._blocks: set[FusedBlock] = set()
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

    def has_room(self, nbytes: int) -> bool:
        """Return True: the buffer bounds what is in flight."""
        del nbytes
        return True

    def add(self, part: FusedStage) -> int:
        """Add a fused stage; return its number."""
        number = self._next_number
        self._next_number += 1
        self._stages[number] = part
        return number

    def release(self, number: int) -> None:
        """Remove a fused stage; with the last one, end the threads and wait for their current blocks."""
        self._stages.pop(number, None)
        if self._stages:
            return
        for block in list(self._blocks):
            self.cancel(block)
        if self._threads is not None:
            self._threads.stop()
            self._threads.join()
        self._threads = None

    def submit(
        self,
        number: int,
        method: str,
        task: BlockTask,
        *,
        nbytes: int = 0,
        losses: tuple[TaskLost, ...] = (),
    ) -> FusedBlock:
        """Submit a block to the threads."""
        del method, nbytes, losses
        if self._threads is None:
            self._threads = BlockThreads(None)
        block = FusedBlock(self._stages[number], task)
        self._blocks.add(block)
        # First a thread to compute it: without one, waiting for the block would never end.
        self._threads.at_least(min(self._useful_threads, len(self._blocks)))
        self._threads.submit(block)
        return block

    def result_or_error(self, call: FusedBlock) -> BlockResult:
        """Wait for a block; its result stays available if the wait is interrupted."""
        waited = 0.0
        if not call.done:
            started = time.perf_counter()
            assert self._threads is not None
            self._threads.wait(call)
            waited = time.perf_counter() - started
        result = call.result
        if isinstance(result, BlockResult):
            self._adapt(call, result, waited)
            self._blocks.discard(call)
            return result
        self._blocks.discard(call)
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

    def cancel(self, call: FusedBlock) -> None:
        """Discard the result of a block; one that was not started is skipped."""
        self._blocks.discard(call)
        call.count = 0
