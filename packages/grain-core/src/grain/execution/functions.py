"""Plain functions above an order-dependent operation: slow ones are computed by workers, in order."""

from __future__ import annotations

import collections
import copy
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from grain.dataset.base import DatasetIterator
from grain.dataset.feed import constant
from grain.dataset.iterator import RunIterator, same_state
from grain.dataset.map import MapIterDataset
from grain.dataset.runs import END, Run
from grain.execution.crew import NOT_SENT, Workers
from grain.execution.processes import NotOutstanding
from grain.observe.notes import add_note

T = TypeVar("T")

# A function is worth sending elements to and fro when it takes longer than this for one of them.
_FARM_SECONDS = 0.002


class Functions:
    """Functions of one element, one after the other, for a stretch of elements."""

    def __init__(self, stages: Sequence[MapIterDataset[Any]]):
        self.stages = tuple(stages)

    def __getstate__(self) -> dict[str, Any]:
        # What the functions are applied to stays here, and so need not be picklable.
        alone = []
        for stage in self.stages:
            stage = copy.copy(stage)
            stage._parents = (_Origin(stage._sources()),)
            alone.append(stage)
        return {"stages": tuple(alone)}

    def __str__(self) -> str:
        return ", ".join(map(str, self.stages))

    def compute(self, elements: list[Any]) -> Applied:
        """Applies the functions; an error comes back as data."""
        error: Exception | None = None
        for stage in self.stages:
            result = stage._apply_run(elements, 0)
            elements = result.elements
            error = result.error or error
        return Applied(elements, error)


@dataclasses.dataclass(frozen=True)
class _Origin:
    """Stands for all that is below an operation, where only its name is needed."""

    sources: str

    def _sources(self) -> str:
        return self.sources


@dataclasses.dataclass
class Applied:
    """What functions made of elements, up to the first error."""

    elements: list[Any]
    error: Exception | None


@dataclasses.dataclass
class _Sent:
    """Elements that are with a worker, or the error that came instead of them."""

    run: Run
    ticket: int | None = None
    error: Exception | None = None
    state: Any = None


class FarmIterator(RunIterator[T]):
    """Applies functions to the elements of any iterator; slow ones are computed by workers, in order."""

    def __init__(
        self, parent: DatasetIterator[Any], stages: Sequence[MapIterDataset[Any]], workers: Workers
    ):
        super().__init__(parent)
        self._functions = Functions(stages)
        self._workers = workers
        self._number = workers.add(self._functions)
        self._sent: collections.deque[_Sent] = collections.deque()
        self._seconds: collections.deque[float] = collections.deque(maxlen=3)
        self._farming = False
        # Whether an interrupt now would lose what has been read from the parent.
        self._torn = False
        self._restart()

    def __str__(self) -> str:
        return f"FarmIterator({self._functions})"

    def _restart(self) -> None:
        for sent in self._sent:
            if sent.ticket is not None:
                self._workers.forget(sent.ticket)
        self._sent.clear()
        self._over = False
        self._follow_parent()

    def _follow_parent(self) -> None:
        """The state is where the parent stands."""
        self._mark: Callable[[], Any] = self._parent.get_state
        # Whether it stays what it is when the parent is advanced.
        self._steady = False

    def _pull(self, limit: int) -> Run:
        self._torn = True
        run = self._pull_from_workers() if self._farming else self._pull_here(limit)
        self._torn = False
        return run

    def _pull_from_workers(self) -> Run:
        self._fill()
        if not self._sent:
            self._over = False
            self._follow_parent()
            return END
        sent = self._sent[0]
        if sent.error is not None:
            self._sent.popleft()
            self._mark = constant(sent.state)
            raise sent.error
        return self._give(*self._take())

    def _take(self) -> tuple[Run, Applied]:
        """Waits for what was sent first; it stays the first if the wait is interrupted."""
        while True:
            sent = self._sent[0]
            try:
                if sent.ticket is None:
                    sent.ticket = self._submit(sent.run)
                self._torn = False
                applied: Applied = self._workers.told(sent.ticket)
                self._torn = True
            except NOT_SENT as error:
                # The elements may be fine, but could not be sent. They are sent again, one by one so
                # that what comes back of the others comes first.
                sent.ticket = None
                if isinstance(error, NotOutstanding):
                    continue
                if len(sent.run.elements) == 1:
                    add_note(
                        error,
                        f"raised while worker processes computed {self._functions} and sent back "
                        "its elements, pickled.",
                    )
                    raise
                self._sent.popleft()
                for place in range(len(sent.run.elements) - 1, -1, -1):
                    self._sent.appendleft(_Sent(sent.run.rest(place).first(1)))
            else:
                self._sent.popleft()
                return sent.run, applied

    def _pull_here(self, limit: int) -> Run:
        if self._sent:
            held = self._sent.popleft().run
        else:
            self._follow_parent()
            held = self._parent._next_run(limit)
        if not held.elements:
            return END
        started = time.perf_counter()
        applied = self._functions.compute(held.elements)
        self._seconds.append((time.perf_counter() - started) / len(held.elements))
        full = len(self._seconds) == self._seconds.maxlen
        if full and min(self._seconds) > _FARM_SECONDS:
            self._farming = True
        return self._give(held, applied)

    def _give(self, run: Run, applied: Applied) -> Run:
        made = Run(applied.elements, run.state_after, run.live) if applied.elements else END
        self._steady = not run.live
        if applied.error is None:
            self._mark = run.mark(len(run.elements) - 1)
            return made
        # The element that failed is gone; those behind it come next.
        place = len(applied.elements)
        self._mark = run.mark(place)
        rest = run.rest(place + 1)
        if rest.elements:
            self._sent.appendleft(_Sent(_lasting(rest)))
        return self._fail_after(applied.error, made)

    def _submit(self, run: Run) -> int:
        return self._workers.submit(self._number, "compute", run.elements)

    def _fill(self) -> None:
        """Sends elements ahead, a few for every worker."""
        if not self._steady:
            self._mark, self._steady = constant(copy.deepcopy(self._mark())), True
        while not self._over and len(self._sent) < 2 * self._workers.count:
            try:
                run = self._parent._next_run(1)
            except Exception as error:
                state = copy.deepcopy(self._parent.get_state())
                self._sent.append(_Sent(END, error=error, state=state))
                return
            if not run.elements:
                self._over = True
                return
            sent = _Sent(_lasting(run))
            self._sent.append(sent)
            try:
                sent.ticket = self._submit(sent.run)
            except NOT_SENT:
                return  # What was sent before comes first, then this is tried again.

    def _live_state(self) -> Any:
        return self._mark()

    def _restore(self, state: Any) -> None:
        if self._sent and not self._torn and same_state(self._mark(), state):
            return  # What was sent ahead comes next.
        self._torn = False
        self._restart()
        self._parent.set_state(state)

    def close(self) -> None:
        """Leaves what was sent ahead to nobody."""
        if self._closed:
            return
        super().close()
        for sent in self._sent:
            if sent.ticket is not None:
                self._workers.forget(sent.ticket)
        self._sent.clear()
        self._workers.release(self._number)


def _lasting(run: Run) -> Run:
    """The same run, whose states can also be asked when the iterator has been advanced."""
    if not run.live:
        return run
    states = [copy.deepcopy(run.state_after(place)) for place in range(len(run.elements))]
    return Run(run.elements, states.__getitem__)
