"""What is measured of pipelines: counts are exact with every executor, and times are consistent."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
from typing import Any

import numpy as np
import pytest

import grain

from ..helpers.pipelines import INLINE, with_workers

M = grain.MapDataset
EXECUTORS = (None, "inline", "threads", "processes")


def as_row(x: Any) -> Any:
    return np.full(8, x)


def is_third(x: Any) -> bool:
    return bool(x[0] % 3 == 0)


def in_mode(ds: grain.IterDataset, executor: str | None) -> grain.IterDataset:
    return ds if executor is None else with_workers(ds, 2, executor=executor)


def by_operation(stats: Any) -> dict[str, Any]:
    return {node.operation: node for node in stats.nodes}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_elements_are_counted_at_every_node(executor):
    ds = M.range(90).shuffle(seed=1).map(as_row).to_iter_dataset(INLINE).filter(is_third).batch(5)
    with grain.observing(), iter(in_mode(ds, executor)) as iterator:
        assert len(list(iterator)) == 6
        stats = iterator.stats()
    nodes = by_operation(stats)
    assert nodes["range"].elements_out == nodes["map"].elements_out == 90
    assert nodes["to_iter_dataset"].elements_out == 90
    assert (nodes["filter"].elements_in, nodes["filter"].elements_out) == (90, 30)
    assert nodes["filter"].dropped == 60
    assert (nodes["batch"].elements_in, nodes["batch"].elements_out) == (30, 6)
    assert nodes["map"].function == "as_row"
    assert nodes["map"].bytes_out == 90 * 64
    assert stats.elements == 6
    assert stats.bytes == 30 * 64
    assert stats.epoch == 1


@pytest.mark.parametrize("executor", EXECUTORS)
def test_elements_that_a_map_dataset_filters_out_are_dropped(executor):
    ds = M.range(90).map(as_row).filter(is_third).map(np.sum).to_iter_dataset(INLINE)
    with grain.observing(), iter(in_mode(ds, executor)) as iterator:
        assert len(list(iterator)) == 30
        nodes = iterator.stats().nodes
    counts = [(node.operation, node.elements_out, node.dropped) for node in nodes[:5]]
    assert counts == [
        ("range", 90, 0),
        ("map", 90, 0),
        ("filter", 30, 60),
        ("map", 30, 0),
        ("to_iter_dataset", 30, 0),
    ]


@pytest.mark.parametrize(
    "answer",
    [bool, np.bool_, int, lambda is_kept: is_kept * 1000, lambda is_kept: "kept" * is_kept, float],
    ids=["bool", "numpy", "int", "large", "text", "float"],
)
def test_answers_of_a_filter_of_any_kind_are_counted(answer):
    ds = M.range(90).filter(lambda x: x % 2 == 0).filter(lambda x: answer(x % 3 == 0))
    with grain.observing(), iter(ds.to_iter_dataset(INLINE)) as iterator:
        assert len(list(iterator)) == 15
        nodes = iterator.stats().nodes
    assert [(node.elements_out, node.dropped) for node in nodes[1:3]] == [(45, 45), (15, 30)]


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_workers_are_measured(executor):
    ds = M.range(64).map(as_row).to_iter_dataset(INLINE).batch(2)
    with grain.observing(trace=True), iter(in_mode(ds, executor)) as iterator:
        assert len(list(iterator)) == 32
        stats = iterator.stats()
    assert stats.executor == executor
    assert {worker.kind for worker in stats.workers} == {
        "process" if executor == "processes" else "thread"
    }
    assert all(worker.busy_seconds > 0 and worker.tasks for worker in stats.workers)
    if executor == "processes":
        assert sum(worker.elements for worker in stats.workers) == 32
        assert by_operation(stats)["map"].location == "workers"
        assert {span.track for span in stats.spans} <= {"consumer", "worker 0", "worker 1"}
    assert stats.spans
    assert list(stats.spans) == sorted(stats.spans, key=lambda span: span.start)


def test_without_tracing_there_are_no_spans():
    with grain.observing(), iter(M.range(9)) as iterator:
        list(iterator)
        assert iterator.stats().spans == ()


def exit_once(x: int, flag: str) -> int:
    if x == 20 and not os.path.exists(flag):
        pathlib.Path(flag).touch()
        os._exit(3)
    return x


class ExitOnce(grain.transforms.Map):
    """A function that ends its process, the first time."""

    def __init__(self, flag: str):
        self._flag = flag

    def map(self, element: int) -> int:
        return exit_once(element, self._flag)


@pytest.mark.filterwarnings("ignore:Worker .* was lost")
def test_a_worker_that_is_replaced_is_counted(tmp_path: pathlib.Path):
    ds = M.range(400).map(ExitOnce(str(tmp_path / "flag"))).to_iter_dataset(INLINE)
    with grain.observing(), iter(with_workers(ds, 1, executor="processes")) as iterator:
        assert list(iterator) == list(range(400))
        stats = iterator.stats()
    assert [worker.restarts for worker in stats.workers] == [1]
    assert stats.elements == 400


def test_a_state_that_is_set_starts_another_warm_up():
    ds = M.range(40).to_iter_dataset(INLINE).batch(4)
    with grain.observing(), iter(ds) as iterator:
        next(iterator)
        state = iterator.get_state()
        next(iterator)
        iterator.set_state(state)
        assert next(iterator).tolist() == [4, 5, 6, 7]
        stats = iterator.stats()
    assert stats.wait.warm_up_count == 2
    assert stats.elements == 3


def test_datasets_that_an_interleave_opens_share_their_nodes():
    files = [M.range(number, number + 6).map(as_row) for number in (0, 10, 20, 30)]
    ds = grain.experimental.InterleaveIterDataset(files, cycle_length=2)
    for found in (ds, with_workers(ds, 2, executor="processes")):
        with grain.observing(), iter(found) as iterator:
            assert len(list(iterator)) == 24
            stats = iterator.stats()
        nodes = by_operation(stats)
        assert nodes["map"].elements_out == nodes["range"].elements_out == 24
        (interleave,) = [node for node in stats.nodes if "nterleave" in node.operation]
        assert nodes["to_iter_dataset"].id in interleave.parents


def test_components_of_a_mixture_are_measured_apart():
    parts = [M.range(100).map(as_row), M.range(100)]
    with grain.observing(), iter(M.mix(parts, [1, 3]).to_iter_dataset(INLINE)) as iterator:
        for _ in range(40):
            next(iterator)
        stats = iterator.stats()
    mix = next(node for node in stats.nodes if node.operation == "mix")
    first, second = (stats.node(parent) for parent in mix.parents)
    assert (first.operation, second.operation) == ("map", "range")
    assert second.elements_out == pytest.approx(3 * first.elements_out, rel=0.2)


class Doubled(M):
    """A map dataset that a user wrote."""

    def __len__(self) -> int:
        return len(self._parent)

    def __getitem__(self, index: Any) -> Any:
        return 2 * self._parent[index]


class DoubledInBulk(Doubled):
    """One that reads many elements at once."""

    def __getitems__(self, indices: Any) -> Any:
        return [2 * element for element in self._parent.__getitems__(indices)]


@pytest.mark.parametrize("kind", [Doubled, DoubledInBulk])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_classes_of_users_are_measured(kind, executor):
    ds = kind(kind(M.range(30))).to_iter_dataset(INLINE)
    with grain.observing(), iter(in_mode(ds, executor)) as iterator:
        assert list(iterator) == [4 * number for number in range(30)]
        stats = iterator.stats()
    assert [node.elements_out for node in stats.nodes[:3]] == [30, 30, 30]
    assert stats.nodes[1].operation == kind.__name__


def test_the_time_of_nodes_adds_up_to_less_than_the_elapsed_time():
    ds = M.range(3000).shuffle(seed=1).map(as_row).batch(10).to_iter_dataset(INLINE)
    with grain.observing(), iter(ds) as iterator:
        list(iterator)
        stats = iterator.stats()
    assert 0 < sum(node.self_seconds for node in stats.nodes) <= stats.elapsed_seconds
    assert 0 < stats.setup_seconds < stats.elapsed_seconds
    assert stats.wait.p50 <= stats.wait.p95 <= stats.wait.p99 <= stats.wait.longest


def test_statistics_can_be_pickled_and_written_as_json():
    with grain.observing(trace=True), iter(M.range(30).map(as_row).batch(3)) as iterator:
        list(iterator)
        stats = iterator.stats()
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert json.loads(stats.to_json())["elements"] == 10


def test_an_empty_dataset_has_statistics():
    with grain.observing(), iter(M.range(0).map(as_row).to_iter_dataset()) as iterator:
        assert list(iterator) == []
        stats = iterator.stats()
    assert (stats.elements, stats.verdict.kind) == (0, "unknown")
    assert "No element was measured" in str(stats)


def test_a_huge_dataset_is_not_read():
    ds = M.range(10**12).shuffle(seed=1).map(as_row).batch(10).to_iter_dataset(INLINE)
    with grain.observing(), iter(ds) as iterator:
        next(iterator)
        stats = iterator.stats()
    assert stats.nodes[0].length == 10**12
    assert stats.nodes[0].elements_out < 10**6


def lines() -> Any:
    yield from range(60)


def test_a_stream_runs_in_one_worker():
    ds = grain.IterDataset.from_iterable(lines).map(as_row).batch(4)
    with grain.observing(), iter(with_workers(ds, 2, executor="processes")) as iterator:
        assert len(list(iterator)) == 15
        stats = iterator.stats()
    assert by_operation(stats)["map"].location == "stream"
    assert by_operation(stats)["map"].elements_out == 60
    assert len(stats.workers) == 1


def test_each_prefetching_node_has_its_own_workers():
    parts = [M.range(12).map(as_row).to_iter_dataset(INLINE) for _ in range(2)]
    ds = parts[0].mp_prefetch(num_workers=1).zip(parts[1].mp_prefetch(num_workers=1))
    with grain.observing(), iter(ds) as iterator:
        assert len(list(iterator)) == 12
        stats = iterator.stats()
    waits = [
        node.wait_for_parent_seconds for node in stats.nodes if node.operation == "mp_prefetch"
    ]
    assert len(waits) == 2
    assert all(seconds > 0 for seconds in waits)


def test_a_mixture_of_thousands_is_observed():
    ds = M.mix([M.range(5).map(abs) for _ in range(2000)]).to_iter_dataset(INLINE).batch(50)
    with grain.observing(), iter(ds) as iterator:
        next(iterator)
        stats = iterator.stats()
    assert len(stats.nodes) == 4003
    seen: set[int] = set()
    for node in stats.nodes:
        assert seen.issuperset(node.parents)
        seen.add(node.id)
    assert stats.nodes[-1].operation == "batch"
