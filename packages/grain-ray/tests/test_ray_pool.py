"""The pool: gateways that are lost, reconnection, fallback, affinities. The cluster is in the gateway."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
from typing import Any

import numpy as np
import pytest

from grain.execution.processes.error_report import TaskLost
from grain.execution.processes.pool_errors import NotOutstanding, PoolClosed
from grain_ray.cluster import ClusterUnavailableError
from grain_ray.fleet import FleetOptions
from grain_ray.ray_executor import RayExecutor
from grain_ray.ray_pool import ClusterLostError, PoolOptions, RayPool

from .ray_clusters.thread_cluster import ClusterInFolder


class Worker:
    """A job that tells its process, holds parts and a position, and fails on request."""

    def start(self, worker_index: int, worker_count: int) -> Any:
        parts: dict[int, bytes] = {}
        position = iter(range(1000))

        def compute(task: Any) -> Any:
            number, name, *arguments = task
            if name == "define":
                parts[number] = arguments[0]
            elif name == "release":
                parts.pop(number, None)
            elif name == "part":
                return parts[number]
            elif name == "fail":
                raise LookupError(*arguments)
            elif name == "next":
                return next(position)
            elif name == "wait_for":
                while not os.path.exists(arguments[0]):
                    threading.Event().wait(0.005)
                return "open"
            elif name == "array":
                return np.arange(arguments[0])
            return os.getpid(), *arguments

        return compute


@pytest.fixture
def up(tmp_path) -> pathlib.Path:
    """The file whose existence means that the cluster can be joined."""
    file = tmp_path / "up"
    file.touch()
    return file


def open_pool(up: pathlib.Path, **options: Any) -> RayPool:
    chosen = {
        "join": ClusterInFolder(str(up.parent)),
        "fleet": FleetOptions(count=2, max_bytes=1 << 28),
        "costs": RayExecutor().costs,
        "min_workers": 2,
        "max_workers": 2,
        "first_delay": 0.01,
        "max_delay": 0.1,
    } | options
    return RayPool(Worker(), PoolOptions(**chosen))


def compute(pool: RayPool, *task: Any, affinity: int | None = None) -> Any:
    return pool.result(pool.submit(task, affinity=affinity))


def unless_lost(pool: RayPool, *task: Any, affinity: int | None = None) -> Any:
    while True:
        try:
            return compute(pool, *task, affinity=affinity)
        except TaskLost:
            continue


def kill_gateway(pool: RayPool) -> None:
    assert pool.gateway_pid is not None
    os.kill(pool.gateway_pid, signal.SIGKILL)


def test_tasks_are_computed_elsewhere_and_errors_are_raised_here(up):
    with open_pool(up) as pool:
        tickets = [pool.submit((0, "echo", i)) for i in range(10)]
        assert pool.wait(tickets)
        found = [pool.result(ticket) for ticket in tickets]
        assert [value for _, value in found] == list(range(10))
        assert {pid for pid, _ in found} == {pool.gateway_pid} != {os.getpid()}
        with pytest.raises(LookupError, match="nothing"):
            compute(pool, 0, "fail", "nothing")
        with pytest.raises(NotOutstanding):
            pool.result(tickets[0])
        assert pool.ready(tickets[0])
        assert 1 <= pool.capacity <= 2
    assert pool.closed
    with pytest.raises(PoolClosed):
        pool.submit((0, "echo"))
    pool.close()


def test_arrays_arrive_writable_in_shared_memory(up):
    with open_pool(up) as pool:
        array = compute(pool, 0, "array", 100_000)
    array += 1
    assert array[-1] == 100_000


def test_waiting_for_nothing_or_too_long_returns_nothing(up):
    up.unlink()
    with open_pool(up, fallback=True) as pool:
        assert pool.wait([], 0.0) == set()
    with open_pool(up) as pool:
        ticket = pool.submit((0, "echo"))
        pool.discard(ticket)
        pool.discard(ticket)
        with pytest.raises(NotOutstanding):
            pool.result(ticket)


def test_a_first_result_that_is_long_in_coming_is_explained_once(up, tmp_path):
    gate = tmp_path / "gate"
    with open_pool(up, start_warning_seconds=0.0) as pool:
        ticket = pool.submit((0, "wait_for", str(gate)))
        explained = "no room for 2 actors: .*`ray status` shows"
        with pytest.warns(RuntimeWarning, match=explained):
            assert pool.wait([ticket], 0.1) == set()
        assert pool.wait([ticket], 0.1) == set()
        gate.touch()
        assert pool.result(ticket) == "open"
    with open_pool(up, start_warning_seconds=60.0) as pool:
        assert compute(pool, 0, "echo", 1)[1] == 1


def test_a_cluster_that_was_never_there_is_an_error(up):
    up.unlink()
    with open_pool(up) as pool:
        ticket = pool.submit((0, "echo"))
        with pytest.raises(ClusterUnavailableError, match="no cluster in"):
            pool.result(ticket)
        with pytest.raises(ClusterUnavailableError, match="no cluster in"):
            pool.submit((0, "echo"))


def test_a_lost_gateway_is_replaced_with_its_definitions(up):
    with open_pool(up) as pool:
        pool.define(7, b"seven")
        pool.define(8, b"eight", affinity=8)
        pool.define(9, b"nine")
        pool.release(9)
        assert compute(pool, 7, "part") == b"seven"
        assert compute(pool, 8, "part", affinity=8) == b"eight"
        before = pool.gateway_pid
        kill_gateway(pool)
        with pytest.warns(RuntimeWarning, match="The gateway to the Ray cluster was lost"):
            assert unless_lost(pool, 7, "part") == b"seven"
        assert unless_lost(pool, 8, "part", affinity=8) == b"eight"
        with pytest.raises(KeyError):
            compute(pool, 9, "part")
        assert pool.gateway_pid not in (before, None)
        assert pool.gateway_losses == 1


def test_outstanding_tasks_of_a_lost_gateway_are_reported_as_not_started(up):
    with open_pool(up) as pool:
        compute(pool, 0, "echo")
        os.kill(pool.gateway_pid, signal.SIGSTOP)
        tickets = [pool.submit((0, "echo", i)) for i in range(3)]
        kill_gateway(pool)
        with pytest.warns(RuntimeWarning), pytest.raises(TaskLost):
            pool.result(tickets[0])
        for ticket in tickets[1:]:
            with pytest.raises(TaskLost) as caught:
                pool.result(ticket)
            assert (caught.value.ticket, caught.value.started) == (ticket, False)


def test_an_affinity_without_a_task_learns_of_the_loss_with_its_next_one(up):
    with open_pool(up) as pool:
        assert [compute(pool, 0, "next", affinity=4) for _ in range(3)] == [0, 1, 2]
        kill_gateway(pool)
        with pytest.warns(RuntimeWarning):
            assert unless_lost(pool, 0, "echo")
        with pytest.raises(TaskLost):
            compute(pool, 0, "next", affinity=4)
        assert compute(pool, 0, "next", affinity=4) == 0


def test_local_processes_compute_while_the_cluster_is_down_and_it_is_used_again(up):
    with open_pool(up, fallback=True) as pool:
        pool.define(7, b"seven")
        assert compute(pool, 0, "next", affinity=4) == 0
        up.unlink()
        kill_gateway(pool)
        with pytest.warns(RuntimeWarning, match="local worker processes will compute"):
            pid, _ = unless_lost(pool, 0, "echo", 1)
        assert pool.gateway_pid is None
        assert pid != os.getpid()
        assert compute(pool, 7, "part") == b"seven"
        assert [unless_lost(pool, 0, "next", affinity=4) for _ in range(3)] == [0, 1, 2]
        up.touch()
        while pool.gateway_pid is None:
            compute(pool, 0, "echo")
        # The position that a local worker held is gone, and that is reported.
        with pytest.raises(TaskLost):
            compute(pool, 0, "next", affinity=4)
        assert compute(pool, 0, "next", affinity=4) == 0
        assert compute(pool, 7, "part") == b"seven"


def test_with_a_fallback_a_cluster_that_was_never_there_is_a_warning(up):
    up.unlink()
    with open_pool(up, fallback=True) as pool, pytest.warns(RuntimeWarning, match="no cluster in"):
        assert unless_lost(pool, 0, "echo", 1)[1] == 1


def test_a_cluster_that_does_not_return_is_an_error_in_the_end(up):
    with open_pool(up, reconnect_seconds=0.2) as pool:
        compute(pool, 0, "echo")
        up.unlink()
        kill_gateway(pool)
        with (
            pytest.warns(RuntimeWarning, match="the cluster, when it is back"),
            pytest.raises(ClusterLostError, match="did not return within"),
        ):
            unless_lost(pool, 0, "echo")


def submit_after_the_loss(pool: RayPool) -> int:
    """Submit a task when the loss of the gateway was noticed: by submitting one, or by its result."""
    ticket = pool.submit((0, "echo", "held"))
    if pool.gateway_pid is None:
        return ticket
    with pytest.raises(TaskLost):
        pool.result(ticket)
    return pool.submit((0, "echo", "held"))


def test_a_cluster_that_was_replaced_at_its_address_is_joined_again(up):
    with open_pool(up, fleet=FleetOptions(count=2, max_bytes=1 << 28, trust_seconds=0.0)) as pool:
        before, _ = compute(pool, 0, "echo", 1)
        up.write_text("another cluster")
        with pytest.warns(RuntimeWarning, match="gateway to the Ray cluster was lost"):
            after, found = unless_lost(pool, 0, "echo", 2)
        assert found == 2
        assert after != before
        assert pool.gateway_losses == 1


def test_tasks_are_held_while_the_cluster_is_away(up):
    with open_pool(up) as pool:
        compute(pool, 0, "echo")
        up.unlink()
        kill_gateway(pool)
        with pytest.warns(RuntimeWarning, match="gateway to the Ray cluster was lost"):
            ticket = submit_after_the_loss(pool)
        assert (pool.gateway_pid, pool.capacity) == (None, 0)
        assert not pool.ready(ticket)
        assert pool.wait([ticket], 0.0) == set()
        up.touch()
        assert pool.result(ticket)[1] == "held"
        assert pool.capacity > 0
