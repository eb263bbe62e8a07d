"""Calls are submitted again or twice; the pool's capacity and byte budget bound what is in flight."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

import grain
from grain._policy import Policy
from grain.execution import Costs, NotOutstanding, TaskLost
from grain.execution.build import build
from grain.execution.plan import plan
from grain.execution.task_scheduler import CallLostError, PoisonTaskError, TaskScheduler
from grain.execution.worker_session import WorkerSession

from .executors import InlineTasks
from .pipelines import rows

POLICY = Policy(hedge_samples=2, hedge_seconds=1.0, hedge_factor=4.0)


class HeldPool:
    """A pool whose results are given by the test."""

    closed = False

    def __init__(self, capacity: int = 2, max_bytes: int = 100):
        self.capacity = capacity
        self.costs = Costs.of_local_processes(POLICY, max_bytes=max_bytes)
        self.tasks: dict[int, Any] = {}
        self.outcomes: dict[int, Any] = {}
        self.discarded: list[int] = []
        self.last = 0

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        self.last += 1
        self.tasks[self.last] = task
        return self.last

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        return {ticket for ticket in tickets if ticket in self.outcomes}

    def result(self, ticket: int) -> Any:
        if ticket not in self.outcomes:
            raise NotOutstanding(ticket)
        outcome = self.outcomes.pop(ticket)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def discard(self, ticket: int) -> None:
        self.discarded.append(ticket)

    def lose(self, ticket: int, *, started: bool = True) -> None:
        self.outcomes[ticket] = TaskLost(ticket, 0, "killed", started)


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool() -> HeldPool:
    return HeldPool()


@pytest.fixture
def scheduler(clock: Clock, pool: HeldPool) -> TaskScheduler:
    scheduler = TaskScheduler(POLICY, clock, lambda value: value)
    scheduler.attach(pool)
    return scheduler


def finish(scheduler: TaskScheduler, pool: HeldPool, call: Any, value: Any) -> Any:
    """Give a call its result, and take it."""
    ticket = call.tickets[0]
    pool.outcomes[ticket] = value
    assert scheduler.step(call, {ticket}) is None
    return scheduler.take(call)


def test_a_lost_call_is_submitted_again_and_delivered_once(
    scheduler: TaskScheduler, pool: HeldPool
) -> None:
    call = scheduler.submit("a")
    pool.lose(1)
    wait = scheduler.step(call, {1})
    assert wait is not None
    assert wait.tickets == (2,)
    assert pool.tasks[2] == "a"
    assert finish(scheduler, pool, call, "A") == "A"
    assert (scheduler.counts.losses, scheduler.counts.resubmitted) == (1, 1)


def test_a_call_at_which_two_workers_were_lost_is_poison(
    scheduler: TaskScheduler, pool: HeldPool
) -> None:
    call = scheduler.submit("a")
    for ticket in (1, 2, 3):
        pool.lose(ticket, started=ticket != 2)  # One that waited behind another is not to blame.
        wait = scheduler.step(call, {ticket})
    assert wait is None
    with pytest.raises(PoisonTaskError, match=r"2 workers were lost .*killed"):
        scheduler.take(call)


def test_a_call_of_a_lost_worker_with_affinity_is_lost(
    scheduler: TaskScheduler, pool: HeldPool
) -> None:
    call = scheduler.submit("a", affinity=3)
    pool.lose(1)
    assert scheduler.step(call, {1}) is None
    with pytest.raises(CallLostError):
        scheduler.take(call)


def test_calls_move_to_the_next_pool_in_order(scheduler: TaskScheduler) -> None:
    calls = [scheduler.submit(name) for name in "abc"]
    stream = scheduler.submit("stream", affinity=1)
    scheduler.detach()
    other = HeldPool()
    scheduler.attach(other)
    assert list(other.tasks.values()) == ["a", "b", "c"]
    assert scheduler.step(stream, None) is None
    with pytest.raises(CallLostError):
        scheduler.take(stream)
    assert finish(scheduler, other, calls[0], "A") == "A"


def test_a_slow_call_is_hedged_once_while_a_worker_is_idle(
    scheduler: TaskScheduler, pool: HeldPool, clock: Clock
) -> None:
    for _ in range(2):
        finish(scheduler, pool, scheduler.submit("quick"), 0.5)
    clock.now += 100  # A consumer that takes its time is no evidence.
    slow, other = scheduler.submit("slow"), scheduler.submit("other")
    wait = scheduler.step(slow, None)
    assert wait is not None
    assert wait.timeout == pytest.approx(2.0)  # Four times the slowest of the last.
    clock.now += 2.5
    busy = scheduler.step(slow, set())
    assert busy is not None
    assert len(busy.tickets) == 1  # No worker is idle.
    pool.outcomes[other.tickets[0]] = 0.4
    hedged = scheduler.step(slow, set())
    assert hedged is not None
    first, second = hedged.tickets
    assert pool.tasks[second] == "slow"
    pool.outcomes[second] = 0.3
    assert scheduler.step(slow, {second}) is None
    assert scheduler.take(slow) == 0.3
    assert pool.discarded == [first]
    assert scheduler.take(other) == 0.4
    assert (scheduler.counts.hedged, scheduler.counts.duplicates) == (1, 1)


def test_results_in_flight_stay_within_the_byte_budget(scheduler: TaskScheduler) -> None:
    calls = [scheduler.submit(number, nbytes=40) for number in range(2)]
    assert scheduler.has_room(20)
    assert not scheduler.has_room(21)
    scheduler.cancel(calls.pop())
    assert scheduler.has_room(60)
    calls.clear()  # Dropped, as by an iterator that was not closed.
    assert scheduler.has_room(100)


@pytest.mark.parametrize("dataset", ["fused", "offload"])
def test_a_byte_budget_bounds_what_an_iterator_has_in_flight(dataset: str) -> None:
    def large(x: Any) -> Any:
        return np.full(1000, np.sum(x))

    def is_large(task: Any) -> bool:
        return dataset == "fused" or isinstance(task[2], list)

    source = rows(60).map(large)
    if dataset == "offload":
        source = rows(120).filter(lambda x: x % 2 == 0).batch(1).map(large)
    executor = InlineTasks(capacity=4)
    executor.max_bytes = 20_000
    session = WorkerSession(executor, buffer_size=8)
    with contextlib.closing(session), build(plan(source), session) as iterator:
        expected = list(source)
        for number, element in enumerate(iterator):
            np.testing.assert_array_equal(element, expected[number])
            large_ones = [task for task in executor.outstanding if is_large(task)]
            assert len(large_ones) <= 2 or number < 8  # Sizes are unknown at first.


def test_a_pool_that_grows_is_given_more_tasks() -> None:
    executor = InlineTasks(capacity=1)
    session = WorkerSession(executor)
    with contextlib.closing(session), build(plan(rows(10**6)), session) as iterator:
        assert next(iterator) == 0
        assert executor.in_flight <= 2
        executor.capacity = 8
        for _ in range(2000):
            next(iterator)
        assert executor.in_flight > 8


def test_lost_workers_are_reported_once_each() -> None:
    class Lossy(InlineTasks):
        failed = 0

        def result(self, ticket: int) -> Any:
            if self.failed < 3:
                self.failed += 1
                self.discard(ticket)
                raise TaskLost(ticket, 1, "killed", False)
            return super().result(ticket)

    session = WorkerSession(Lossy())
    with contextlib.closing(session), build(plan(rows(9)), session) as iterator:
        with pytest.warns(RuntimeWarning, match="Worker 1 was lost: killed") as caught:
            assert list(iterator) == list(range(9))
        assert len(caught) == 1
    assert session.counts.losses == 3
    assert isinstance(iterator, grain.DatasetIterator)
