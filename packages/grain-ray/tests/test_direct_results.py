"""Results that actors write into the consumer's shared memory, through a gateway; some actors are killed.

The first part has actors that are processes of this machine, without Ray; the second part a Ray cluster.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain
import grain_ray
from grain.execution.processes.error_report import TaskLost
from grain.memory import allocation
from grain_ray.fleet import FleetOptions
from grain_ray.ray_executor import RayExecutor
from grain_ray.ray_pool import PoolOptions, RayPool
from grain_ray.slot_lender import SUPPORTED

from .ray_clusters.process_cluster import ProcessCluster

everything = pytest.mark.skipif(
    os.environ.get("GRAIN_RAY") is None, reason="takes minutes; `nox -s ray` runs it"
)
pytestmark = [
    pytest.mark.skipif(not SUPPORTED, reason="this system cannot pass unnamed memory"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("ray"),
]

MB = 1 << 20
SECONDS = 120


def slots_mapped() -> int:
    """Return the number of mappings of slots in this process."""
    return pathlib.Path("/proc/self/maps").read_text().count("/memfd:grain")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def ends(pid: int) -> bool:
    """Return whether a process has ended, also if its parent has not taken notice."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rsplit(")", 1)[1].split()[0] in "ZX"


def once(marker: str) -> bool:
    """Return True for the first caller in any process."""
    with contextlib.suppress(FileExistsError):
        pathlib.Path(marker).touch(exist_ok=False)
        return True
    return False


class Worker:
    """A job that writes large arrays, and ends its process on request."""

    def start(self, worker_index: int, worker_count: int) -> Any:
        kept: list[Any] = []

        def compute(task: Any) -> Any:
            _, name, *arguments = task
            if name == "process":
                return os.getpid(), slots_mapped()
            number, marker = arguments
            array = allocation.allocate((4, MB), np.uint8)
            array[:2] = 255  # Not the result: only a part of it is written yet.
            if name == "killed" and once(marker):
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "fails" and once(marker):
                raise LookupError(marker)
            array[:] = number
            if name == "keeps":
                kept.append(array)
            # One array in a slot, a view of it, one elsewhere, a small one; one that is read-only.
            constant = np.full(2 * MB, number, np.uint8)
            constant.flags.writeable = False
            return array, array[1], np.full(MB, number, np.uint8), np.full(9, number), constant

        return compute


def open_pool(cluster: ProcessCluster | None = None, **options: Any) -> RayPool:
    chosen: dict[str, Any] = {"count": 2, "max_bytes": 64 * MB} | options
    pool_options = PoolOptions(
        join=cluster or ProcessCluster(),
        fleet=FleetOptions(**chosen),
        costs=RayExecutor().costs,
        min_workers=2,
        max_workers=2,
        first_delay=0.01,
        max_delay=0.1,
    )
    return RayPool(Worker(), pool_options)


def compute(pool: RayPool, *task: Any) -> Any:
    while True:
        with contextlib.suppress(TaskLost):
            return pool.result(pool.submit((0, *task)))


def assert_equal(result: Any, number: int) -> None:
    assert [(array == number).all() for array in result] == [True] * 5
    assert [array.flags.writeable for array in result] == [True] * 4 + [False]


def actors_of(pool: RayPool) -> dict[int, int]:
    """Return the number of slots that each actor maps, by its process id."""
    found: dict[int, int] = {}
    while len(found) < 2:
        tickets = [pool.submit((0, "process")) for _ in range(8)]
        found |= dict(pool.result(ticket) for ticket in tickets)
    return found


def test_actors_of_this_machine_write_into_the_memory_of_the_consumer():
    before = slots_mapped()
    with open_pool() as pool:
        for number in range(30):
            result = compute(pool, "array", number, "")
            assert_equal(result, number)
            for array in result[:4]:
                array += 1  # Writable, and the next result is not affected.
        assert any(actors_of(pool).values())
        kept = compute(pool, "array", 7, "")
        actors = list(actors_of(pool))
    assert_equal(kept, 7)  # It outlives the pool.
    del result, array, kept
    assert slots_mapped() == before
    wait_until(lambda: all(map(ends, actors)))


def test_actors_elsewhere_send_their_results_through_the_cluster():
    with open_pool(ProcessCluster(local=1)) as pool:
        while sorted(map(bool, actors_of(pool).values())) != [False, True]:
            tickets = [pool.submit((0, "array", number, "")) for number in range(20)]
            for number, ticket in enumerate(tickets):
                assert_equal(pool.result(ticket), number)


def test_an_actor_killed_in_the_middle_of_a_write_delivers_nothing_of_it(tmp_path):
    """Its slots are reclaimed: there is room for a few results only, and the kills are many more."""
    with open_pool(max_bytes=32 * MB) as pool:
        held = compute(pool, "array", 99, "")
        for kill in range(8):
            marker = str(tmp_path / f"killed-{kill}")
            names = ["array", "killed", "array", "array"]
            tickets = [pool.submit((0, name, i, marker)) for i, name in enumerate(names)]
            for number, ticket in enumerate(tickets):
                if number == 1:
                    with pytest.raises(TaskLost) as caught:
                        pool.result(ticket)
                    assert caught.value.started
                else:
                    assert_equal(pool.result(ticket), number)
            assert_equal(compute(pool, "killed", 5, marker), 5)
        while not any(actors_of(pool).values()):  # The replacements write there too.
            assert_equal(compute(pool, "array", 6, ""), 6)
        assert_equal(held, 99)


def test_what_a_failed_task_has_written_is_free_again(tmp_path):
    with open_pool(count=1, max_bytes=24 * MB) as pool:
        for attempt in range(12):
            with pytest.raises(LookupError):
                pool.result(pool.submit((0, "fails", 1, str(tmp_path / f"failed-{attempt}"))))
        assert_equal(compute(pool, "array", 3, ""), 3)
        _, mapped = compute(pool, "process")
        assert 1 <= mapped <= 12


def test_results_go_on_when_all_slots_are_in_use():
    with open_pool(max_bytes=24 * MB) as pool:
        results = [compute(pool, "array", number, "") for number in range(20)]  # All are kept.
        for number, result in enumerate(results):
            assert_equal(result, number)


def test_an_actor_that_keeps_what_it_has_sent_affects_no_other_result():
    with open_pool(count=1, max_bytes=48 * MB) as pool:
        results = [compute(pool, "keeps", number, "") for number in range(6)]
        for number, result in enumerate(results):
            assert_equal(result, number)


@pytest.mark.filterwarnings("ignore:The gateway:RuntimeWarning")
def test_a_killed_gateway_leaves_neither_memory_nor_processes():
    files = set(os.listdir("/dev/shm"))
    before = slots_mapped()
    with open_pool() as pool:
        held = compute(pool, "array", 4, "")
        actors, gateway = list(actors_of(pool)), pool.gateway_pid
        assert gateway is not None
        os.kill(gateway, signal.SIGKILL)
        assert_equal(compute(pool, "array", 5, ""), 5)
        assert_equal(held, 4)
        wait_until(lambda: all(map(ends, [gateway, *actors])))
    del held
    assert slots_mapped() == before
    assert {name for name in os.listdir("/dev/shm") if "grain" in name} <= files


# On a Ray cluster


def image(x: int) -> tuple[np.ndarray, int, int]:
    return np.full((64, 64, 64), x, np.float32), os.getpid(), slots_mapped()


def batches(function: Any = image) -> grain.IterDataset:
    return grain.MapDataset.range(160).shuffle(2).map(function).batch(8).to_iter_dataset()


def on_ray(ds: grain.IterDataset, cluster: Any, **options: Any) -> grain.IterDataset:
    executor = grain_ray.RayExecutor(address=cluster.address, num_workers=2, **options)
    return ds.mp_prefetch(grain.MultiprocessingOptions(executor=executor))


def assert_same(ds: grain.IterDataset, cluster: Any, **options: Any) -> tuple[set[int], bool]:
    """Compare a stream with that of one process; return its processes, and whether they mapped slots."""
    pids: set[int] = set()
    direct = False
    with iter(batches()) as alone, iter(on_ray(ds, cluster, **options)) as found:
        for one, other in itertools.zip_longest(alone, found):
            np.testing.assert_array_equal(other[0], one[0])
            other[0][:] = -1  # Writable, and no later element is affected.
            assert alone.get_state() == found.get_state()
            pids |= set(other[1].tolist())
            direct = direct or bool(other[2].any())
    return pids, direct


def test_ray_actors_of_this_machine_write_into_the_memory_of_the_consumer(cluster):
    pids, direct = assert_same(batches(), cluster)
    assert direct
    wait_until(lambda: all(map(ends, pids)))


@everything
def test_ray_actors_on_other_nodes_send_their_results_through_the_store(cluster):
    added = cluster.do("add")
    try:
        there = {"resources": {"added": 1}}
        assert not assert_same(batches(), cluster, ray_remote_args=there)[1]
        spread = {"scheduling_strategy": "SPREAD"}
        assert len(assert_same(batches(), cluster, ray_remote_args=spread)[0]) == 2
    finally:
        cluster.do(f"kill {added}")


@everything
@pytest.mark.filterwarnings("ignore:Worker:RuntimeWarning")
def test_a_ray_actor_killed_in_the_middle_of_a_batch_changes_nothing(cluster, tmp_path):
    killed = str(tmp_path / "killed")

    def killed_once(x: int) -> Any:
        if x == 77 and once(killed):  # One kill: two at one block would be an error.
            os.kill(os.getpid(), signal.SIGKILL)
        return image(x)

    pids, direct = assert_same(batches(killed_once), cluster)
    assert direct
    assert os.path.exists(killed)
    wait_until(lambda: all(map(ends, pids)))


@everything
@pytest.mark.filterwarnings("ignore:The gateway:RuntimeWarning")
def test_a_killed_gateway_on_ray_leaves_neither_memory_nor_processes(cluster):
    pool: RayPool = RayExecutor(address=cluster.address, num_workers=2).open(Worker())
    with pool:
        assert_equal(compute(pool, "array", 4, ""), 4)
        actors, gateway = list(actors_of(pool)), pool.gateway_pid
        assert gateway is not None
        os.kill(gateway, signal.SIGKILL)
        wait_until(lambda: all(map(ends, [gateway, *actors])))
        assert_equal(compute(pool, "array", 5, ""), 5)
