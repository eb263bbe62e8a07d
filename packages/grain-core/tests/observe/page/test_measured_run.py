"""Pages with measurements: of a bounded run, of given statistics, of a loader, and while a loop runs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import threading
import urllib.request
import warnings

import numpy as np
import pytest

import grain
from grain.dataset import same_epoch
from grain.observe.page.measured_run import measured
from grain.observe.statistics import PipelineStatistics, WaitStatistics

from ..sample_statistics import sample_statistics


def double(x):
    return {"x": np.float32(x) * 2}


def fails_late(x):
    if x == 5:
        raise ValueError("element five")
    return x


def test_a_page_has_the_statistics_of_a_run():
    ds = grain.MapDataset.range(50).map(double).to_iter_dataset().batch(5)
    page = ds.visualize(max_seconds=60)
    stats = page.content.statistics
    assert stats.elements == 10
    counts = {node.name: stats.node(node.id).elements_out for node in page.content.nodes}
    assert counts == {"range(50)": 50, "map(double)": 50, "to_iter_dataset()": 50, "batch(5)": 10}
    assert "Measured: 10 elements" in page.html
    assert stats.verdict.sentence.split("`")[0] in page.text


def test_given_statistics_are_shown_and_nothing_is_run():
    calls: list[int] = []
    ds = grain.MapDataset.range(5).map(lambda x: calls.append(x) or x)
    page = ds.visualize(statistics=sample_statistics(), samples=0)
    assert page.content.statistics == sample_statistics()
    assert calls == []
    assert page.content.title == "train"


def test_without_measuring_only_the_samples_are_read():
    calls: list[int] = []
    ds = grain.MapDataset.range(50).map(lambda x: calls.append(x) or x)
    page = ds.visualize(measure=False, samples=2)
    assert page.content.statistics is None
    assert calls == [0, 1]


def test_an_error_ends_the_measurement_and_is_shown():
    page = grain.MapDataset.range(50).map(fails_late).to_iter_dataset().visualize(max_seconds=60)
    assert page.content.statistics.elements == 5
    assert "ended with an error: ValueError: element five" in page.html


def test_the_run_is_bounded_in_time():
    times = itertools.count()
    endless = grain.MapDataset.range(3).repeat()
    stats, problem = measured(endless, 10.0, clock=lambda: float(next(times)))
    assert problem == ""
    assert stats.elements == 11


def test_an_interrupt_ends_the_measurement_and_closes_the_iterator():
    closed: list[bool] = []

    class Interrupting(grain.DatasetIterator):
        def __next__(self):
            raise KeyboardInterrupt

        def close(self):
            closed.append(True)
            super().close()

        def get_state(self):
            return {}

        def set_state(self, state):
            pass

    class Source(grain.IterDataset):
        def __iter__(self):
            return Interrupting()

    with pytest.raises(KeyboardInterrupt):
        Source().visualize()
    assert closed


def test_an_empty_dataset_has_a_page():
    page = grain.MapDataset.source([]).visualize(max_seconds=60)
    assert page.content.statistics.elements == 0
    assert "No element was measured" in page.html


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_has_a_page_and_a_view_in_notebooks(workers):
    loader = grain.load(list(range(12)), num_epochs=1, batch_size=3, worker_count=workers)
    page = loader.visualize(max_seconds=60)
    assert page.content.statistics.elements == 4
    # Without workers, reading may start threads where it is slow.
    executors = ("processes",) if workers else ("inline", "threads")
    assert page.content.statistics.executor in executors
    assert "batch" in loader._repr_html_()


def test_threads_and_workers_end_with_the_measurement():
    before = set(threading.enumerate())
    ds = grain.MapDataset.range(1000).map(double).to_iter_dataset().mp_prefetch(num_workers=1)
    stats, _ = measured(ds, 60.0)
    assert stats.elements == 1000
    assert stats.workers
    assert {t for t in set(threading.enumerate()) - before if not t.daemon} == set()


def test_a_live_page_shows_iterators_of_its_block_while_they_run(capsys):
    with grain.observe.live(name="train") as server:
        iterator = iter(grain.MapDataset.range(50).map(double).to_iter_dataset())
        for _ in range(20):
            next(iterator)
        with urllib.request.urlopen(f"{server.url}data.json", timeout=60) as answer:
            data = json.load(answer)
        with urllib.request.urlopen(server.url, timeout=60) as answer:
            page = answer.read().decode()
    assert server.url in capsys.readouterr().err
    assert ">20<" in data["parts"]["tiles"]
    assert "<h1>train</h1>" in page
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(server.url, timeout=60)


def test_a_live_page_has_the_names_of_components():
    parts = {"web": grain.MapDataset.range(5), "code": grain.MapDataset.range(5).map(str)}
    ds = grain.MapDataset.mix(parts, {"web": 1, "code": 1}).to_iter_dataset()
    with grain.observe.live(announce=False) as server:
        list(ds)
        with urllib.request.urlopen(server.url, timeout=60) as answer:
            page = answer.read().decode()
    assert ">web</span>" in page
    assert ">code</span>" in page


def test_of_many_iterators_of_a_block_the_last_are_shown():
    with grain.observe.live(announce=False) as server:
        for _ in range(12):
            list(grain.MapDataset.range(2))
        with urllib.request.urlopen(server.url, timeout=60) as answer:
            page = answer.read().decode()
    assert page.count('href="?pipeline=') == 8


def test_states_and_elements_are_those_without_a_live_page():
    ds = grain.MapDataset.range(20).shuffle(seed=1).to_iter_dataset().batch(3)
    expected = [element.tolist() for element in ds]
    with grain.observe.live(announce=False):
        iterator = iter(ds)
        first = next(iterator)
        state = iterator.get_state()
    assert [first.tolist(), *(e.tolist() for e in iterator)] == expected
    other = iter(ds)
    other.set_state(state)
    assert [element.tolist() for element in other] == expected[1:]


def test_datasets_that_a_node_opens_are_branches_of_it():
    parts = grain.MapDataset.range(3).map(lambda i: grain.MapDataset.range(4).to_iter_dataset())
    ds = grain.experimental.InterleaveIterDataset(parts, cycle_length=2).batch(2)
    page = ds.visualize(max_seconds=60)
    nodes = page.content.nodes
    assert nodes[-1].name == "batch(2)"
    (interleave,) = [node for node in nodes if node.name.startswith("Interleave")]
    opened = {node.id: node for node in nodes}[interleave.parents[0]]
    assert opened.name == "to_iter_dataset()"
    for name in ("range(4)", "to_iter_dataset()", "batch(2)"):
        assert name in page.text


def test_a_class_of_the_user_has_its_name_with_and_without_measurement():
    class Own(grain.IterDataset):
        def __iter__(self):
            return iter(self._parent)

    ds = Own(grain.MapDataset.range(4).to_iter_dataset()).map(str)
    for page in (ds.visualize(max_seconds=60), ds.visualize(measure=False)):
        assert [node.name for node in page.content.nodes][2].endswith("Own")
        assert len(page.content.samples) == 4


def test_of_a_mixture_of_many_components_those_that_are_shown_are_sampled():
    parts = [grain.MapDataset.range(4).map(double) for _ in range(300)]
    ds = grain.MapDataset.mix(parts, [1] * 300).to_iter_dataset()
    page = ds.visualize(max_seconds=60)
    assert [node.name for node in page.content.nodes][-2:] == ["mix()", "to_iter_dataset()"]
    assert len(page.content.nodes) == 602
    # Five components, one more if it limits the mixture, the mixture and its iteration.
    assert len(page.content.samples) in (2 * 5 + 2, 2 * 6 + 2)
    assert len(page.text.splitlines()) < 60


@pytest.mark.parametrize("slow", ["map", "to_iter_dataset"])
def test_the_iteration_over_a_map_dataset_is_shown_only_if_it_limits(slow):
    ds = grain.MapDataset.range(50).map(double)
    stats = measured(ds, 60.0)[0]
    assert [node.operation for node in stats.nodes] == ["range", "map", "to_iter_dataset"]
    nodes = tuple(
        dataclasses.replace(
            node,
            self_seconds=float(node.operation == slow),
            cpu_seconds=None,
            location="consumer",
            wait_for_parent_seconds=0.0,
        )
        for node in stats.nodes
    )
    wait = WaitStatistics(count=50_000, total_seconds=1.0, p50=2e-5, p95=2e-5, p99=2e-5)
    given = PipelineStatistics(nodes=nodes, wait=wait, elements=50, elapsed_seconds=1.0)
    content = ds.visualize(statistics=given).content
    names = [node.name for node in content.nodes]
    assert ("to_iter_dataset()" in names) == (slow == "to_iter_dataset")
    assert content.bottleneck == (1 if slow == "map" else 2)
    assert len(content.samples[content.nodes[-1].id]) == 3


@pytest.mark.parametrize("look", ["visualize", "diagnose"])
def test_a_look_at_a_shuffled_dataset_is_not_an_epoch_of_it(look):
    same_epoch.forget()
    for ds in (
        grain.MapDataset.range(9).shuffle(seed=1),
        grain.MapDataset.range(9).shuffle(seed=1).to_iter_dataset().batch(2),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if look == "visualize":
                ds.visualize(max_seconds=60)
                ds.visualize(max_seconds=60)
            else:
                grain.diagnose(ds, file=None)
            assert len(list(ds)) == len(ds)
    with pytest.warns(UserWarning, match="read to its end before"):
        list(ds)
    same_epoch.forget()
