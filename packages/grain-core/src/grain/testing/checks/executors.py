"""Executors: pools compute tasks by ticket, keep definitions and affinities, and release everything."""

from __future__ import annotations

import math
import os
import tempfile
import time
from typing import Any

import numpy as np

from grain.execution import shared_sources
from grain.execution.costs import Costs
from grain.execution.executor import NotOutstanding, PoolClosed, TaskPool
from grain.testing.executor_probe import ProbePart, ProbePool, held_resources
from grain.testing.subject import NotApplicable, Subject

_IDLE_SECONDS = 0.5
_AFFINITIES = (3,)


def check_pool_members(subject: Subject) -> None:
    """Check that the executor has a capacity, and opens pools with all members of the contract.

    Write the members of `grain.execution.TaskPool`; `capacity` is the number of live workers.
    """
    executor = subject.fresh()
    assert executor.capacity >= 1, f"capacity is {executor.capacity!r}, expected 1 or more."
    with ProbePool(subject) as probe:
        missing = [
            name for name in dir(TaskPool) if name[0] != "_" and not hasattr(probe.pool, name)
        ]
        assert not missing, f"the pool lacks {', '.join(missing)}."
        assert not probe.pool.closed, "the pool is closed when it opens."
        assert probe.pool.capacity >= 0, f"the pool's capacity is {probe.pool.capacity!r}."


def check_pool_costs(subject: Subject) -> None:
    """Check that the cost model of a pool consists of finite numbers that a session can work with.

    Return a `grain.execution.Costs` with measured times, and a byte budget that the executor can hold.
    """
    with ProbePool(subject) as probe:
        costs = probe.pool.costs
        assert isinstance(costs, Costs), f"costs is {costs!r}, expected a grain.execution.Costs."
        for name in ("message_seconds", "element_seconds", "byte_seconds"):
            value = getattr(costs, name)
            assert 0 <= value < math.inf, f"costs.{name} is {value!r}."
        assert 0 < costs.block_seconds < math.inf, f"block_seconds is {costs.block_seconds!r}."
        assert costs.max_bytes >= 1, f"costs.max_bytes is {costs.max_bytes!r}."


def check_results_match_tickets(subject: Subject) -> None:
    """Check that each ticket gives the result of its own task, in whatever order results are taken.

    Keep results by ticket, not by the order in which they arrive.
    """
    with ProbePool(subject) as probe:
        tickets = [probe.submit("echo", number) for number in range(40)]
        assert len(set(tickets)) == len(tickets), "submit() has returned a ticket twice."
        order = sorted(range(40), key=lambda number: (number % 3, -number))
        found = {number: probe.take(tickets[number]) for number in order}
        wrong = {number: value for number, value in found.items() if value != number}
        assert not wrong, f"tickets gave the results of other tasks: {wrong}."


def check_no_result_lost(subject: Subject) -> None:
    """Check that every task is computed, or reported as lost, also while the capacity changes.

    Give the tasks of a worker that ends to another one, or let `result` raise `TaskLost` for them.
    """
    with ProbePool(subject) as probe:
        for first in range(0, 120, 30):
            tickets = [probe.submit("echo", number) for number in range(first, first + 30)]
            assert probe.take_all(tickets) == list(range(first, first + 30))


def check_result_taken_once(subject: Subject) -> None:
    """Check that a result can be taken once, and that a discarded one cannot be taken.

    Remove a ticket when its result is taken or discarded; raise `NotOutstanding` for unknown tickets.
    """
    with ProbePool(subject) as probe:
        taken, discarded = probe.submit("echo", 1), probe.submit("echo", 2)
        assert probe.take(taken) == 1
        probe.pool.discard(discarded)
        probe.pool.discard(discarded)
        for ticket, what in ((taken, "taken"), (discarded, "discarded")):
            try:
                value = probe.pool.result(ticket)
            except NotOutstanding:
                continue
            raise AssertionError(f"result() of a ticket that was {what} returned {value!r}.")
        assert probe.take(probe.submit("echo", 3)) == 3


def check_task_errors_raised(subject: Subject) -> None:
    """Check that `result` raises the error of a task, and that the pool works on.

    Catch what the job's function raises, keep it by ticket, and raise it from `result`.
    """
    with ProbePool(subject) as probe:
        tickets = [probe.submit("echo", 1), probe.submit("fail", "on purpose")]
        tickets.append(probe.submit("echo", 2))
        probe.wait(tickets[1])
        message = ""
        try:
            probe.pool.result(tickets[1])
        except LookupError as error:
            message = str(error)
        assert "on purpose" in message, f"the error of a task was raised as {message!r}."
        assert [probe.take(tickets[0]), probe.take(tickets[2])] == [1, 2]


def check_submit_does_not_block(subject: Subject) -> None:
    """Check that `submit` returns before the task is computed, and `wait` after its timeout.

    Queue tasks in `submit`. Only `wait`, `result` and `close` may wait for workers.
    """
    with tempfile.TemporaryDirectory() as folder, ProbePool(subject) as probe:
        gate = os.path.join(folder, "gate")
        ticket = probe.submit("pass_gate", gate, probe.patience)
        ready = probe.pool.wait([ticket], timeout=0)
        is_ready = probe.pool.ready(ticket)
        with open(gate, "w"):
            pass
        assert probe.take(ticket), "submit() waited until the task was computed."
        assert not ready, f"wait(timeout=0) returned {ready!r} before the task was computed."
        assert not is_ready, "ready() was true before the task was computed."


def check_capacity_tasks_together(subject: Subject) -> None:
    """Check that as many tasks as the pool has capacity are computed at the same time.

    Let `capacity` be the number of workers that can start a task now.
    """
    with tempfile.TemporaryDirectory() as folder, ProbePool(subject) as probe:
        count = probe.settled_capacity()
        if count < 2:
            raise NotApplicable("the pool has one worker.")
        tickets = [probe.submit("meet", folder, count, probe.patience) for _ in range(count)]
        met = probe.take_all(tickets)
        assert all(met), (
            f"the pool's capacity is {count}, and {count} tasks were not computed at the same time."
        )


def check_affinity_order(subject: Subject) -> None:
    """Check that tasks with equal affinity are computed by one worker, in the order of submission.

    Bind an affinity to a worker with its first task, and give that worker its tasks through one queue.
    """
    with tempfile.TemporaryDirectory() as folder, ProbePool(subject) as probe:
        gate = os.path.join(folder, "gate")
        probe.take(probe.submit("echo", 0))
        # Other workers are idle while the first task of each affinity waits.
        holds = [
            probe.submit("pass_gate", gate, probe.patience, affinity=affinity)
            for affinity in _AFFINITIES
        ]
        tickets = {
            (affinity, number): probe.submit("append", affinity, number, affinity=affinity)
            for number in range(10)
            for affinity in _AFFINITIES
        }
        early = set()
        if probe.pool.capacity > 1:
            early = probe.pool.wait([*tickets.values()], timeout=_IDLE_SECONDS)
        with open(gate, "w"):
            pass
        assert not early, "a task was computed before an earlier one with the same affinity."
        assert probe.take_all(holds) == [True] * len(holds)
        for affinity in _AFFINITIES:
            results = [probe.take(tickets[affinity, number]) for number in range(10)]
            workers = {worker for worker, _ in results}
            assert len(workers) == 1, f"affinity {affinity} was computed by {len(workers)} workers."
            expected = [list(range(number + 1)) for number in range(10)]
            assert [values for _, values in results] == expected, (
                f"tasks of affinity {affinity} were not computed once each, in order: {results[-1]}."
            )


def check_definitions_precede_tasks(subject: Subject) -> None:
    """Check that tasks find the parts that were defined before them, and that a bad part harms no other.

    Apply definitions in each worker before any task that was submitted later; a worker must survive one
    that raises.
    """
    with ProbePool(subject) as probe:
        pickled = shared_sources.dumps(ProbePart(), ())
        for number in range(1, 4):
            probe.pool.define(number, pickled)
            tickets = [probe.submit("echo", number, part=number) for _ in range(8)]
            assert probe.take_all(tickets) == [number] * 8
        probe.pool.define(5, pickled, affinity=5)
        assert probe.take(probe.submit("echo", 5, part=5, affinity=5)) == 5
        probe.pool.release(1)
        probe.pool.define(6, b"not a pickle")
        bad = probe.submit("echo", 6, part=6)
        probe.wait(bad)
        try:
            value = probe.pool.result(bad)
        except Exception:
            value = None
        assert value is None, f"a part that cannot be loaded gave {value!r}."
        tickets = [probe.submit("echo", number, part=number % 2 * 2) for number in range(8)]
        assert probe.take_all(tickets) == list(range(8))


def check_tasks_by_value(subject: Subject) -> None:
    """Check that a task which changes its arguments does not change the submitted task.

    Pickle or copy tasks: a session may submit the same task again.
    """
    with ProbePool(subject) as probe:
        values = [1, 2]
        first, second = probe.submit("extend", values), probe.submit("extend", values)
        assert probe.take_all((first, second)) == [[1, 2, -1]] * 2
        assert values == [1, 2], f"the argument of the task became {values}."


def check_results_writable(subject: Subject) -> None:
    """Check that arrays in results are writable and do not share memory.

    Copy arrays out of read-only stores; reuse a buffer only after the arrays in it are gone.
    """
    with ProbePool(subject) as probe:
        arrays = probe.take_all([probe.submit("array", number) for number in range(8)])
        for number, array in enumerate(arrays):
            assert isinstance(array, np.ndarray), f"the result is {type(array).__name__}."
            assert array.flags.writeable, "an array in a result is read-only."
            array += 100
            assert (array == 100 + number).all()
        more = probe.take_all([probe.submit("array", number) for number in range(8)])
        for number, (array, other) in enumerate(zip(arrays, more, strict=True)):
            assert (array == 100 + number).all(), "a later result has overwritten an array."
            assert (other == number).all(), "a result depends on an array of an earlier one."
    assert all((array == 100 + n).all() for n, array in enumerate(arrays)), (
        "close() changed arrays."
    )


def check_close_is_final(subject: Subject) -> None:
    """Check that `close` ends the pool, with tasks in flight too, does not raise, and may be repeated.

    Cancel tasks in `close`, ignore what is gone already, and raise `PoolClosed` from later calls.
    """
    with ProbePool(subject) as probe:
        ticket = probe.submit("echo", 1)
        for attempt in ("close()", "close() after close()"):
            try:
                probe.pool.close()
            except Exception as error:
                raise AssertionError(f"{attempt} raised {error!r}.") from error
        assert probe.pool.closed, "closed is false after close()."
        calls: dict[str, Any] = {
            "submit()": lambda: probe.submit("echo", 2),
            "result()": lambda: probe.pool.result(ticket),
        }
        for name, call in calls.items():
            try:
                value = call()
            except PoolClosed:
                continue
            raise AssertionError(f"{name} after close() returned {value!r}, expected PoolClosed.")


def check_close_releases_workers(subject: Subject) -> None:
    """Check that closed pools leave no thread, no process and no open file.

    Join threads, wait for processes and close connections in `close`.
    """

    def use() -> float:
        with ProbePool(subject) as probe:
            probe.take_all([probe.submit("array", number) for number in range(4)])
            return probe.patience

    patience = use()  # Libraries create shared resources on first use.
    before = held_resources()
    for _ in range(2):
        use()
    deadline = time.monotonic() + patience
    while more := {n: c for n, c in held_resources().items() if c > before.get(n, c)}:
        assert time.monotonic() < deadline, f"closed pools left {more}, before there were {before}."
        time.sleep(0.01)


def check_executor_reusable(subject: Subject) -> None:
    """Check that one executor opens several pools, also at the same time.

    Keep all state in the pool; an executor is a description.
    """
    executor = subject.fresh()
    with ProbePool(subject, executor) as first, ProbePool(subject, executor) as second:
        tickets = first.submit("echo", "first"), second.submit("echo", "second")
        assert [first.take(tickets[0]), second.take(tickets[1])] == ["first", "second"]
    with ProbePool(subject, executor) as third:
        assert third.take(third.submit("echo", "third")) == "third"
