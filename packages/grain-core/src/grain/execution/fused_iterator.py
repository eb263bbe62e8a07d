"""The iterator of a fused stage: workers compute blocks ahead, the consumer receives them in order.

Roles: the iterator cuts the map dataset into blocks, submits them to any worker, and keeps a queue of the
blocks in flight. Results arrive in any order; the iterator waits for the oldest block, so elements and
states come in order. Backpressure: the live capacity times the depth that the user's buffer allows are in
flight, within the byte budget of the pool. The size of blocks follows the time and the memory of their
elements, and the costs of the pool.

Errors: a result holds the elements before an error and the error. The elements are delivered first, then
the error is raised, then the stream continues after it: blocks in flight were computed with other counts,
so they are cancelled. The indices of a block that cannot be transferred, or that ends its workers, are
computed again one by one, so that the element to blame is the one that fails. The session submits lost
blocks again by itself. Ctrl-C leaves the oldest block the oldest.

A stage that counts elements relies on none being dropped. If a block turns out to be sparse, the iterator
continues with its fallback: workers compute the part below the counting stage, this process the rest.
"""

from __future__ import annotations

import collections
import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from grain import tree
from grain._chunk_size import ChunkSizeController
from grain._exceptions import add_note, is_worker_failure, mark_unfinished_batch
from grain._policy import Policy
from grain.dataset.base import DatasetIterator
from grain.dataset.chunk import END, Chunk
from grain.dataset.context import iteration_context
from grain.dataset.iterator import ChunkIterator, state_field
from grain.dataset.stages import with_counts, without_counts
from grain.execution.costs import Costs
from grain.execution.drop_rate import DropExcess, FusedDropMonitor
from grain.execution.executor import TaskLost
from grain.execution.fused_stage import BlockResult, BlockTask, FusedStage
from grain.execution.task_scheduler import TASK_ERRORS, PoisonTaskError

T = TypeVar("T")


class BlockSession(Protocol):
    """The part of a worker session that computes blocks: by workers, or by threads."""

    policy: Policy

    @property
    def capacity(self) -> int:
        """Number of blocks that can be computed at the same time."""

    @property
    def buffer_size(self) -> int:
        """Elements that may be computed ahead for each of them."""

    @property
    def costs(self) -> Costs:
        """The cost model."""

    def has_room(self, nbytes: int) -> bool:
        """Return whether a further result of `nbytes` is within the byte budget."""

    def add(self, part: FusedStage) -> int:
        """Add a fused stage; return its number."""

    def release(self, number: int) -> None:
        """Remove a fused stage."""

    def submit(
        self,
        number: int,
        method: str,
        task: BlockTask,
        *,
        nbytes: int = 0,
        losses: tuple[TaskLost, ...] = (),
    ) -> Any:
        """Call a method of a fused stage; return the call."""

    def result_or_error(self, call: Any) -> Any:
        """Wait for a result that carries the error of its computation as `error`."""

    def cancel(self, call: Any) -> None:
        """Discard the result of a call."""


@dataclasses.dataclass
class _InFlightBlock:
    """A submitted block."""

    call: Any
    block: BlockTask


class FusedIterator(ChunkIterator[T]):
    """Iterator over the elements of a fused stage, computed in blocks by workers.

    Args:
        stage: The fused stage.
        session: The workers.
        fallback: Makes the iterator that continues if elements are missing although a stage counts them.
    """

    def __init__(
        self,
        stage: FusedStage,
        session: BlockSession,
        fallback: Callable[[], DatasetIterator[T]],
    ):
        super().__init__()
        self._stage = stage
        self._session = session
        self._make_fallback = fallback
        self._number = session.add(stage)
        self._length = len(stage.boundary.parents[0])
        self._drops = FusedDropMonitor(stage, self._context.options)
        # Errors at the same position as the last one.
        self._further_errors: list[Exception] = []
        self._in_flight: collections.deque[_InFlightBlock] = collections.deque()
        # Elements of the result per block; None until the costs of the workers are known.
        self._block_size: ChunkSizeController | None = None
        # Size of an element of the last result.
        self._element_bytes = 0
        # Indices before this one are computed one by one, after losses of workers that computed them.
        self._suspect_stop = 0
        self._suspect_losses: tuple[TaskLost, ...] = ()
        self._fallback: DatasetIterator[T] | None = None
        self._start_at(0, [0] * len(stage.stages))

    def __str__(self) -> str:
        return f"FusedIterator({self._stage})"

    computes_elsewhere = True
    """The time that a pull takes is time of waiting for the workers."""

    def prefetched(self) -> int:
        """Return the number of blocks in flight that are computed, as far as that is known cheaply."""
        return sum(getattr(task.call, "done", False) for task in self._in_flight)

    @property
    def prefetch_capacity(self) -> int | None:
        """The most blocks in flight so far known; None before the first."""
        return len(self._in_flight) or None

    def _start_at(self, index: int, counts: Sequence[int]) -> None:
        """Continue at an index of the map dataset, with given counts of the stages."""
        self._cancel_all()
        self._further_errors = []
        self._stop = self._length
        self._origin = self._submitted = self._next_index = index
        self._counts = tuple(counts)

    def _cancel_all(self) -> None:
        for task in self._in_flight:
            self._session.cancel(task.call)
        self._in_flight.clear()

    def _counts_at(self, index: int) -> list[int]:
        return self._stage.counts_after(index - self._origin, self._counts)

    def _fill(self) -> None:
        """Submit blocks until every worker is busy and the buffer is full."""
        if self._in_flight:  # An interrupt may have come before the last block was counted.
            last = self._in_flight[-1].block
            self._submitted = last.start + last.size
        if self._submitted >= self._stop:
            return
        session, policy = self._session, self._session.policy
        if self._block_size is None:
            self._block_size = ChunkSizeController(
                session.costs.block_seconds,
                maximum=1 << 62,
                max_bytes=policy.block_bytes,
                growth=policy.block_growth,
                growth_calls=policy.block_growth_calls,
            )
        size = self._block_size.size
        depth = policy.blocks_per_worker
        if self._element_bytes:  # Before that, the byte budget bounds nothing.
            depth = max(depth, -(-session.buffer_size // size))
        most = session.capacity * depth
        if size * self._element_bytes > policy.block_bytes:
            # Large blocks take long enough that one that waits keeps all workers busy.
            buffered = session.capacity * -(-session.buffer_size // size)
            most = max(buffered, session.capacity + policy.large_blocks_ahead)
        while self._submitted < self._stop and len(self._in_flight) < most:
            suspect = self._submitted < self._suspect_stop
            elements = 1 if suspect else size
            nbytes = elements * self._element_bytes
            if self._in_flight and not session.has_room(nbytes):
                return
            count = min(elements * self._stage.group_size, self._stop - self._submitted)
            block = BlockTask(
                start=self._submitted,
                size=count,
                firsts=tuple(self._counts_at(self._submitted)),
                last=self._submitted + count >= self._stop,
            )
            losses = self._suspect_losses if suspect else ()
            call = session.submit(self._number, "compute", block, nbytes=nbytes, losses=losses)
            self._in_flight.append(_InFlightBlock(call, block))
            self._submitted += count

    def _pull(self, limit: int) -> Chunk:
        if self._fallback is not None:
            return self._fallback.next_chunk(limit)
        if self._further_errors:
            raise self._further_errors.pop(0)
        while True:
            self._fill()
            if not self._in_flight:
                return END
            block = self._in_flight[0].block
            result = self._take()
            if result is None:
                continue
            if result.sparse:
                return self._fall_back(limit)
            is_first = not self._element_bytes
            self._adapt(block, result)
            excess = self._drops.observe(block, result)
            if result.error is not None or excess is not None:
                return self._fail(block, result, excess)
            chunk = self._chunk_of(result)
            self._next_index = result.next_index
            if result.ended:
                stop = result.next_index
                self._start_at(stop, self._counts_at(stop))
                self._stop = stop
            if chunk.elements:
                return self._fill_after(chunk) if is_first else chunk

    def _fill_after(self, chunk: Chunk) -> Chunk:
        """Fill the buffer as soon as the size of an element is known: the first step is often a long one."""
        try:
            self._fill()
        except Exception as error:
            return self._fail_after(error, chunk)
        return chunk

    def _fail(self, block: BlockTask, result: BlockResult, excess: DropExcess | None) -> Chunk:
        """Return the elements before an error, or raise it; the stream continues after it."""
        errors = [] if excess is None else excess.errors
        index = result.next_index if excess is None else excess.index
        counts = self._counts_at(index)
        error = result.error
        # An element that cannot be read is read again, so that its error is raised last.
        if error is not None and (
            not errors or (result.failed >= 0 and index == result.next_index)
        ):
            errors = [error, *errors]
            counts = [sum(pair) for pair in zip(block.firsts, result.counts, strict=True)]
        if excess is not None:
            result.elements = result.elements[: bisect_right(result.ends, index)]
        above = self._stage.stages[result.failed + 1 :]
        if error is not None and any(stage.group_size > 1 for stage in above):
            mark_unfinished_batch(error)
        chunk = self._chunk_of(result)
        self._start_at(index, counts)
        self._further_errors = errors[1:]
        return self._fail_after(errors[0], chunk)

    def _take(self) -> BlockResult | None:
        """Wait for the oldest block; return None if its indices must be computed one by one."""
        task = self._in_flight[0]
        try:
            result: BlockResult = self._session.result_or_error(task.call)
        except TASK_ERRORS as error:
            self._start_at(self._next_index, self._counts_at(self._next_index))
            start, stop = task.block.start, task.block.start + task.block.size
            is_single = task.block.size <= self._stage.group_size
            if isinstance(error, PoisonTaskError):
                if is_single:
                    where = self._stage.describe_task(start, stop)
                    raise PoisonTaskError(error.losses, where) from None
                # Another loss at one of these indices is evidence enough.
                self._suspect_losses = error.losses[:-1]
            elif is_worker_failure(error) or isinstance(error, Warning):
                raise
            elif is_single:
                add_note(
                    error,
                    f"raised while worker processes computed {self._stage} and pickled its elements.",
                )
                raise
            # The elements may be valid, and only the transfer of one of them failed.
            self._suspect_stop = stop
            return None
        self._in_flight.popleft()
        return result

    def _chunk_of(self, result: BlockResult) -> Chunk:
        if not result.elements:
            return END
        stage, ends, origin, counts = self._stage, result.ends, self._origin, self._counts

        def state_after(offset: int) -> Any:
            index = ends[offset]
            return stage.state_at(index, stage.counts_after(index - origin, counts))

        return Chunk(result.elements, state_after)

    def _adapt(self, block: BlockTask, result: BlockResult) -> None:
        """Adapt the size of blocks to the time and memory of a result."""
        if result.error is not None:
            return
        assert self._block_size is not None
        # By the elements that were read: a filter may have dropped all of them.
        seconds = result.seconds * self._stage.group_size / block.size
        if result.elements:
            self._element_bytes = max(1, tree.nbytes(result.elements[0]))
        element_bytes = max(1, self._element_bytes)
        at_least, allowance = 1, self._session.buffer_size // 2
        if result.waited:
            # Enough elements to occupy the reading threads of a worker.
            options = self._stage.boundary.read_options
            readers = min(options.num_threads, options.prefetch_buffer_size)
            at_least = -(-readers // self._stage.group_size)
            most = self._session.policy.threaded_block_bytes // (2 * self._session.capacity)
            allowance = max(allowance, min(at_least, most // element_bytes))
        self._block_size.fit(seconds, element_bytes, at_least=at_least, allowance=allowance)

    def _fall_back(self, limit: int) -> Chunk:
        """Continue with the fallback: this process computes the stages that count elements."""
        with iteration_context(self._context):
            fallback = self._make_fallback()
        fallback.set_state(self._live_state())
        # Not earlier: without the fallback, the part is needed after an interrupt.
        self._fallback = fallback
        self._cancel_all()
        self._session.release(self._number)
        return fallback.next_chunk(limit)

    def index_from_state(self, state: Any) -> int:
        stages = self._stage.stages
        if any(stage.drops_elements for stage in stages):
            return super().index_from_state(state)
        _, below = without_counts(stages, state, self)
        index = int(state_field(below, "next_index", self))
        for stage in stages:
            index = -(-index // stage.group_size)
        return index

    def state_from_index(self, index: int) -> Any:
        stages = self._stage.stages
        if any(stage.drops_elements for stage in stages):
            return super().state_from_index(index)
        counts = []
        for stage in reversed(stages):
            index = stage.first_input(index)
            counts.append(index)
        return with_counts(stages, counts[::-1], {"next_index": index})

    def _live_state(self) -> Any:
        if self._fallback is not None:
            return self._fallback.get_state()
        return self._stage.state_at(self._next_index, self._counts_at(self._next_index))

    def _restore(self, state: Any) -> None:
        if self._fallback is not None:
            self._fallback.set_state(state)
            return
        counts, below = without_counts(self._stage.stages, state, self)
        index = int(state_field(below, "next_index", self))
        if not 0 <= index <= self._length:
            # Message kept from google/grain 0.2.18
            raise IndexError(
                f"Checkpoint `next_index` {index} is out of range for dataset of length "
                f"{self._length}."
            )
        following = self._in_flight[0].block.start if self._in_flight else self._submitted
        there = self._stage.state_at(following, self._counts_at(following))
        if self._further_errors or there != self._stage.state_at(index, counts):
            self._suspect_stop = 0
            self._start_at(index, counts)
        else:  # The blocks in flight are delivered next; an interrupt may have discarded one before them.
            self._next_index = following

    def start_prefetch(self) -> None:
        """Submit the first blocks."""
        self._assert_not_closed()
        if self._fallback is None:
            self._fill()
        else:
            self._fallback.start_prefetch()

    def close(self) -> None:
        """Discard prefetched blocks."""
        if self._closed:
            return
        super().close()
        if self._fallback is not None:
            self._fallback.close()
            return
        self._cancel_all()
        self._session.release(self._number)
