"""Pipelines on a Ray cluster: the stream, the states and the errors of one process."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from typing import Any

import numpy as np
import pytest

import grain
import grain_ray

# The pipelines of the core's tests, each of a shape that workers treat differently.
pipelines: Any = importlib.import_module("packages.grain-core.tests.execution.pipelines")
helpers: Any = importlib.import_module("packages.grain-core.tests.helpers.pipelines")

everything = pytest.mark.skipif(
    os.environ.get("GRAIN_RAY") is None, reason="takes minutes; `nox -s ray` runs it"
)
pytestmark = [
    pytest.mark.filterwarnings("ignore:Transformation"),
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("ray"),
]


def on_ray(dataset: grain.IterDataset, cluster: Any, **options: Any) -> grain.IterDataset:
    chosen = {"num_workers": 2, "address": cluster.address} | options
    executor = grain_ray.RayExecutor(**chosen)
    return dataset.mp_prefetch(grain.MultiprocessingOptions(executor=executor))


def journey(iterator: Any, jumps: list[int]) -> list[Any]:
    seen: list[Any] = [helpers.through_json(iterator.get_state()), *helpers.steps(iterator)]
    states = [seen[0], *(state for *_, state in seen[1:])]
    for jump in jumps:
        iterator.set_state(states[jump % len(states)])
        seen.append(helpers.through_json(iterator.get_state()))
        seen += [helpers.step(iterator) for _ in range(3)]
    return seen


def assert_same(build: Any, cluster: Any, jumps: list[int]) -> None:
    with iter(build()) as alone:
        expected = journey(alone, jumps)
    with iter(on_ray(build(), cluster)) as iterator:
        found = journey(iterator, jumps)
    for number, (one, other) in enumerate(itertools.zip_longest(expected, found)):
        assert other == one, f"step {number} of {len(expected)}"


def with_process(x: Any) -> Any:
    return np.full(50_000, x), os.getpid()


def test_a_pipeline_on_a_cluster_is_that_of_one_process(cluster):
    ds = grain.MapDataset.range(60).shuffle(3).map(with_process).to_iter_dataset()
    expected = [element[0] for element, _ in zip(ds, range(60), strict=True)]
    states = []
    with iter(on_ray(ds, cluster)) as iterator:
        pids = set()
        for element, (found, pid) in zip(expected, iterator, strict=True):
            np.testing.assert_array_equal(found, element)
            found += 1  # Writable, as everywhere.
            pids.add(pid)
            states.append(iterator.get_state())
    assert os.getpid() not in pids
    # The state restores without the cluster.
    with iter(ds) as alone:
        alone.set_state(states[29])
        np.testing.assert_array_equal(next(alone)[0], expected[30])


def with_node(x: Any) -> Any:
    ray = sys.modules.get("ray")  # Only actors have it.
    return np.full(10, x), ray.get_runtime_context().get_node_id() if ray is not None else ""


@everything
def test_a_state_moves_between_clusters_of_any_size_and_machines_without_one(cluster):
    elements = grain.MapDataset.range(400).shuffle(7).map(with_node).to_iter_dataset()
    ds = elements.filter(lambda element: element[0][0] % 5 > 0).batch(4, batch_fn=list)
    with iter(ds) as alone:
        expected = [([x[0].tolist() for x in batch], alone.get_state()) for batch in alone]
    processes = ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
    found: list[Any] = []
    places: list[set[str]] = []
    state = None

    def go_on(dataset: grain.IterDataset, count: int) -> None:
        nonlocal state
        with iter(dataset) as iterator:
            if state is not None:
                iterator.set_state(state)
            places.append(set())
            for batch in itertools.islice(iterator, count):
                state = helpers.through_json(iterator.get_state())
                found.append(([x[0].tolist() for x in batch], state))
                places[-1] |= {place for _, place in batch}

    go_on(on_ray(ds, cluster), 10)
    go_on(ds, 10)
    second = cluster.do("add")
    try:
        there = {"resources": {"added": 1}}
        go_on(on_ray(ds, cluster, num_workers=3, ray_remote_args=there), 30)
    finally:
        cluster.do(f"kill {second}")
    go_on(processes, 10)
    go_on(on_ray(ds, cluster), 100)
    assert found == expected
    head, alone, added, local, again = places
    assert alone == local == {""}
    assert len(head) == len(added) == 1
    assert head == again != added


@everything
@pytest.mark.parametrize("name", pipelines.PIPELINES)
def test_every_pipeline_gives_the_same_on_a_cluster(name, cluster):
    assert_same(pipelines.PIPELINES[name], cluster, jumps=[3, 0, 8, 1000])


@everything
@pytest.mark.parametrize("name", pipelines.FAILING)
def test_what_fails_is_followed_by_the_same_on_a_cluster(name, cluster):
    assert_same(pipelines.FAILING[name], cluster, jumps=[5, 2])


@everything
def test_the_executor_is_found_by_its_name(cluster, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    options = grain.MultiprocessingOptions(num_workers=2, executor="ray")
    ds = grain.MapDataset.range(20).map(with_process).to_iter_dataset().mp_prefetch(options)
    with iter(ds) as iterator:
        assert [element[0] for element, _ in iterator] == list(range(20))
