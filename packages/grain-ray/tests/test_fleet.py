"""The fleet: order, loss, replacement, definitions, limits. Its actors are threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from grain.execution.processes import array_pickling
from grain.execution.processes.error_report import ErrorReport, rebuild
from grain_ray.fleet import Fleet, FleetOptions
from grain_ray.messages import ActorLoss, Definition, Reply, Submit, TaskOutcome
from grain_ray.payload import Payload, own, pack, unpack

from .ray_clusters.thread_cluster import ThreadCluster

SECONDS = 30
gates: dict[str, threading.Event] = {}


class Worker:
    """A job with parts, gates, and a position."""

    def start(self, worker_index: int, worker_count: int) -> Any:
        parts: dict[int, bytes] = {}
        position = iter(range(1000))

        def compute(task: Any) -> Any:
            number, name, *arguments = task
            if name == "define":
                if arguments[0] == b"broken":
                    raise ValueError("broken part")
                parts[number] = arguments[0]
                return None
            if name == "release":
                parts.pop(number, None)
                return None
            if name == "wait":
                gates[arguments[0] + " started"].set()
                gates[arguments[0]].wait(SECONDS)
                return "done"
            if name == "part":
                return parts[number]
            if name == "next":
                return worker_index, next(position)
            if name == "big":
                return np.zeros(arguments[0], np.uint8)
            return worker_index, arguments

        return compute


class BrokenJob:
    def start(self, worker_index: int, worker_count: int) -> Any:
        raise LookupError("no data here")


def payload(value: Any) -> Payload:
    return pack(array_pickling.dumps_by_value(value))


def open_fleet(cluster: ThreadCluster, job: Any = None, **options: Any) -> Fleet:
    chosen = {"count": 2, "max_bytes": 1 << 30, "first_delay": 0.001} | options
    return Fleet(cluster, FleetOptions(**chosen), payload(job or Worker()), ([], {}))


@pytest.fixture
def cluster():
    gates.clear()
    return ThreadCluster()


@pytest.fixture
def fleet(cluster):
    fleet = open_fleet(cluster)
    yield fleet
    for gate in gates.values():
        gate.set()
    fleet.close()
    assert not cluster.live


def gate(name: str) -> threading.Event:
    gates[name], gates[f"{name} started"] = threading.Event(), threading.Event()
    return gates[name]


def submit(fleet: Fleet, *task: Any, affinity: int | None = None) -> Any:
    return fleet.submit(Submit(payload(task), affinity))


def value(future: Any) -> Any:
    reply = Reply(*future.result(SECONDS))
    assert reply.outcome is TaskOutcome.VALUE, reply
    return unpack(reply.content)


def loss(future: Any) -> ActorLoss:
    reply = Reply(*future.result(SECONDS))
    assert reply.outcome is TaskOutcome.LOST, reply
    return ActorLoss(*reply.content)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def unless_lost(fleet: Fleet, *task: Any, affinity: int | None = None) -> Any:
    """Submit a task until it is not lost; each actor can be lost once."""
    while True:
        future = submit(fleet, *task, affinity=affinity)
        if Reply(*future.result(SECONDS)).outcome is not TaskOutcome.LOST:
            return value(future)


def test_tasks_are_computed_and_replies_tell_the_capacity(fleet):
    futures = [submit(fleet, 0, "echo", i) for i in range(20)]
    assert [value(future)[1] for future in futures] == [[i] for i in range(20)]
    assert all(1 <= future.result().capacity <= 2 for future in futures)


def test_results_are_writable_copies_outside_of_the_store(fleet):
    big = value(submit(fleet, 0, "big", 100_000))
    big[:] = 1
    assert big.sum() == 100_000


def test_an_affinity_stays_on_one_actor_in_order(fleet):
    futures = [submit(fleet, 0, "next", affinity=5) for _ in range(10)]
    found = [value(future) for future in futures]
    assert len({worker for worker, _ in found}) == 1
    assert [position for _, position in found] == list(range(10))


def test_the_computed_task_of_a_lost_actor_is_reported_and_queued_ones_move(cluster):
    fleet = open_fleet(cluster, count=1)
    gate("a")
    started = submit(fleet, 0, "wait", "a")
    behind = [submit(fleet, 0, "echo", i) for i in range(4)]
    assert gates["a started"].wait(SECONDS)
    cluster.live[0].kill()
    assert loss(started).started
    assert [value(future) for future in behind] == [(0, [i]) for i in range(4)]
    assert fleet.losses == 1
    gates["a"].set()
    fleet.close()


def test_no_task_is_blamed_for_actors_that_were_gone_before(cluster):
    fleet = open_fleet(cluster, count=4, trust_seconds=0.02)
    # No task yet, so no actor is called between its start and its end.
    wait_until(lambda: fleet.capacity == 4 and fleet.silent_seconds > 0.05)
    for actor in list(cluster.live.values()):
        actor.kill()
    futures = [submit(fleet, 0, "echo", i) for i in range(8)]
    assert [value(future)[1] for future in futures] == [[i] for i in range(8)]
    wait_until(lambda: fleet.losses == 4)  # All were called for the first task.
    fleet.close()


def test_all_tasks_of_a_lost_affinity_are_reported(fleet, cluster):
    gate("a")
    first = submit(fleet, 0, "wait", "a", affinity=3)
    second = submit(fleet, 0, "next", affinity=3)
    assert gates["a started"].wait(SECONDS)
    next(actor for actor in cluster.live.values() if "run" in actor.calls).kill()
    assert (loss(first).started, loss(second).started) == (True, False)
    assert value(submit(fleet, 0, "next", affinity=3))[1] == 0


def test_an_affinity_lost_without_a_task_reports_its_next_task(fleet, cluster):
    assert value(submit(fleet, 0, "next", affinity=3))[1] == 0
    bound = [index for index, actor in cluster.live.items() if "run" in actor.calls]
    cluster.live[bound[0]].kill()
    # The loss is noticed with the next message, at the latest.
    loss(submit(fleet, 0, "next", affinity=3))
    assert value(submit(fleet, 0, "next", affinity=3))[1] == 0


def test_definitions_reach_all_actors_and_their_replacements(fleet, cluster):
    value(submit(fleet, 0, "echo"))
    fleet.define(Definition(7, b"seven"))
    fleet.define(Definition(8, b"eight", affinity=8))
    assert [value(submit(fleet, 7, "part")) for _ in range(8)] == [b"seven"] * 8
    assert value(submit(fleet, 8, "part", affinity=8)) == b"eight"
    for actor in list(cluster.live.values()):
        actor.kill()
    loss(submit(fleet, 8, "part", affinity=8))
    assert unless_lost(fleet, 8, "part", affinity=8) == b"eight"
    assert [unless_lost(fleet, 7, "part") for _ in range(8)] == [b"seven"] * 8
    fleet.release(7)
    reply = Reply(*submit(fleet, 7, "part").result(SECONDS))
    assert isinstance(rebuild(ErrorReport(*reply.content)), KeyError)


def test_the_error_of_a_definition_is_that_of_its_tasks(fleet):
    fleet.define(Definition(7, b"broken"))
    reply = Reply(*submit(fleet, 7, "part").result(SECONDS))
    assert reply.outcome is TaskOutcome.ERROR
    assert str(rebuild(ErrorReport(*reply.content))) == "broken part"
    assert value(submit(fleet, 6, "echo")) is not None


def test_an_error_of_the_job_is_the_error_of_every_task(cluster):
    fleet = open_fleet(cluster, BrokenJob())
    for _ in range(2):
        reply = Reply(*submit(fleet, 0, "echo").result(SECONDS))
        assert isinstance(rebuild(ErrorReport(*reply.content)), LookupError)
    fleet.close()


def test_actors_that_never_start_are_an_error_after_some_attempts(cluster):
    cluster.stillborn = True
    fleet = open_fleet(cluster, count=1, start_failures=2)
    reply = Reply(*submit(fleet, 0, "echo").result(SECONDS))
    assert "3 Ray actors in a row were lost" in str(rebuild(ErrorReport(*reply.content)))
    assert len(cluster.started) == 3
    fleet.close()


def test_tasks_of_a_node_that_does_not_answer_move(cluster, monkeypatch):
    nodes = iter(["a", "b", "c"])
    monkeypatch.setattr("grain_ray.worker_actor.node_address", lambda: next(nodes))
    fleet = open_fleet(cluster, count=2)
    wait_until(lambda: fleet.capacity == 2)
    gate("one"), gate("two")
    futures = [submit(fleet, 0, "wait", name) for name in ("one", "two")]
    for name in ("one", "two"):
        assert gates[f"{name} started"].wait(SECONDS)
    assert fleet.silent_nodes().keys() == {"a", "b"}
    fleet.lose_node("a")
    wait_until(lambda: fleet.silent_nodes().keys() == {"b"})
    for name in ("one", "two"):
        gates[name].set()
    assert [value(future) for future in futures] == ["done", "done"]
    assert fleet.losses == 1
    fleet.close()


def test_a_start_that_blocks_does_not_block_the_watch(cluster, monkeypatch):
    monkeypatch.setattr("grain_ray.worker_actor.node_address", lambda: "a")
    fleet = open_fleet(cluster, count=2)
    wait_until(lambda: fleet.capacity == 2)
    gate("task"), gate("start")
    blocked = submit(fleet, 0, "wait", "task")
    assert gates["task started"].wait(SECONDS)
    start = cluster.start

    def slow_start(*arguments: Any) -> Any:
        gates["start started"].set()
        assert gates["start"].wait(SECONDS)
        return start(*arguments)

    monkeypatch.setattr(cluster, "start", slow_start)
    threading.Thread(target=fleet.resize, args=(3,)).start()
    assert gates["start started"].wait(SECONDS)
    assert fleet.silent_nodes().keys() == {"a"}
    fleet.lose_node("b")
    for name in ("start", "task"):
        gates[name].set()
    assert value(blocked) == "done"
    fleet.close()


@pytest.mark.parametrize("trust_seconds", [0.0, 60.0])
def test_a_cluster_that_was_replaced_is_no_error_of_tasks(trust_seconds):
    """Neither if the loss of its actor is found by a probe, nor if it is found by the task itself."""
    gone = threading.Event()
    fleet = open_fleet(ThreadCluster(is_gone=gone.is_set), count=1, trust_seconds=trust_seconds)
    assert value(submit(fleet, 0, "echo", 1))[1] == [1]
    assert not fleet.gone.is_set()
    gone.set()
    outstanding = submit(fleet, 0, "echo", 2)
    assert fleet.gone.wait(SECONDS)
    fleet.resize(1)  # Takes the lock: the loss was handled.
    assert not outstanding.done()  # A new gateway will compute it.
    fleet.close()


def test_an_actor_computes_while_its_last_result_is_copied(cluster, monkeypatch):
    copying, copied = gate("copy started"), gate("copied")

    def slow_own(*arguments: Any) -> Payload:
        copying.set()
        assert copied.wait(SECONDS)
        return own(*arguments)

    monkeypatch.setattr("grain_ray.fleet.own", slow_own)
    fleet = open_fleet(cluster, count=1, depth=1)
    gate("next")
    first = submit(fleet, 0, "echo", 1)
    second = submit(fleet, 0, "wait", "next")
    assert copying.wait(SECONDS)
    assert gates["next started"].wait(SECONDS)
    assert not first.done()
    copied.set()
    gates["next"].set()
    assert value(first)[1] == [1]
    assert value(second) == "done"
    fleet.close()


def test_a_cancelled_task_is_skipped(cluster):
    fleet = open_fleet(cluster, count=1)
    gate("a")
    running = submit(fleet, 0, "wait", "a")
    assert gates["a started"].wait(SECONDS)
    queued = [submit(fleet, 0, "next") for _ in range(6)]
    for future in queued[3:]:
        assert future.cancel()
    gates["a"].set()
    assert value(running) == "done"
    assert [value(future)[1] for future in queued[:3]] == [0, 1, 2]
    assert value(submit(fleet, 0, "next"))[1] == 3
    fleet.close()


def test_large_results_are_computed_one_at_a_time(cluster):
    fleet = open_fleet(cluster, count=4, max_bytes=150_000)
    value(submit(fleet, 0, "big", 100_000))  # Now the size is known.
    for name in "abc":
        gate(name)
    futures = [submit(fleet, 0, "wait", name) for name in "abc"]
    assert gates["a started"].wait(SECONDS)
    assert not gates["b started"].is_set()
    for name in "abc":
        gates[name].set()
    assert [value(future) for future in futures] == ["done"] * 3
    fleet.close()


def test_growing_adds_actors_and_shrinking_lets_them_finish(fleet, cluster):
    fleet.resize(4)
    while fleet.capacity < 4:
        value(submit(fleet, 0, "echo"))
    for name in "abcd":
        gate(name)
    futures = [submit(fleet, 0, "wait", name) for name in "abcd"]
    assert all(gates[f"{name} started"].wait(SECONDS) for name in "abcd")
    fleet.resize(1)
    for name in "abcd":
        gates[name].set()
    assert [value(future) for future in futures] == ["done"] * 4
    assert value(submit(fleet, 0, "echo")) is not None
    assert len(cluster.live) == 1 == fleet.capacity


def test_the_index_of_a_lost_actor_is_used_again(fleet, cluster):
    value(submit(fleet, 0, "echo"))
    cluster.live[1].kill()
    Reply(*submit(fleet, 0, "next", affinity=1).result(SECONDS))
    fleet.resize(3)
    value(submit(fleet, 0, "echo"))
    assert set(cluster.live) <= {0, 1, 2}
