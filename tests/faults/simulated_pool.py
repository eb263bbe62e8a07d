"""An executor in virtual time: one thread, a clock that moves only while a session waits, seeded faults.

Workers hold the job and really compute its tasks; how long a task takes is drawn from the seed. Workers are
lost in the middle of tasks, replaced after a while, added and removed; tasks are computed twice; calls are
interrupted, some of them in the middle of a message. A wait that no event can end is a deadlock.
"""

from __future__ import annotations

import copy
import dataclasses
import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Collection
from typing import Any

from grain.execution import Costs, NotOutstanding, PoolClosed, PoolInterrupted, TaskLost

POISON = "poison"


class DeadlockError(AssertionError):
    """A session waits, and nothing can happen any more."""


class BrokenContractError(AssertionError):
    """A session uses its pool in a way that the contract does not allow."""


class VirtualClock:
    """Time in seconds; each reading takes a microsecond, so that no duration is zero."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1e-6
        return self.now


@dataclasses.dataclass(frozen=True)
class Faults:
    """Probabilities and magnitudes of what happens to a pool; all of it is drawn from the seed.

    Attributes:
        loss: Probability that a worker is lost in a task.
        straggler: Probability that a task takes 1000 times longer.
        twice: Probability that a task is computed twice.
        resize: Probability, for each wait, that the number of workers changes.
        interrupt: Probability, for each call of the pool, of a KeyboardInterrupt.
        max_bytes: Byte budget.
        block_seconds: Preferred duration of tasks.
        is_poison: Whether a task ends its worker.
    """

    loss: float = 0.0
    straggler: float = 0.0
    twice: float = 0.0
    resize: float = 0.0
    interrupt: float = 0.0
    max_bytes: int = 1 << 30
    block_seconds: float = 0.004
    is_poison: Callable[[Any], bool] = lambda task: False


class SimulatedExecutor:
    """Opens simulated pools; all randomness comes from one generator.

    Attributes:
        happened: How often each fault was injected.
        pools: The pools that were opened.
        is_calm: Whether there are no more interrupts.
    """

    def __init__(self, rng: random.Random, clock: VirtualClock, capacity: int, faults: Faults):
        self.rng, self.clock, self.capacity, self.faults = rng, clock, capacity, faults
        self.happened: Counter[str] = Counter()
        self.pools: list[SimulatedPool] = []
        self.is_calm = False

    def open(self, job: Any, *, name_owner: Any = None) -> SimulatedPool:
        pool = SimulatedPool(self, job)
        self.pools.append(pool)
        return pool


class _Worker:
    """A worker: the function that computes tasks, and tasks bound to it."""

    def __init__(self, number: int, compute: Callable[[Any], Any]):
        self.number = number
        self.compute = compute
        self.own: deque[int] = deque()
        self.task: int | None = None


class SimulatedPool:
    """Workers in virtual time."""

    def __init__(self, executor: SimulatedExecutor, job: Any):
        self._executor, self._job = executor, job
        self._rng, self._clock, self._faults = executor.rng, executor.clock, executor.faults
        self.costs = Costs(
            block_seconds=self._faults.block_seconds,
            message_seconds=0.0,
            element_seconds=0.0,
            byte_seconds=0.0,
            max_bytes=self._faults.max_bytes,
        )
        self.closed = False
        self._interrupted = False
        self._tickets = itertools.count(self._rng.randrange(1, 100))
        self._numbers = itertools.count()
        self._order = itertools.count()
        self._tasks: dict[int, tuple[Any, int | None]] = {}
        self._outcomes: dict[int, tuple[Any, BaseException | None]] = {}
        self._bound: dict[int, _Worker] = {}
        self._shared: deque[int] = deque()
        # Tasks with an affinity that were submitted while there was no worker.
        self._homeless: list[int] = []
        self._definitions: dict[int, tuple[bytes, int | None]] = {}
        self._workers: list[_Worker] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._wanted = executor.capacity
        self._changed = False
        for _ in range(self._wanted):
            self._start_worker()
        self._changed = False

    # The contract.

    @property
    def capacity(self) -> int:
        return len(self._workers)

    @property
    def left(self) -> int:
        """Number of tickets whose result was neither taken nor discarded, unless the pool was interrupted."""
        return 0 if self._interrupted else len(self._tasks)

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        self._require_usable()
        self._maybe_interrupt("submit")
        ticket = next(self._tickets)
        self._tasks[ticket] = (task, affinity)
        if affinity is None:
            self._shared.append(ticket)
        elif self._workers:
            self._bind(affinity).own.append(ticket)
        else:
            self._homeless.append(ticket)
        self._dispatch()
        self._maybe_interrupt("submit")
        return ticket

    def define(self, number: int, part: bytes, *, affinity: int | None = None) -> None:
        self._require_usable()
        self._maybe_interrupt("define")
        self._definitions[number] = (part, affinity)
        for worker in (
            self._workers if affinity is None else self._workers and [self._bind(affinity)]
        ):
            worker.compute((number, "define", part))

    def release(self, number: int) -> None:
        if self.closed:
            return
        self._require_usable()
        self._maybe_interrupt("release")
        self._definitions.pop(number, None)
        for worker in self._workers:
            worker.compute((number, "release"))

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        wanted = list(tickets)
        deadline = None if timeout is None else self._clock.now + timeout
        self._maybe_resize()
        while True:
            if self.closed or self._interrupted:
                return set(wanted)
            ready = {t for t in wanted if t not in self._tasks or t in self._outcomes}
            if ready or timeout == 0 or not wanted:
                return ready
            if self._changed:
                self._changed = False
                return set()
            self._maybe_interrupt("wait")
            if not self._events:
                if deadline is None:
                    raise DeadlockError(f"nothing will end the wait for {wanted}")
                self._clock.now = deadline
                return set()
            when, _, action = self._events[0]
            if deadline is not None and when > deadline:
                self._clock.now = deadline
                return set()
            heapq.heappop(self._events)
            self._clock.now = max(self._clock.now, when)
            action()

    def result(self, ticket: int) -> Any:
        self._require_usable()
        if ticket not in self._tasks:
            raise NotOutstanding(f"ticket {ticket}")
        if ticket not in self._outcomes:
            raise BrokenContractError(f"result({ticket}) would block")
        self._maybe_interrupt("result")
        del self._tasks[ticket]
        value, error = self._outcomes.pop(ticket)
        self._maybe_interrupt("result")
        if error is not None:
            raise error
        return value

    def ready(self, ticket: int) -> bool:
        return ticket not in self._tasks or ticket in self._outcomes or self._interrupted

    def discard(self, ticket: int) -> None:
        self._tasks.pop(ticket, None)
        self._outcomes.pop(ticket, None)

    def close(self) -> None:
        self.closed = True
        self._events.clear()

    def drop_events(self) -> None:
        """Let nothing happen any more that was to happen."""
        self._events.clear()

    # What happens in virtual time.

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self._clock.now + seconds, next(self._order), action))

    def _start_worker(self) -> None:
        if self.closed or len(self._workers) >= self._wanted:
            return
        number = next(self._numbers)
        worker = _Worker(number, self._job.start(number, self._wanted))
        for part, (pickled, affinity) in self._definitions.items():
            if affinity is None or affinity not in self._bound:
                worker.compute((part, "define", pickled))
        self._workers.append(worker)
        self._changed = True
        for ticket in self._homeless:
            if ticket in self._tasks:
                self._bind(self._tasks[ticket][1]).own.append(ticket)
        self._homeless.clear()
        self._dispatch()

    def _bind(self, affinity: int) -> _Worker:
        if affinity not in self._bound:
            worker = self._rng.choice(self._workers)
            for part, (pickled, owner) in self._definitions.items():
                if owner == affinity:
                    worker.compute((part, "define", pickled))
            self._bound[affinity] = worker
        return self._bound[affinity]

    def _dispatch(self) -> None:
        """Give tasks to idle workers, in random order; tasks of a worker's own in their order."""
        for worker in self._rng.sample(self._workers, len(self._workers)):
            while worker.task is None and (worker.own or self._shared):
                own = bool(worker.own) and (not self._shared or self._rng.random() < 0.5)
                ticket = worker.own.popleft() if own else self._shared.popleft()
                if ticket in self._tasks:  # Otherwise it was discarded before it was started.
                    self._start_task(worker, ticket)

    def _start_task(self, worker: _Worker, ticket: int) -> None:
        worker.task = ticket
        task, _ = self._tasks[ticket]
        seconds = self._rng.lognormvariate(-6, 1)
        if self._rng.random() < self._faults.straggler:
            self._executor.happened["straggler"] += 1
            seconds *= 1000
        if self._rng.random() < self._faults.loss:
            self._after(seconds / 2, lambda: self._kill(worker, "loss"))
            return
        if self._faults.is_poison(task):
            self._after(seconds / 2, lambda: self._kill(worker, POISON))
            return
        self._after(seconds, lambda: self._finish(worker, ticket, seconds))

    def _finish(self, worker: _Worker, ticket: int, seconds: float) -> None:
        if worker not in self._workers or worker.task != ticket:
            return
        worker.task = None
        if ticket in self._tasks:
            task, affinity = self._tasks[ticket]
            times = 1
            if affinity is None and self._rng.random() < self._faults.twice:
                self._executor.happened["computed twice"] += 1
                times = 2
            for _ in range(times):
                try:
                    outcome = worker.compute(copy.deepcopy(task)), None
                except Exception as error:
                    outcome = None, error
            value = outcome[0]
            if isinstance(value, tuple) and hasattr(value[0], "seconds"):
                value[0].seconds = seconds
            self._outcomes[ticket] = outcome
        self._dispatch()

    def _kill(self, worker: _Worker, cause: str) -> None:
        if worker not in self._workers:
            return
        self._executor.happened[cause] += 1
        self._remove(worker, cause)
        self._after(self._rng.expovariate(10), self._start_worker)

    def _remove(self, worker: _Worker, cause: str) -> None:
        self._workers.remove(worker)
        self._changed = True
        for affinity in [a for a, bound in self._bound.items() if bound is worker]:
            del self._bound[affinity]
        if worker.task is not None:
            self._lose(worker.task, worker.number, started=True, cause=cause)
        for ticket in worker.own:
            self._lose(ticket, worker.number, started=False, cause=cause)
        self._dispatch()

    def _lose(self, ticket: int, worker: int, *, started: bool, cause: str) -> None:
        if ticket in self._tasks:
            self._outcomes[ticket] = None, TaskLost(ticket, worker, cause, started)

    def _maybe_resize(self) -> None:
        if self._rng.random() >= self._faults.resize:
            return
        self._executor.happened["resize"] += 1
        self._wanted = self._rng.randint(1, 5)
        while len(self._workers) > self._wanted:
            idle = [worker for worker in self._workers if worker.task is None]
            if not idle:
                break
            self._remove(self._rng.choice(idle), "removed")
        while len(self._workers) < self._wanted:
            self._start_worker()

    # Interrupts.

    def _maybe_interrupt(self, where: str) -> None:
        """Raise an interrupt; some of them strike in the middle of a message."""
        if self._executor.is_calm or self._rng.random() >= self._faults.interrupt:
            return
        self._executor.happened[f"interrupt in {where}"] += 1
        if self._rng.random() < 0.3:
            self._executor.happened["pool interrupted"] += 1
            self._interrupted = True
        raise KeyboardInterrupt

    def _require_usable(self) -> None:
        if self.closed:
            raise PoolClosed("closed")
        if self._interrupted:
            raise PoolInterrupted("interrupted")
