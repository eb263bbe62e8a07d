"""Definitions, affinity, waiting for any of several tasks, and jobs that compute in the background."""

import os
import pickle
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from grain.execution.processes.error_report import TaskLost


class _Parts:
    """A job that calls the part whose number a task names."""

    def start(self, worker_index, worker_count):
        parts = {}

        def handle(task):
            number, name, *arguments = task
            if name == "define":
                parts[number] = pickle.loads(arguments[0])
            elif name == "release":
                del parts[number]
            elif name == "numbers":
                return sorted(parts)
            else:
                return parts[number], worker_index, *arguments
            return None

        return handle


def _define(pool, number, value, **options):
    pool.define(number, pickle.dumps(value), **options)


def test_a_definition_precedes_every_later_task_in_every_worker(make_pool):
    pool = make_pool(_Parts(), num_workers=3)
    for number in range(1, 40):
        _define(pool, number, f"part {number}")
        tickets = [pool.submit((number, "call", x)) for x in range(4)]
        for x, ticket in enumerate(tickets):
            part, _, argument = pool.result(ticket)
            assert (part, argument) == (f"part {number}", x)


def test_a_large_definition_precedes_small_tasks(make_pool):
    """It does not fit into the socket at once, and the tasks travel over another one."""
    pool = make_pool(_Parts(), num_workers=2, slot_bytes=0)
    _define(pool, 1, bytes(8 << 20))
    tickets = [pool.submit((1, "call")) for _ in range(4)]
    assert [len(pool.result(ticket)[0]) for ticket in tickets] == [8 << 20] * 4


def test_a_released_part_is_gone(make_pool):
    pool = make_pool(_Parts(), num_workers=1)
    for number in (1, 2):
        _define(pool, number, number)
    pool.release(1)
    pool.release(1)  # again, to no effect
    pool.release(77)
    assert pool.result(pool.submit((0, "numbers"), affinity=0)) == [2]


def test_a_definition_that_fails_fails_the_tasks_that_need_it(make_pool):
    pool = make_pool(_Parts(), num_workers=2)
    pool.define(1, b"no pickle")
    _define(pool, 2, "fine")
    for _ in range(4):
        with pytest.raises(pickle.UnpicklingError):
            pool.result(pool.submit((1, "call")))
        assert pool.result(pool.submit((2, "call")))[0] == "fine"


def test_tasks_of_one_affinity_are_computed_by_one_worker_in_order(make_pool):
    class Job:
        def start(self, worker_index, worker_count):
            seen = []

            def handle(task):
                seen.append(task)
                return worker_index, [t for t in seen if t[0] == task[0]]

            return handle

    pool = make_pool(Job(), num_workers=2)
    tickets = {
        (key, x): pool.submit((key, x), affinity=key) for x in range(5) for key in (10, 11, 12)
    }
    workers = {}
    for (key, x), ticket in tickets.items():
        worker, seen = pool.result(ticket)
        assert seen == [(key, n) for n in range(x + 1)]
        assert workers.setdefault(key, worker) == worker
    assert sorted(workers.values()) == [0, 0, 1]


def test_a_part_of_one_affinity_is_defined_in_its_worker_only(make_pool):
    pool = make_pool(_Parts(), num_workers=2)
    for key in (0, 1):
        _define(pool, key, f"part {key}", affinity=key)
    assert pool.result(pool.submit((0, "call"), affinity=0)) == ("part 0", 0)
    assert pool.result(pool.submit((1, "call"), affinity=1)) == ("part 1", 1)
    assert pool.result(pool.submit((0, "numbers"), affinity=1)) == [1]


def test_wait_returns_the_tasks_that_are_done(make_pool, fifo):
    path = fifo.path

    def handle(task):
        if task == "wait":
            with open(path) as file:
                return file.read()
        return task

    pool = make_pool(handle, num_workers=2)
    blocked, quick = pool.submit("wait"), pool.submit("quick")
    assert pool.wait([blocked, quick]) == {quick}
    assert pool.wait([blocked], timeout=0.01) == set()
    assert pool.wait([], timeout=None) == set()
    with open(path, "w") as file:
        file.write("go")
    assert pool.wait([blocked]) == {blocked}
    assert pool.result(blocked) == "go"
    assert pool.wait([blocked, 999]) == {blocked, 999}  # `result` raises at once
    pool.close()
    assert pool.wait([quick]) == {quick}


def test_a_worker_reads_tasks_while_futures_are_computed(make_pool):
    """All tasks meet at a barrier: none would end if the worker computed one after the other."""

    class Job:
        def start(self, worker_index, worker_count):
            threads = ThreadPoolExecutor(8)
            barrier = threading.Barrier(8)

            def compute(x):
                barrier.wait()
                return os.getpid(), np.full(100_000, x)

            return lambda x: threads.submit(compute, x)

    pool = make_pool(Job(), num_workers=1)
    for _ in range(5):
        tickets = [pool.submit(x) for x in range(8)]
        for x, ticket in enumerate(tickets):
            pid, array = pool.result(ticket)
            assert pid == pool.pids[0]
            assert array.shape == (100_000,)
            assert array[-1] == x


def test_errors_of_futures_are_raised_and_discarded_futures_cancelled(make_pool):
    class Job:
        def start(self, worker_index, worker_count):
            pending = []

            def handle(task):
                if task == "count cancelled":
                    return sum(future.cancelled() for future in pending)
                future = Future()
                if task == "fail":
                    future.set_exception(LookupError("in the background"))
                else:
                    pending.append(future)
                return future

            return handle

    pool = make_pool(Job(), num_workers=1)
    with pytest.raises(LookupError, match="in the background"):
        pool.result(pool.submit("fail"))
    never = [pool.submit("never") for _ in range(3)]
    assert pool.result(pool.submit("count cancelled")) == 0
    for ticket in never:
        pool.discard(ticket)
    while pool.result(pool.submit("count cancelled")) < 3:
        pass
    with pytest.raises(KeyError):
        pool.result(never[0])


def test_the_costs_of_a_pool_are_those_of_the_policy(make_pool):
    pool = make_pool(lambda x: x, num_workers=2, slot_bytes=1 << 20)
    assert pool.costs.max_bytes == 2 << 20
    assert 0 < pool.costs.message_seconds < pool.costs.block_seconds


def test_task_lost_survives_pickling():
    error = pickle.loads(pickle.dumps(TaskLost(7, 1, "killed", True)))
    assert (error.ticket, error.worker, error.cause, error.started) == (7, 1, "killed", True)
    assert "was computing the task (ticket 7)" in str(error)
