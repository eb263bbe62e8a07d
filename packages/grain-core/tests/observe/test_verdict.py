"""The verdict names the bottleneck that statistics contain."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from grain.observe.statistics import PipelineStatistics, WaitStatistics

from .planted import MODES, Node, planted_statistics
from .sample_statistics import sample_statistics

SOURCE = Node("source", 0.2)
SHUFFLE = Node("shuffle", 0.05)
BATCH = Node("batch", 0.1)

# The nodes of each pipeline, the kind of verdict by mode, the node that is found, further arguments.
PLANTED: dict[str, tuple[list[Node], Any, int | None, dict[str, Any]]] = {
    "slow read": ([Node("source", 9.0), SHUFFLE, Node("map", 0.5, "f"), BATCH], "source", 0, {}),
    "slow map": ([SOURCE, SHUFFLE, Node("map", 9.0, "decode"), BATCH], "transform", 2, {}),
    "slow random_map": (
        [SOURCE, SHUFFLE, Node("random_map", 9.0, "crop"), BATCH],
        "transform",
        2,
        {},
    ),
    "slow filter": (
        [SOURCE, Node("filter", 9.0, "keep", dropped=500), BATCH],
        "filter",
        1,
        {},
    ),
    "expensive batch": ([SOURCE, Node("map", 0.5, "f"), Node("batch", 9.0)], "batching", 2, {}),
    "packing": ([SOURCE, Node("map", 0.5, "f"), Node("pack", 9.0)], "packing", 2, {}),
    "transport": (
        [SOURCE, Node("map", 0.5, "f"), Node("mp_prefetch", 0.5)],
        {"workers": "transport"},
        2,
        {"transport_seconds": 6.0},
    ),
    "one slow worker": (
        [SOURCE, Node("map", 9.0, "decode"), BATCH],
        {"workers": "skewed_worker"},
        None,
        {"skew": (1.0, 8.0)},
    ),
    "interpreter lock": (
        [SOURCE, Node("map", 9.0, "decode", cpu=0.5), BATCH],
        {"inline": "transform", "threads": "gil", "workers": "transform"},
        1,
        {},
    ),
    "slow consumer": (
        [SOURCE, Node("map", 0.2, "f"), BATCH],
        "consumer",
        None,
        {"consumer_seconds": 30.0},
    ),
    "device transfer": ([SOURCE, BATCH, Node("device_put", 9.0)], "device", 2, {}),
    "starved mixture": (
        [
            Node("source", 0.1, parents=(), elements=400),
            Node("source", 9.0, parents=(), elements=200),
            Node("source", 0.1, parents=(), elements=400),
            Node("mix", 0.1, parents=(0, 1, 2)),
            Node("batch", 0.1),
        ],
        "mixture",
        1,
        {},
    ),
}


def planted_cases() -> list[Any]:
    cases = []
    for name, (nodes, kinds, number, options) in PLANTED.items():
        for mode in MODES:
            kind = kinds if isinstance(kinds, str) else kinds.get(mode)
            if kind is not None:
                cases.append(pytest.param(nodes, mode, kind, number, options, id=f"{name}-{mode}"))
    return cases


@pytest.mark.parametrize(("nodes", "mode", "kind", "number", "options"), planted_cases())
def test_a_planted_bottleneck_is_named(nodes, mode, kind, number, options):
    stats = planted_statistics(nodes, mode, **options)
    verdict = stats.verdict
    assert (verdict.kind, verdict.node) == (kind, number)
    assert verdict.advice
    assert verdict.advice in verdict.sentence
    assert 0 < verdict.share <= 1
    assert 1 <= verdict.headroom <= 100
    if number is not None and nodes[number].function is not None:
        assert f"`{nodes[number].function}`" in verdict.sentence
    assert PipelineStatistics.from_json(stats.to_json()).verdict == verdict


def test_twelve_bottlenecks_are_planted():
    assert len(PLANTED) == 12


def test_the_sentence_says_what_one_more_worker_gives():
    verdict = sample_statistics(processors=8).verdict
    assert (verdict.kind, verdict.node) == ("transform", 2)
    assert verdict.share == pytest.approx(17.4 / (2 * 9.9))
    assert "`decode` takes 88 % of worker time" in verdict.sentence
    assert "one more worker would give about 1.5x" in verdict.sentence


def test_no_worker_is_advised_where_all_processors_are_used():
    assert "2 workers on 2 processors" in sample_statistics(processors=2).verdict.advice


def test_the_gain_of_workers_is_bounded_by_what_the_consumer_does():
    nodes = [SOURCE, Node("map", 6.0, "decode"), BATCH]
    stats = planted_statistics(nodes, "inline", consumer_seconds=5.0, bytes=1000)
    verdict = stats.verdict
    # Eleven seconds become five: the consumer's own time remains.
    assert (
        "`to_iter_dataset().mp_prefetch(num_workers=2)` would give about 2.3x" in verdict.sentence
    )
    assert verdict.headroom == pytest.approx(11.3 / 5.3)


def test_no_gain_exceeds_the_share_of_the_time_that_is_removed():
    nodes = [SOURCE, Node("map", 4.5, "decode"), Node("batch", 3.0)]
    stats = planted_statistics(nodes, "workers", bytes=1000)
    # The workers also have times in which they neither compute nor send.
    idle = dataclasses.replace(stats, wait=WaitStatistics(count=999, total_seconds=10.0))
    verdict = idle.verdict
    assert verdict.node == 1
    assert verdict.headroom == pytest.approx(1 / (1 - verdict.share))


def test_workers_that_lose_their_processor_between_operations_compute_what_they_compute():
    nodes = [SOURCE, Node("map", 4.0, "decode", cpu=0.9), Node("batch", 0.4)]
    stats = planted_statistics(nodes, "workers", bytes=1000)
    assert stats.verdict.share == pytest.approx(4.0 / 4.6)
    workers = tuple(
        dataclasses.replace(worker, busy_seconds=2 * worker.busy_seconds)
        for worker in stats.workers
    )
    assert dataclasses.replace(stats, workers=workers).verdict.share == pytest.approx(4.0 / 4.6)


def test_workers_that_lose_their_processor_still_send_more_than_they_compute():
    nodes = [SOURCE, Node("map", 1.0, "f", cpu=0.9), Node("mp_prefetch", 0.5)]
    stats = planted_statistics(nodes, "workers", transport_seconds=2.0)
    workers = tuple(
        dataclasses.replace(worker, busy_seconds=10 * worker.busy_seconds)
        for worker in stats.workers
    )
    assert dataclasses.replace(stats, workers=workers).verdict.kind == "transport"


@pytest.mark.parametrize(
    ("wait", "words"), [(1.0, "about 20 times as many"), (0.01, "more than 100 times as many")]
)
def test_how_much_faster_the_consumer_could_be_served(wait, words):
    stats = planted_statistics([SOURCE, BATCH], "inline", consumer_seconds=20 - wait)
    waits = WaitStatistics(count=999, total_seconds=wait)
    sentence = dataclasses.replace(stats, wait=waits).verdict.sentence
    assert f"could deliver {words} elements" in sentence


def test_a_filter_that_wastes_the_work_below_it_is_mentioned():
    nodes = [SOURCE, Node("map", 9.0, "decode"), Node("filter", 0.1, "keep", 900, dropped=8100)]
    nodes[2] = dataclasses.replace(nodes[2], parents=None, elements=900)
    verdict = planted_statistics(nodes, "inline").verdict
    assert verdict.kind == "transform"
    assert "`keep` drops 90 % of these elements later: filter first" in verdict.advice


def test_threads_that_use_several_processors_do_not_contend_for_the_lock():
    nodes = [SOURCE, Node("map", 9.0, "decode", cpu=0.98), BATCH]
    assert planted_statistics(nodes, "threads").verdict.kind == "transform"


def test_threads_on_a_busy_machine_contend_for_the_lock_with_less_processor_time():
    nodes = [SOURCE, Node("map", 9.0, "decode", cpu=0.15), BATCH]
    assert planted_statistics(nodes, "threads").verdict.kind == "transform"
    busy = planted_statistics(nodes, "threads", load_average=48.0)
    assert busy.verdict.kind == "gil"
    # Threads that mostly wait for something else are not mistaken for these.
    nodes[1] = Node("map", 9.0, "decode", cpu=0.08)
    assert planted_statistics(nodes, "threads", load_average=48.0).verdict.kind == "transform"


def test_elements_handed_out_one_by_one_are_no_fault_of_an_operation():
    nodes = [Node("source", 0.002), Node("to_iter_dataset", 0.05)]
    verdict = planted_statistics(nodes, "inline", consumer_seconds=0.001).verdict
    assert verdict.kind == "iteration"
    assert "No operation of yours limits it" in verdict.sentence
    assert "`batch` before it" in verdict.advice
    batched = [Node("source", 0.002), Node("batch", 0.01), Node("to_iter_dataset", 0.05)]
    verdict = planted_statistics(batched, "inline", consumer_seconds=0.001).verdict
    assert verdict.kind == "iteration"
    assert "Larger batches" in verdict.advice


def test_the_first_tasks_of_a_worker_do_not_make_it_a_slow_one():
    nodes = [SOURCE, Node("map", 9.0, "decode"), BATCH]
    slow = planted_statistics(nodes, "workers", skew=(1.0, 8.0))
    assert slow.verdict.kind == "skewed_worker"
    short = [dataclasses.replace(node, seconds=node.seconds / 1000) for node in nodes]
    assert planted_statistics(short, "workers", skew=(1.0, 8.0)).verdict.kind != "skewed_worker"


def test_the_start_of_threads_is_not_mistaken_for_handing_out_elements():
    nodes = [SOURCE, Node("map", 0.7, "decode"), BATCH, Node("to_iter_dataset", 0.9)]
    stats = planted_statistics(nodes, "threads")
    boundary = dataclasses.replace(stats.nodes[3], location="consumer")
    workers = [
        dataclasses.replace(worker, node_seconds={**worker.node_seconds, 3: 0.0})
        for worker in stats.workers
    ]
    changed = dataclasses.replace(stats, nodes=(*stats.nodes[:3], boundary), workers=tuple(workers))
    assert (changed.verdict.kind, changed.verdict.node) == ("transform", 1)


def test_workers_are_not_advised_where_sending_costs_more_than_computing():
    nodes = [Node("range", 0.002), Node("map", 0.006, "f"), Node("to_iter_dataset", 0.001)]
    verdict = planted_statistics(nodes, "inline", consumer_seconds=0.0, bytes=8000).verdict
    assert (verdict.kind, verdict.node) == ("transform", 1)
    assert "mp_prefetch" not in verdict.advice
    assert "batch more elements at a time" in verdict.advice
    assert "at 9.01 us each" in verdict.advice


def test_the_advice_for_a_loader_names_its_arguments():
    records = Node("DataLoader.records", 9.0)
    assert (
        "`DataLoader(read_options=" in planted_statistics([records, BATCH], "inline").verdict.advice
    )
    nodes = [Node("DataLoader.records", 0.1), Node("map", 9.0, "decode"), BATCH]
    verdict = planted_statistics(nodes, "inline", bytes=1000).verdict
    assert "`DataLoader(worker_count=2)` would give about 2.0x" in verdict.advice


def test_large_factors_are_written_in_full():
    nodes = [Node("source", 0.2), Node("map", 9.0, "decode")]
    sentence = planted_statistics(nodes, "inline", consumer_seconds=0.0).verdict.sentence
    assert "would be about 46x" in sentence


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"elements": 0}, "No element was measured"),
        ({"nodes": ()}, "No element was measured"),
        ({"wait": WaitStatistics(warm_up_count=1)}, "Only the first element"),
    ],
)
def test_too_little_is_said_to_be_too_little(changes, finding):
    verdict = sample_statistics(**changes).verdict
    assert verdict.kind == "unknown"
    assert finding in str(verdict)


def test_nodes_without_time_have_no_verdict():
    stats = sample_statistics()
    nodes = tuple(dataclasses.replace(node, self_seconds=0.0) for node in stats.nodes)
    assert dataclasses.replace(stats, nodes=nodes, workers=()).verdict.kind == "unknown"
