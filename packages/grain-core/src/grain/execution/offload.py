"""Functions above an order-dependent operation: slow ones are computed by workers, in order."""

from __future__ import annotations

import collections
import copy
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from grain import tree
from grain.dataset.base import DatasetIterator
from grain.dataset.chunk import END, Chunk
from grain.dataset.iterator import ChunkIterator, same_state
from grain.dataset.node import ExecutionTrait
from grain.dataset.parent_cursor import constant
from grain.dataset.stages import StageIterDataset, with_counts, without_counts
from grain.execution.fused_iterator import BLOCK_SECONDS, SMALL_BLOCK_BYTES
from grain.execution.processes.error_report import WorkerDied, WorkerError
from grain.execution.processes.pool import NotOutstanding, PoolClosed
from grain.execution.worker_session import NOT_SENT, WorkerSession

T = TypeVar("T")

# About what it costs to have something computed elsewhere: for every message, for every element in it,
# and for every byte of an element there and back.
_MESSAGE_SECONDS = 100e-6
_ELEMENT_SECONDS = 10e-6
_BYTE_SECONDS = 0.2e-9
# So many times in a row tell that a function is slow, or is not any more.
_ENOUGH_EVIDENCE = 3


def is_function(stage: StageIterDataset[Any]) -> bool:
    """Whether an operation makes one element of each, of it and its number alone."""
    return stage.execution_trait is ExecutionTrait.ELEMENTWISE and not stage.drops_elements


class Functions:
    """Functions of one element, one after the other, for a stretch of elements."""

    def __init__(self, stages: Sequence[StageIterDataset[Any]]):
        self.stages = tuple(stages)

    def __getstate__(self) -> dict[str, Any]:
        # What the functions are applied to stays here, and so need not be picklable.
        alone = []
        for stage in self.stages:
            stage = copy.copy(stage)
            stage._parents = (_Origin(stage.describe_sources()),)
            alone.append(stage)
        return {"stages": tuple(alone)}

    def __str__(self) -> str:
        return ", ".join(map(str, self.stages))

    def states(
        self, state_after: Callable[[int], Any], firsts: Sequence[int]
    ) -> Callable[[int], Any]:
        """How to find the state after each of some elements, from the one below the functions."""
        stages = self.stages
        return lambda place: with_counts(
            stages, [first + place + 1 for first in firsts], state_after(place)
        )

    def compute(self, elements: list[Any], firsts: Sequence[int], begin: int) -> Applied:
        """What a worker is asked for; the elements are its own, and those behind an error go with it."""
        applied = self.apply(elements, firsts, begin)
        applied.behind = None
        return applied

    def apply(self, elements: list[Any], firsts: Sequence[int], begin: int) -> Applied:
        """Applies the functions; an error comes back as data.

        Args:
          elements: what to apply them to.
          firsts: for each function, how many elements came before these.
          begin: the first function to be applied; those below it have been.
        """
        started = time.perf_counter()
        error: Exception | None = None
        failed = -1
        behind: list[Behind] = []
        for number in range(begin, len(self.stages)):
            result = self.stages[number].apply_chunk(elements, firsts[number])
            if result.error is not None:
                rest = elements[len(result.elements) + 1 :]
                if error is not None:
                    behind.insert(0, Behind(failed, error=error))
                if rest:
                    behind.insert(0, Behind(number, rest))
                error, failed = result.error, number
            elements = result.elements
        return Applied(elements, error, failed, time.perf_counter() - started, behind)


@dataclasses.dataclass(frozen=True)
class _Origin:
    """Stands for all that is below an operation, where only its name is needed."""

    sources: str

    def describe_sources(self) -> str:
        return self.sources


@dataclasses.dataclass
class Applied:
    """What functions made of elements, up to the first error.

    Attributes:
      elements: what became of those before the error.
      error: what stopped it.
      failed: the place of the function that failed, if one did.
      seconds: how long it took.
      behind: what came behind the error, as far as it was computed. A function may change what it is
        given, so it must not see the same again. None where it was given copies.
    """

    elements: list[Any]
    error: Exception | None
    failed: int
    seconds: float
    behind: list[Behind] | None


@dataclasses.dataclass
class Behind:
    """Elements that wait for the function at a place, or another error of that function."""

    stage: int
    elements: list[Any] = dataclasses.field(default_factory=list)
    error: Exception | None = None


@dataclasses.dataclass
class _Sent:
    """Elements that are with a worker, or the error that came instead of them.

    Attributes:
      chunk: the elements; one without a ticket is still to be sent.
      start: how many were read before, all in all.
      stage: the function that is next for them.
      error: that of the function at `stage`, or the parent's where `stage` is -1.
      mark: finds the parent's state behind the error.
    """

    chunk: Chunk
    start: int
    stage: int = 0
    ticket: int | None = None
    error: Exception | None = None
    mark: Callable[[], Any] | None = None


class OffloadIterator(ChunkIterator[T]):
    """Applies functions to the elements of any iterator; slow ones are computed by workers, in order.

    Args:
      parent: where the elements come from.
      stages: the functions.
      workers: who computes them when that is worth the way there and back.
      buffer_size: how many elements each worker may be ahead.
    """

    def __init__(
        self,
        parent: DatasetIterator[Any],
        stages: Sequence[StageIterDataset[Any]],
        workers: WorkerSession,
        buffer_size: int,
    ):
        super().__init__(parent)
        self._functions = Functions(stages)
        self._workers = workers
        self._buffer = buffer_size
        self._number = workers.add(self._functions)
        self._sent: collections.deque[_Sent] = collections.deque()
        self._offloading = False
        # How often in a row it would have been better the other way.
        self._evidence = 0
        # How many elements go together: as many as take a moment.
        self._size = 1
        # Whether an interrupt now would lose what has been read from the parent.
        self._mid_pull = False
        self._restart([0] * len(self._functions.stages))

    def __str__(self) -> str:
        return f"OffloadIterator({self._functions})"

    def _restart(self, counts: Sequence[int]) -> None:
        """Goes on where the parent stands, with given counts of the functions."""
        self._forget_sent()
        self._sent.clear()
        # What is left of the parent's last chunk.
        self._held = END
        self._over = False
        # How many elements were read from the parent, and given; counts of the functions at the latter.
        self._read = self._given = 0
        self._counts = tuple(counts)
        self._follow_parent()

    def _forget_sent(self) -> None:
        for sent in self._sent:
            if sent.ticket is not None:
                self._workers.forget(sent.ticket)
                sent.ticket = None

    def _follow_parent(self) -> None:
        """The parent's part of the state is where it stands."""
        self._mark: Callable[[], Any] = self._parent.get_state
        # Whether it stays what it is when the parent is advanced.
        self._state_captured = False

    def _counts_at(self, place: int) -> list[int]:
        """The counts of the functions before the element at `place` of all, if none fails until then."""
        return [count + place - self._given for count in self._counts]

    def _pull(self, limit: int) -> Chunk:
        self._mid_pull = True
        if self._offloading:
            self._fill()
        if self._sent:
            chunk = self._pull_sent()
        elif self._over:
            self._over = False
            self._follow_parent()
            chunk = END
        else:
            chunk = self._pull_here(limit)
        self._mid_pull = False
        return chunk

    def _pull_sent(self) -> Chunk:
        """What comes of the elements that were sent first, or failed to be applied to here."""
        sent = self._sent[0]
        if sent.error is not None:
            self._sent.popleft()
            assert sent.mark is not None
            self._mark, self._state_captured = sent.mark, True
            if sent.stage >= 0:
                self._count_failure(sent.stage)
            raise sent.error
        if sent.ticket is None and not self._offloading:
            self._sent.popleft()
            return self._apply(sent)
        sent, applied = self._take()
        self._adapt(sent.chunk, applied)
        return self._give(sent, applied)

    def _take(self) -> tuple[_Sent, Applied]:
        """Waits for what was sent first; it stays the first if the wait is interrupted."""
        while True:
            sent = self._sent[0]
            try:
                if sent.ticket is None:
                    self._submit(sent)
                self._mid_pull = False
                applied: Applied = self._workers.told(sent.ticket)  # type: ignore[arg-type]
                self._mid_pull = True
            except NOT_SENT as error:
                # The elements may be fine, but could not be sent. They are sent again, one by one so
                # that what comes back of the others comes first.
                self._mid_pull = True
                sent.ticket = None
                if isinstance(error, NotOutstanding):
                    continue
                if isinstance(error, (PoolClosed, WorkerDied)):
                    raise
                self._sent.popleft()
                if len(sent.chunk.elements) == 1:
                    # What cannot be sent need not be: a quicker function would not be, either.
                    return sent, self._apply_to(sent)
                for place in range(len(sent.chunk.elements) - 1, -1, -1):
                    alone = sent.chunk.rest(place).first(1)
                    self._sent.appendleft(_Sent(alone, sent.start + place, sent.stage))
            else:
                self._sent.popleft()
                if isinstance(applied.error, WorkerError):
                    applied = self._apply_to(sent)  # For the error itself, which cannot be sent.
                return sent, applied

    def _pull_here(self, limit: int) -> Chunk:
        if not self._held.elements:
            self._follow_parent()
        start = self._read
        chunk = self._next(min(limit, self._size))
        return self._apply(_Sent(chunk, start)) if chunk.elements else END

    def _apply(self, sent: _Sent) -> Chunk:
        applied = self._apply_to(sent)
        self._adapt(sent.chunk, applied)
        return self._give(sent, applied)

    def _apply_to(self, sent: _Sent) -> Applied:
        return self._functions.apply(sent.chunk.elements, self._counts, sent.stage)

    def _next(self, limit: int) -> Chunk:
        """The next elements of the parent, `limit` at most."""
        chunk, self._held = self._held, END
        if not chunk.elements:
            chunk = self._parent.next_chunk(limit)
        if len(chunk.elements) > limit:
            self._held = chunk.rest(limit)
            chunk = chunk.first(limit)
        self._read += len(chunk.elements)
        return chunk

    def _give(self, sent: _Sent, applied: Applied) -> Chunk:
        """The chunk that was made of another one, and where the stream is after it."""
        chunk, counts, made = sent.chunk, self._counts, END
        if applied.elements:
            made = Chunk(
                applied.elements, self._functions.states(chunk.state_after, counts), chunk.live
            )
        self._state_captured = not chunk.live
        done = len(applied.elements)
        self._given += done
        self._counts = tuple(count + done for count in counts)
        if applied.error is None:
            self._mark = chunk.snapshot(done - 1)
            return made
        self._mark = chunk.snapshot(done)
        self._count_failure(applied.failed)
        behind = applied.behind
        if behind is None:
            behind = [Behind(sent.stage, chunk.elements[done + 1 :])]
        self._put_back(_lasting(chunk), done + 1, behind)
        return self._fail_after(applied.error, made)

    def _count_failure(self, stage: int) -> None:
        """An element is gone; only the functions below the one that failed have counted it."""
        self._given += 1
        self._counts = tuple(count + (number < stage) for number, count in enumerate(self._counts))
        if any(stage.counter_name for stage in self._functions.stages):
            self._forget_sent()  # They were sent with other counts.

    def _put_back(self, chunk: Chunk, place: int, behind: Sequence[Behind]) -> None:
        """Lets what is behind an error come next; it begins at `place` of the chunk."""
        start = self._given - place
        entries = []
        for part in behind:
            if part.error is not None:
                mark = chunk.snapshot(place)
                entries.append(_Sent(END, start + place, part.stage, error=part.error, mark=mark))
                place += 1
            elif part.elements:
                waiting = chunk.rest(place).first(len(part.elements)).replace(part.elements)
                entries.append(_Sent(waiting, start + place, part.stage))
                place += len(part.elements)
        self._sent.extendleft(reversed(entries))

    def _adapt(self, chunk: Chunk, applied: Applied) -> None:
        """Decides who computes the next elements, and how many at a time, by what these took."""
        if not applied.elements:
            return
        count = len(chunk.elements)
        seconds = applied.seconds / len(applied.elements)
        nbytes = tree.nbytes(chunk.elements[0]) + tree.nbytes(applied.elements[0])
        cost = _MESSAGE_SECONDS / count + _ELEMENT_SECONDS + _BYTE_SECONDS * nbytes
        otherwise = seconds < cost if self._offloading else seconds > 2 * cost
        self._evidence = self._evidence + 1 if otherwise else 0
        if self._evidence >= _ENOUGH_EVIDENCE:
            self._offloading, self._evidence = not self._offloading, 0
        wanted = int(BLOCK_SECONDS / max(seconds, 1e-7))
        allowed = max(self._buffer // 2, SMALL_BLOCK_BYTES // max(1, nbytes))
        self._size = max(1, min(wanted, allowed, 2 * self._size))

    def _submit(self, sent: _Sent) -> None:
        counts = self._counts_at(sent.start)
        sent.ticket = self._workers.submit(
            self._number, "compute", sent.chunk.elements, counts, sent.stage
        )

    def _fill(self) -> None:
        """Sends elements ahead, enough to keep every worker busy and the buffer full."""
        if not self._state_captured:
            self._mark, self._state_captured = constant(copy.deepcopy(self._mark())), True
        depth = max(2, -(-self._buffer // self._size))
        if not all(sent.ticket or sent.error or self._is_sent(sent) for sent in self._sent):
            return
        while not self._over and len(self._sent) < self._workers.count * depth:
            start = self._read
            try:
                chunk = self._next(self._size)
            except Exception as error:
                mark = constant(copy.deepcopy(self._parent.get_state()))
                self._sent.append(_Sent(END, start, stage=-1, error=error, mark=mark))
                return
            if not chunk.elements:
                self._over = True
                return
            sent = _Sent(_lasting(chunk), start)
            self._sent.append(sent)
            if not self._is_sent(sent):
                return

    def _is_sent(self, sent: _Sent) -> bool:
        """Sends elements; if that fails, what was sent before comes first, then it is tried again."""
        try:
            self._submit(sent)
        except NOT_SENT:
            return False
        return True

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
        return with_counts(self._functions.stages, self._counts, self._mark())

    def _restore(self, state: Any) -> None:
        counts, below = without_counts(self._functions.stages, state, self)
        if self._sent and not self._mid_pull and same_state(self._live_state(), state):
            return  # What was sent ahead comes next.
        self._mid_pull = False
        self._restart(counts)
        self._parent.set_state(below)

    def close(self) -> None:
        """Leaves what was sent ahead to nobody."""
        if self._closed:
            return
        super().close()
        self._forget_sent()
        self._sent.clear()
        self._workers.release(self._number)


def _lasting(chunk: Chunk) -> Chunk:
    """The same chunk, whose states can also be asked when the iterator has been advanced."""
    if not chunk.live:
        return chunk
    states = [copy.deepcopy(chunk.state_after(place)) for place in range(len(chunk.elements))]
    return Chunk(chunk.elements, states.__getitem__)
