"""Pipelines on clusters that lose actors, nodes and the head; `nox -s chaos_ray` runs and prints it."""

from __future__ import annotations

import collections
import os
import pathlib
import signal
import sys
import time
from typing import Any

import numpy as np
import pytest

import grain
import grain_ray

from .ray_clusters.client import ClusterClient, running_cluster
from .ray_clusters.namespaces import NodeInNamespace, missing_requirement, namespaces

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("GRAIN_RAY") != "chaos",
        reason="kills processes for minutes; `nox -s chaos_ray` runs it",
    ),
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:Worker:RuntimeWarning", "ignore:The gateway:RuntimeWarning"),
]

SECONDS = float(os.environ.get("GRAIN_CHAOS_SECONDS", "60"))
LOCAL = "a local worker process"


def slow_square(x: int) -> Any:
    """Take some milliseconds; return the result, the process to kill, and where that is."""
    until = time.perf_counter() + 0.005
    while time.perf_counter() < until:
        pass
    place = os.readlink("/proc/self/ns/net") if "ray" in sys.modules else LOCAL
    return np.full(2000, x * x), os.getpid(), place


def pipeline(count: int) -> grain.IterDataset:
    ds = grain.MapDataset.range(count).shuffle(5).map(slow_square)
    return ds.to_iter_dataset().filter(lambda element: element[0][0] % 3 > 0)


def on_ray(ds: grain.IterDataset, cluster: ClusterClient, **options: Any) -> grain.IterDataset:
    executor = grain_ray.RayExecutor(address=cluster.address, **options)
    return ds.mp_prefetch(grain.MultiprocessingOptions(executor=executor))


class Watched:
    """Compares a stream with that of one process, element by element, and times the pauses."""

    def __init__(self, cluster: ClusterClient, count: int = 10**9, **options: Any):
        numbers = grain.MapDataset.range(count).shuffle(5).map(lambda x: x * x)
        self._alone = iter(numbers.to_iter_dataset().filter(lambda x: x % 3 > 0))
        self._iterator = iter(on_ray(pipeline(count), cluster, **options))
        self.elements = 0
        self.pid = 0
        self.places: collections.Counter[str] = collections.Counter()
        self.longest = 0.0
        self.step()
        self.longest = 0.0  # Starting is not a pause.

    def step(self) -> None:
        started = time.monotonic()
        found, self.pid, place = next(self._iterator)
        self.places[place] += 1
        self.longest = max(self.longest, time.monotonic() - started)
        assert (found == next(self._alone)).all(), f"element {self.elements}"
        assert self._iterator.get_state() == self._alone.get_state()
        self.elements += 1

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.step()

    def close(self) -> None:
        self._iterator.close()


@pytest.fixture
def own_cluster(tmp_path):
    with running_cluster(tmp_path) as cluster:
        yield cluster


def test_actors_killed_every_three_seconds(own_cluster):
    watched = Watched(own_cluster, num_workers=2)
    kills, until = 0, time.monotonic() + SECONDS
    while time.monotonic() < until:
        watched.run(3)
        try:
            os.kill(watched.pid, signal.SIGKILL)
            kills += 1
        except ProcessLookupError:
            pass  # It was killed before, and its elements were still to be delivered.
    watched.run(3)
    watched.close()
    print(
        f"\nactors: {kills} killed in {SECONDS:.0f} s; {watched.elements} elements and states are exact; "
        f"longest pause {watched.longest:.1f} s"
    )
    assert kills > 0


def test_a_node_killed_as_a_whole(own_cluster):
    nodes = [own_cluster.do("add") for _ in range(2)]
    spread = {"scheduling_strategy": "SPREAD"}
    watched = Watched(own_cluster, num_workers=6, ray_remote_args=spread)
    watched.run(5)
    pauses = []
    for node in nodes:
        watched.longest = 0.0
        own_cluster.do(f"kill {node}")
        watched.run(max(10.0, SECONDS / 4))
        pauses.append(watched.longest)
    watched.close()
    print(
        f"\nnodes: {len(nodes)} of 3 killed; {watched.elements} elements and states are exact; longest "
        f"pauses {', '.join(f'{pause:.1f} s' for pause in pauses)}"
    )
    assert max(pauses) < 30


def test_nodes_in_namespaces_lose_power_and_network(tmp_path):
    missing = missing_requirement()
    if missing:
        pytest.skip(missing)
    with (
        namespaces(3, tmp_path) as (host, nodes),
        running_cluster(tmp_path, host=host) as cluster,
    ):
        for node in nodes:
            node.start(cluster.address, cpus=2)
        while cluster.do("alive") < 1 + len(nodes):
            time.sleep(0.5)
        watched = Watched(cluster, num_workers=8, ray_remote_args={"scheduling_strategy": "SPREAD"})
        while len(watched.places) < 1 + len(nodes):
            watched.step()
        watched.run(5)
        pauses = {}
        for name, node, lose in (
            ("power", nodes[0], NodeInNamespace.kill),
            ("power", nodes[1], NodeInNamespace.kill),
            ("network", nodes[2], NodeInNamespace.disconnect),
        ):
            watched.longest = 0.0
            lose(node)
            watched.run(max(45.0, SECONDS / 2))
            pauses[f"{name} of {node.address}"] = watched.longest
        watched.places.clear()
        watched.run(5)
        watched.close()
    print(
        f"\nnodes in namespaces: 3 of 4 lost; {watched.elements} elements and states are exact; longest "
        f"pauses {', '.join(f'{pause:.1f} s ({name})' for name, pause in pauses.items())}"
    )
    assert len(watched.places) == 1
    assert max(pauses.values()) < 30


def test_the_head_killed_with_a_fallback(own_cluster):
    watched = Watched(own_cluster, num_workers=2, fallback="processes")
    watched.run(5)
    watched.longest = 0.0
    own_cluster.do("kill-head")
    watched.run(max(20.0, SECONDS / 3))
    pause, local = watched.longest, watched.places[LOCAL]
    own_cluster.do("restart-head")
    watched.places.clear()
    started = time.monotonic()
    while not watched.places.keys() - {LOCAL}:
        watched.step()
    seconds = time.monotonic() - started
    watched.run(10)
    watched.close()
    print(
        f"\nhead, with local workers as a fallback: killed and restarted; {watched.elements} elements and "
        f"states are exact; longest pause {pause:.1f} s; {local} elements of local workers; the cluster "
        f"computed again {seconds:.1f} s after it was back"
    )
    assert local > 0


def test_the_head_killed_without_a_fallback(own_cluster):
    watched = Watched(own_cluster, num_workers=2)
    watched.run(5)
    own_cluster.do("kill-head")
    own_cluster.do("restart-head")
    watched.run(max(20.0, SECONDS / 3))
    watched.close()
    assert LOCAL not in watched.places
    print(
        f"\nhead, without a fallback: killed and restarted; {watched.elements} elements and states are "
        f"exact; longest pause {watched.longest:.1f} s"
    )


def big(x: int) -> np.ndarray:
    return np.full(4 << 20, x, np.uint8)


def test_a_paused_consumer_keeps_memory_within_the_budget(own_cluster):
    budget = 64 << 20
    ds = grain.MapDataset.range(10**6).map(big).to_iter_dataset()
    spilled = pathlib.Path(own_cluster.do("session"))
    with iter(on_ray(ds, own_cluster, num_workers=2, max_bytes=budget)) as iterator:
        assert next(iterator)[0] == 0
        peak, until = 0, time.monotonic() + SECONDS
        while time.monotonic() < until:
            peak = max(peak, _shared_bytes())
            time.sleep(0.5)
        assert [int(next(iterator)[0]) for _ in range(5)] == [1, 2, 3, 4, 5]
    files = [file for file in spilled.glob("ray_spilled_objects*/*") if file.is_file()]
    print(
        f"\npaused for {SECONDS:.0f} s: at most {peak >> 20} MiB of shared memory here, with a budget of "
        f"{budget >> 20} MiB; {len(files)} objects spilled"
    )
    assert not files
    assert peak <= 2 * budget  # The slots that are used, and as many that are about to be.


def _shared_bytes() -> int:
    """Return the shared memory that this process maps, which has the results."""
    status = pathlib.Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("RssShmem"))
    return int(line.split()[1]) * 1024
