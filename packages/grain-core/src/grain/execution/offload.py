"""Offloading: functions above an ordered operation, computed by workers where that is faster.

The consumer's process pulls elements from the parent iterator, in order. While the functions are cheap,
it applies them itself. When they cost clearly more than sending an element there and back, chunks of
elements are sent to workers ahead of the consumer, and results are taken in the order of sending; both
directions of the decision need repeated evidence. The live capacity times the depth that the user's buffer
allows are in flight, within the byte budget of the pool.

A function may modify its input, so an element is never passed to the same function twice: elements after
an error are kept as they are, together with the function that is next for them. An error is raised after
the elements before it, and the stream continues after the element that failed. Elements or results that
cannot be pickled are computed in this process. The elements of a chunk that ends its workers are sent again
one by one, so that the element to blame is the one that fails.

Ctrl-C while the result of a chunk is awaited changes nothing; during the other steps elements pulled from
the parent would be lost, so `_mid_pull` makes the next step restore the state before.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from grain import tree
from grain._chunk_size import ChunkSizeController
from grain._exceptions import is_worker_failure
from grain.dataset.base import DatasetIterator
from grain.dataset.chunk import END, Chunk
from grain.dataset.iterator import ChunkIterator, same_state
from grain.dataset.parent_cursor import constant
from grain.dataset.stages import StageIterDataset, with_counts, without_counts
from grain.execution.costs import Costs
from grain.execution.executor import TaskLost
from grain.execution.processes.error_report import WorkerError
from grain.execution.processes.pool_errors import PoolClosed
from grain.execution.task_scheduler import TASK_ERRORS, PoisonTaskError, SessionCall
from grain.execution.worker_session import WorkerSession

T = TypeVar("T")


class ElementFunctions:
    """Functions of one element each, applied one after the other to a chunk of elements."""

    def __init__(self, stages: Sequence[StageIterDataset[Any]]):
        self.stages = tuple(stages)

    def __getstate__(self) -> dict[str, Any]:
        # Workers need no parents of the stages, which then need not be picklable.
        return {"stages": tuple(stage.without_parents() for stage in self.stages)}

    def __str__(self) -> str:
        return ", ".join(map(str, self.stages))

    def states(
        self, state_after: Callable[[int], Any], firsts: Sequence[int]
    ) -> Callable[[int], Any]:
        """Return the state function of a chunk, from the one below the functions."""
        stages = self.stages
        return lambda offset: with_counts(
            stages, [first + offset + 1 for first in firsts], state_after(offset)
        )

    def compute(self, elements: list[Any], firsts: Sequence[int], begin: int) -> Applied:
        """Apply the functions in a worker, to copies of elements; those after an error are not returned."""
        applied = self.apply(elements, firsts, begin)
        applied.remaining = None
        return applied

    def apply(self, elements: list[Any], firsts: Sequence[int], begin: int) -> Applied:
        """Apply the functions; an error is part of the result.

        Args:
            elements: The elements.
            firsts: For each function, the number of elements before these.
            begin: The first function to apply; those below it have been applied.
        """
        started = time.perf_counter()
        error: Exception | None = None
        failed = -1
        remaining: list[Remaining] = []
        for number in range(begin, len(self.stages)):
            result = self.stages[number].apply_chunk(elements, firsts[number])
            if result.error is not None:
                rest = elements[len(result.elements) + 1 :]
                if error is not None:
                    remaining.insert(0, Remaining(failed, error=error))
                if rest:
                    remaining.insert(0, Remaining(number, rest))
                error, failed = result.error, number
            elements = result.elements
        return Applied(elements, error, failed, time.perf_counter() - started, remaining)


@dataclasses.dataclass
class Applied:
    """Results of functions for a chunk of elements, up to the first error.

    Attributes:
        elements: Results of the elements before the error.
        error: The error.
        failed: Number of the function that failed, or -1.
        seconds: Seconds that it took.
        remaining: Elements after the error, as far as they were computed: a function may modify its
            input, so it must not receive the same element again. None where the functions received
            copies.
    """

    elements: list[Any]
    error: Exception | None
    failed: int
    seconds: float
    remaining: list[Remaining] | None


@dataclasses.dataclass
class Remaining:
    """Elements after an error, for which a function is next, or a further error of that function."""

    stage: int
    elements: list[Any] = dataclasses.field(default_factory=list)
    error: Exception | None = None


@dataclasses.dataclass
class _InFlightChunk:
    """A chunk that was sent or is to be sent to a worker, or an error in place of elements.

    Attributes:
        chunk: The elements.
        start: Number of elements pulled before them.
        stage: The function that is next for them.
        call: The call; None before it is submitted.
        error: Error of the function `stage`, or of the parent if `stage` is -1.
        snapshot: State function of the parent after the error.
        losses: Losses of workers that computed a larger chunk with these elements.
    """

    chunk: Chunk
    start: int
    stage: int = 0
    call: SessionCall | None = None
    error: Exception | None = None
    snapshot: Callable[[], Any] | None = None
    losses: tuple[TaskLost, ...] = ()


class OffloadIterator(ChunkIterator[T]):
    """Iterator that applies functions to the elements of its parent, in workers or in this process.

    Args:
        parent: Iterator of the elements.
        stages: The functions, lowest first.
        session: The workers.
    """

    def __init__(
        self,
        parent: DatasetIterator[Any],
        stages: Sequence[StageIterDataset[Any]],
        session: WorkerSession,
    ):
        super().__init__(parent)
        self._functions = ElementFunctions(stages)
        self._session = session
        self._policy = policy = session.policy
        self._number = session.add(self._functions)
        self._in_flight: collections.deque[_InFlightChunk] = collections.deque()
        self._offloading = False
        # Consecutive chunks for which the other choice would have been cheaper.
        self._evidence = 0
        # Size of an element there and of its result.
        self._element_bytes = 0
        # Costs of sending elements; those of local processes until the pool is open.
        self._costs = Costs.of_local_processes(policy, max_bytes=0)
        self._offload_size = self._new_size()
        # Whether an interrupt now would lose elements pulled from the parent.
        self._mid_pull = False
        self._restart([0] * len(self._functions.stages))

    def __str__(self) -> str:
        return f"OffloadIterator({self._functions})"

    def _new_size(self) -> ChunkSizeController:
        return ChunkSizeController(
            self._costs.block_seconds, maximum=1 << 62, max_bytes=self._policy.block_bytes
        )

    def _restart(self, counts: Sequence[int]) -> None:
        """Continue at the parent's position, with given counts of the functions."""
        self._cancel_all()
        self._in_flight.clear()
        # Rest of the parent's last chunk.
        self._held = END
        self._parent_ended = False
        # Elements pulled from the parent, and delivered; counts of the functions at the latter.
        self._pulled = self._delivered = 0
        self._counts = tuple(counts)
        self._follow_parent()

    def _cancel_all(self) -> None:
        for entry in self._in_flight:
            if entry.call is not None:
                self._session.cancel(entry.call)
                entry.call = None

    def _follow_parent(self) -> None:
        """Take the parent's part of the state from the parent's position."""
        self._snapshot: Callable[[], Any] = self._parent.get_state
        # Whether it stays valid when the parent is advanced.
        self._state_captured = False

    def _counts_at(self, position: int) -> list[int]:
        """Return the counts of the functions before an element of the stream, if none fails before it."""
        return [count + position - self._delivered for count in self._counts]

    def _pull(self, limit: int) -> Chunk:
        self._mid_pull = True
        if self._offloading:
            self._fill()
        if self._in_flight:
            chunk = self._pull_first()
        elif self._parent_ended:
            self._parent_ended = False
            self._follow_parent()
            chunk = END
        else:
            chunk = self._pull_inline(limit)
        self._mid_pull = False
        return chunk

    def _pull_first(self) -> Chunk:
        """Return the results of the first entry in flight, or raise its error."""
        entry = self._in_flight[0]
        if entry.error is not None:
            self._in_flight.popleft()
            assert entry.snapshot is not None
            self._snapshot, self._state_captured = entry.snapshot, True
            if entry.stage >= 0:
                self._count_failure(entry.stage)
            raise entry.error
        if entry.call is None and not self._offloading:
            self._in_flight.popleft()
            return self._apply(entry)
        entry, applied = self._take()
        self._adapt(entry.chunk, applied)
        return self._deliver(entry, applied)

    def _take(self) -> tuple[_InFlightChunk, Applied]:
        """Wait for the first entry in flight; it stays the first if the wait is interrupted."""
        while True:
            entry = self._in_flight[0]
            call = entry.call or self._submit(entry)
            self._mid_pull = False
            try:
                applied: Applied = self._session.result_or_error(call)
            except TASK_ERRORS as error:
                self._mid_pull = True
                entry.call = None
                is_single = len(entry.chunk.elements) == 1
                if isinstance(error, PoisonTaskError):
                    if is_single:
                        where = f"{self._functions} at element {entry.start}"
                        raise PoisonTaskError(error.losses, where) from None
                elif is_worker_failure(error) or isinstance(error, (PoolClosed, Warning)):
                    raise
                elif is_single:  # It cannot be transferred.
                    self._in_flight.popleft()
                    return entry, self._apply_to(entry)
                self._divide(entry, getattr(error, "losses", ())[:-1])
            else:
                self._mid_pull = True
                self._in_flight.popleft()
                if isinstance(applied.error, WorkerError):
                    # To raise the error itself, which has no pickle.
                    applied = self._apply_to(entry)
                return entry, applied

    def _divide(self, entry: _InFlightChunk, losses: tuple[TaskLost, ...]) -> None:
        """Replace the first entry by one for each of its elements."""
        self._in_flight.popleft()
        for offset in range(len(entry.chunk.elements) - 1, -1, -1):
            single = entry.chunk.rest(offset).first(1)
            self._in_flight.appendleft(
                _InFlightChunk(single, entry.start + offset, entry.stage, losses=losses)
            )

    def _pull_inline(self, limit: int) -> Chunk:
        if not self._held.elements:
            self._follow_parent()
        start = self._pulled
        chunk = self._next(min(limit, self._offload_size.size))
        return self._apply(_InFlightChunk(chunk, start)) if chunk.elements else END

    def _apply(self, entry: _InFlightChunk) -> Chunk:
        applied = self._apply_to(entry)
        self._adapt(entry.chunk, applied)
        return self._deliver(entry, applied)

    def _apply_to(self, entry: _InFlightChunk) -> Applied:
        return self._functions.apply(entry.chunk.elements, self._counts, entry.stage)

    def _next(self, limit: int) -> Chunk:
        """Return the next elements of the parent, at most `limit`."""
        chunk, self._held = self._held, END
        if not chunk.elements:
            chunk = self._parent.next_chunk(limit)
        if len(chunk.elements) > limit:
            self._held = chunk.rest(limit)
            chunk = chunk.first(limit)
        self._pulled += len(chunk.elements)
        return chunk

    def _deliver(self, entry: _InFlightChunk, applied: Applied) -> Chunk:
        """Return the chunk of results, and advance the state to its end."""
        chunk, counts, made = entry.chunk, self._counts, END
        if applied.elements:
            made = Chunk(
                applied.elements, self._functions.states(chunk.state_after, counts), chunk.live
            )
        self._state_captured = not chunk.live
        done = len(applied.elements)
        self._delivered += done
        self._counts = tuple(count + done for count in counts)
        if applied.error is None:
            self._snapshot = chunk.snapshot(done - 1)
            return made
        self._snapshot = chunk.snapshot(done)
        self._count_failure(applied.failed)
        remaining = applied.remaining
        if remaining is None:
            remaining = [Remaining(entry.stage, chunk.elements[done + 1 :])]
        self._put_back(_captured(chunk), done + 1, remaining)
        return self._fail_after(applied.error, made)

    def _count_failure(self, stage: int) -> None:
        """Count an element that failed; only the functions below the failed one have counted it."""
        self._delivered += 1
        self._counts = tuple(count + (number < stage) for number, count in enumerate(self._counts))
        if any(stage.counter_name for stage in self._functions.stages):
            self._cancel_all()  # They were sent with other counts.

    def _put_back(self, chunk: Chunk, offset: int, remaining: Sequence[Remaining]) -> None:
        """Put the elements after an error, from `offset` of the chunk, first in the queue."""
        start = self._delivered - offset
        entries = []
        for part in remaining:
            if part.error is not None:
                entries.append(
                    _InFlightChunk(
                        END,
                        start + offset,
                        part.stage,
                        error=part.error,
                        snapshot=chunk.snapshot(offset),
                    )
                )
                offset += 1
            elif part.elements:
                waiting = chunk.rest(offset).first(len(part.elements)).replace(part.elements)
                entries.append(_InFlightChunk(waiting, start + offset, part.stage))
                offset += len(part.elements)
        self._in_flight.extendleft(reversed(entries))

    def _adapt(self, chunk: Chunk, applied: Applied) -> None:
        """Decide whether to offload the next elements, and how many per call, by the cost of these."""
        if not applied.elements:
            return
        costs = self._costs
        seconds = applied.seconds / len(applied.elements)
        nbytes = tree.nbytes(chunk.elements[0]) + tree.nbytes(applied.elements[0])
        self._element_bytes = nbytes
        cost = costs.message_seconds / len(chunk.elements)
        cost += costs.element_seconds + costs.byte_seconds * nbytes
        wrong = seconds < cost if self._offloading else seconds > 2 * cost
        self._evidence = self._evidence + 1 if wrong else 0
        if self._evidence >= self._policy.offload_evidence:
            self._offloading, self._evidence = not self._offloading, 0
        self._offload_size.fit(seconds, nbytes, allowance=self._session.buffer_size // 2)

    def _submit(self, entry: _InFlightChunk) -> SessionCall:
        elements = entry.chunk.elements
        entry.call = self._session.submit(
            self._number,
            "compute",
            elements,
            self._counts_at(entry.start),
            entry.stage,
            nbytes=len(elements) * self._element_bytes,
            losses=entry.losses,
        )
        return entry.call

    def _fill(self) -> None:
        """Send elements ahead until every worker is busy and the buffer is full."""
        if not self._state_captured:
            self._snapshot = constant(copy.deepcopy(self._snapshot()))
            self._state_captured = True
        session = self._session
        before, self._costs = self._costs, session.costs
        if before.block_seconds != self._costs.block_seconds:
            self._offload_size = self._new_size()
        size = self._offload_size.size
        depth = max(self._policy.blocks_per_worker, -(-session.buffer_size // size))
        for entry in self._in_flight:
            if entry.call is None and entry.error is None:
                self._submit(entry)
        while not self._parent_ended and len(self._in_flight) < session.capacity * depth:
            if self._in_flight and not session.has_room(size * self._element_bytes):
                return
            start = self._pulled
            try:
                chunk = self._next(size)
            except Exception as error:
                snapshot = constant(copy.deepcopy(self._parent.get_state()))
                self._in_flight.append(
                    _InFlightChunk(END, start, stage=-1, error=error, snapshot=snapshot)
                )
                return
            if not chunk.elements:
                self._parent_ended = True
                return
            entry = _InFlightChunk(_captured(chunk), start)
            self._in_flight.append(entry)
            self._submit(entry)

    def index_from_state(self, state: Any) -> int:
        stages = self._functions.stages
        counts, below = without_counts(stages, state, self)
        for stage, count in zip(reversed(stages), reversed(counts), strict=True):
            if stage.counter_name is not None:
                return count
        return self._parent.index_from_state(below)

    def state_from_index(self, index: int) -> Any:
        stages = self._functions.stages
        below = self._parent.state_from_index(index)
        return with_counts(stages, [index] * len(stages), below)

    def _live_state(self) -> Any:
        return with_counts(self._functions.stages, self._counts, self._snapshot())

    def _restore(self, state: Any) -> None:
        counts, below = without_counts(self._functions.stages, state, self)
        if self._in_flight and not self._mid_pull and same_state(self._live_state(), state):
            return  # The elements in flight are delivered next.
        self._mid_pull = False
        self._restart(counts)
        self._parent.restore_as_parent(below)

    def close(self) -> None:
        """Discard the elements in flight."""
        if self._closed:
            return
        super().close()
        self._cancel_all()
        self._in_flight.clear()
        self._session.release(self._number)


def _captured(chunk: Chunk) -> Chunk:
    """Return the chunk with states that stay valid when the iterator is advanced."""
    if not chunk.live:
        return chunk
    states = [copy.deepcopy(chunk.state_after(offset)) for offset in range(len(chunk.elements))]
    return Chunk(chunk.elements, states.__getitem__)
