"""The iterator of a chain: workers compute blocks of it ahead, and it gives them in order."""

from __future__ import annotations

import collections
import dataclasses
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from grain import tree
from grain._exceptions import add_note
from grain.dataset.base import DatasetIterator
from grain.dataset.chunk import END, Chunk
from grain.dataset.context import iteration_context
from grain.dataset.iterator import ChunkIterator, state_field
from grain.dataset.stages import with_counts, without_counts
from grain.execution.drop_rate import Excess, FusedDropMonitor
from grain.execution.fused_stage import Block, BlockResult, FusedStage
from grain.execution.processes.pool import NotOutstanding
from grain.execution.worker_session import NOT_SENT, WorkerSession

T = TypeVar("T")

# A block should keep a worker busy about this long.
BLOCK_SECONDS = 0.004
# Elements beyond the buffer that the user allows are computed ahead only while they are this small.
SMALL_BLOCK_BYTES = 4 << 20
# What blocks may hold together when they are large for the sake of threads that read at the same time.
_THREADED_BYTES = 256 << 20


@dataclasses.dataclass
class _Ahead:
    ticket: int
    block: Block


class FusedIterator(ChunkIterator[T]):
    """Gives the elements of a chain in order, while workers compute blocks of it ahead.

    Args:
      chain: what is computed.
      workers: who computes it.
      buffer_size: how many elements each worker may be ahead.
      stand_in: makes the iterator that goes on when elements turn out to be missing where the chain
        counts on all of them.
    """

    def __init__(
        self,
        chain: FusedStage,
        workers: WorkerSession,
        buffer_size: int,
        stand_in: Callable[[], DatasetIterator[T]],
    ):
        super().__init__()
        self._chain = chain
        self._workers = workers
        self._buffer = buffer_size
        self._stand_in = stand_in
        self._number = workers.add(chain)
        self._length = len(chain.boundary.parents[0])
        self._thresholds = FusedDropMonitor(chain, self._context.options)
        # Errors that come at the same place as the last one.
        self._further: list[Exception] = []
        self._ahead: collections.deque[_Ahead] = collections.deque()
        self._block_size = 1
        self._instead: DatasetIterator[T] | None = None
        self._begin(0, [0] * len(chain.stages))

    def __str__(self) -> str:
        return f"FusedIterator({self._chain})"

    def _begin(self, index: int, counts: Sequence[int]) -> None:
        """Goes on at an index of the map dataset, with given counts of the operations."""
        for ahead in self._ahead:
            self._workers.forget(ahead.ticket)
        self._ahead.clear()
        self._further = []
        self._stop = self._length
        self._origin = self._submitted = self._next_index = index
        self._counts = tuple(counts)

    def _counts_at(self, index: int) -> list[int]:
        return self._chain.counts_after(index - self._origin, self._counts)

    def _fill(self) -> None:
        """Keeps every worker busy and the buffer full, and no more."""
        if self._ahead:  # An interrupt may have come before the last one was counted.
            last = self._ahead[-1].block
            self._submitted = last.start + last.size
        size = self._block_size * self._chain.group
        depth = max(2, -(-self._buffer // self._block_size))
        while self._submitted < self._stop and len(self._ahead) < self._workers.count * depth:
            count = min(size, self._stop - self._submitted)
            block = Block(
                start=self._submitted,
                size=count,
                firsts=tuple(self._counts_at(self._submitted)),
                last=self._submitted + count >= self._stop,
            )
            try:
                ticket = self._workers.submit(self._number, "compute", block)
            except NOT_SENT:
                if self._ahead:
                    return  # What was computed before comes first, then this again.
                raise
            self._ahead.append(_Ahead(ticket, block))
            self._submitted += count

    def _pull(self, limit: int) -> Chunk:
        if self._instead is not None:
            return self._instead.next_chunk(limit)
        if self._further:
            raise self._further.pop(0)
        while True:
            self._fill()
            if not self._ahead:
                return END
            block = self._ahead[0].block
            computed = self._take()
            if computed is None:
                continue
            if computed.sparse:
                return self._go_on_instead(limit)
            self._adapt(computed)
            excess = self._thresholds.judge(block, computed)
            if computed.error is not None or excess is not None:
                return self._fail(block, computed, excess)
            chunk = self._run_of(computed)
            self._next_index = computed.next_index
            if computed.ended:
                stop = computed.next_index
                self._begin(stop, self._counts_at(stop))
                self._stop = stop
            if chunk.elements:
                return chunk

    def _fail(self, block: Block, computed: BlockResult, excess: Excess | None) -> Chunk:
        """Gives what comes before an error first; the stream goes on behind it."""
        errors = [] if excess is None else excess.errors
        index = computed.next_index if excess is None else excess.index
        counts = self._counts_at(index)
        error = computed.error
        # An element that cannot be read is asked for again, so that its error comes last.
        if error is not None and (
            not errors or (computed.failed >= 0 and index == computed.next_index)
        ):
            errors = [error, *errors]
            counts = [sum(pair) for pair in zip(block.firsts, computed.counts, strict=True)]
        if excess is not None:
            computed.elements = computed.elements[: bisect_right(computed.ends, index)]
        chunk = self._run_of(computed)
        self._begin(index, counts)
        self._further = errors[1:]
        return self._fail_after(errors[0], chunk)

    def _take(self) -> BlockResult | None:
        """Waits for the next block; it stays the next one if the wait is interrupted."""
        ahead = self._ahead[0]
        try:
            computed: BlockResult = self._workers.told(ahead.ticket)
        except NOT_SENT as error:
            # The elements may be fine, but could not be sent. They are asked for again, one by one so
            # that those which can be sent come first.
            self._begin(self._next_index, self._counts_at(self._next_index))
            self._block_size = 1
            if ahead.block.size > self._chain.group or isinstance(error, NotOutstanding):
                return None
            add_note(
                error,
                f"raised while worker processes computed {self._chain} and sent back its elements, "
                "pickled.",
            )
            raise
        self._ahead.popleft()
        return computed

    def _run_of(self, computed: BlockResult) -> Chunk:
        if not computed.elements:
            return END
        chain, ends, origin, counts = self._chain, computed.ends, self._origin, self._counts

        def state_after(place: int) -> Any:
            index = ends[place]
            return chain.state_at(index, chain.counts_after(index - origin, counts))

        return Chunk(computed.elements, state_after)

    def _adapt(self, computed: BlockResult) -> None:
        """Sizes the blocks to come by what this one took."""
        if not computed.elements:
            return
        seconds = computed.seconds / len(computed.elements)
        element_bytes = max(1, tree.nbytes(computed.elements[0]))
        wanted = int(BLOCK_SECONDS / max(seconds, 1e-7))
        allowed = max(self._buffer // 2, SMALL_BLOCK_BYTES // element_bytes)
        if computed.waited:
            # Something to read for every thread of a worker.
            options = self._chain.boundary.read_options
            readers = min(options.num_threads, options.prefetch_buffer_size)
            readers = -(-readers // self._chain.group)
            wanted = max(wanted, readers)
            affordable = _THREADED_BYTES // (2 * self._workers.count * element_bytes)
            allowed = max(allowed, min(readers, affordable))
        self._block_size = max(1, min(wanted, allowed, 2 * self._block_size))

    def _go_on_instead(self, limit: int) -> Chunk:
        """Leaves what counts elements to this process; workers do what is below it."""
        state = self._live_state()
        self._begin(self._next_index, self._counts)
        self._workers.release(self._number)
        with iteration_context(self._context):
            self._instead = self._stand_in()
        self._instead.set_state(state)
        return self._instead.next_chunk(limit)

    def index_from_state(self, state: Any) -> int:
        stages = self._chain.stages
        if any(stage.drops_elements for stage in stages):
            return super().index_from_state(state)
        _, below = without_counts(stages, state, self)
        index = int(state_field(below, "next_index", self))
        for stage in stages:
            index = -(-index // stage.group_size)
        return index

    def state_from_index(self, index: int) -> Any:
        stages = self._chain.stages
        if any(stage.drops_elements for stage in stages):
            return super().state_from_index(index)
        counts = []
        for stage in reversed(stages):
            index = stage.first_input(index)
            counts.append(index)
        return with_counts(stages, counts[::-1], {"next_index": index})

    def _live_state(self) -> Any:
        if self._instead is not None:
            return self._instead.get_state()
        return self._chain.state_at(self._next_index, self._counts_at(self._next_index))

    def _restore(self, state: Any) -> None:
        if self._instead is not None:
            self._instead.set_state(state)
            return
        counts, below = without_counts(self._chain.stages, state, self)
        index = int(state_field(below, "next_index", self))
        if not 0 <= index <= self._length:
            raise IndexError(
                f"Checkpoint `next_index` {index} is out of range for dataset of length "
                f"{self._length}."
            )
        following = self._ahead[0].block.start if self._ahead else self._submitted
        there = self._chain.state_at(following, self._counts_at(following))
        if self._further or there != self._chain.state_at(index, counts):
            self._begin(index, counts)  # Otherwise what was computed ahead comes next.

    def start_prefetch(self) -> None:
        """Asks workers for the first blocks."""
        self._assert_not_closed()
        if self._instead is None:
            self._fill()
        else:
            self._instead.start_prefetch()

    def close(self) -> None:
        """Leaves what was computed ahead to nobody."""
        if self._closed:
            return
        super().close()
        if self._instead is not None:
            self._instead.close()
            return
        for ahead in self._ahead:
            self._workers.forget(ahead.ticket)
        self._ahead.clear()
        self._workers.release(self._number)
