"""The advice suits how the limiting node works, and its gain is worth the change."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from grain.observe.statistics import PipelineStatistics, WaitStatistics

from .planted import Node, planted_statistics

SOURCE = Node("source", 0.2)
BOUNDARY = Node("to_iter_dataset", 0.0)
BATCH = Node("batch", 0.1)


def in_workers(work: Node, **changes: Any) -> PipelineStatistics:
    """Return the statistics of two workers on two processors that compute one operation of a map dataset."""
    nodes = (
        [work, BOUNDARY, BATCH] if work.operation == "source" else [SOURCE, work, BOUNDARY, BATCH]
    )
    return planted_statistics(nodes, "workers", **{"processors": 2, "bytes": 1000, **changes})


def test_workers_that_wait_want_more_workers_than_processors_or_threads():
    advice = in_workers(Node("map", 9.0, "fetch", cpu=0.01)).verdict.advice
    assert advice.startswith("`fetch` mostly waits")
    assert "4 workers would give about 2.0x" in advice
    assert "`to_iter_dataset(grain.ReadOptions(num_threads=16))`" in advice


def test_a_source_that_waits_in_workers_wants_threads_as_well():
    verdict = in_workers(Node("source", 9.0, cpu=0.01)).verdict
    assert verdict.kind == "source"
    assert "mostly waits" in verdict.advice
    assert "`to_iter_dataset(grain.ReadOptions(num_threads=16))`" in verdict.advice


def test_a_loader_that_waits_in_workers_wants_its_own_read_options():
    nodes = [Node("DataLoader.records", 9.0, cpu=0.01), BATCH]
    advice = planted_statistics(nodes, "workers", processors=2, bytes=1000).verdict.advice
    assert "`DataLoader(read_options=grain.ReadOptions(num_threads=16))`" in advice


def test_functions_of_iter_datasets_that_wait_want_no_threads():
    nodes = [SOURCE, BOUNDARY, Node("filter", 9.0, "is_listed", cpu=0.01), BATCH]
    advice = planted_statistics(nodes, "workers", processors=2, bytes=1000).verdict.advice
    assert "4 workers would give" in advice
    assert "hreads" not in advice


def test_workers_with_threads_that_wait_want_more_of_them():
    stats = in_workers(Node("map", 9.0, "fetch", cpu=0.01))
    workers = tuple(
        dataclasses.replace(worker, node_seconds={1: 12 * worker.busy_seconds})
        for worker in stats.workers
    )
    advice = dataclasses.replace(stats, workers=workers).verdict.advice
    assert "More threads in each worker (`ReadOptions(num_threads=...)`)" in advice


@pytest.mark.parametrize(
    ("processors", "words"),
    [(2, "2 workers on 2 processors"), (1, "2 workers on 1 processor can")],
)
def test_workers_that_compute_on_all_processors_want_a_faster_function(processors, words):
    advice = in_workers(Node("map", 9.0, "decode", cpu=0.98), processors=processors).verdict.advice
    assert advice.startswith("Make `decode` faster: it computes")
    assert words in advice
    assert "would give" not in advice


def test_workers_that_wait_for_a_processor_compute():
    work = Node("map", 9.0, "decode", cpu=0.2)
    assert "mostly waits" in in_workers(work, load_average=1.0).verdict.advice
    assert "it computes" in in_workers(work, load_average=6.0).verdict.advice


def test_one_more_worker_without_a_gain_is_not_advised():
    stats = in_workers(Node("map", 9.0, "decode", cpu=0.98), processors=9)
    many = dataclasses.replace(stats, workers=stats.workers * 4)
    assert many.verdict.advice == "Make `decode` faster."
    more = dataclasses.replace(many, processors=16)
    assert "or 12 workers would give about 1.5x" in more.verdict.advice


@pytest.mark.parametrize("place", ["source", "map"])
def test_workers_are_not_advised_to_threads_where_sending_takes_as_long(place):
    work = Node(place, 2.0, "make" if place == "map" else None, cpu=0.5)
    nodes = [work, BOUNDARY] if place == "source" else [Node("range", 0.0), work, BOUNDARY]
    verdict = planted_statistics(nodes, "threads", bytes=8_000_000_000).verdict
    assert verdict.kind == "gil"
    assert "mp_prefetch" not in verdict.advice
    assert "workers would take as long to send elements of 8 MB" in verdict.advice


def test_workers_are_advised_to_threads_where_sending_costs_little():
    nodes = [SOURCE, Node("map", 9.0, "decode", cpu=0.5), BOUNDARY]
    verdict = planted_statistics(nodes, "threads", bytes=1_000_000).verdict
    assert verdict.kind == "gil"
    assert "mp_prefetch(num_workers=2)" in verdict.advice


def test_reading_that_takes_as_long_as_sending_is_not_moved_to_workers():
    nodes = [Node("source", 1.7), BOUNDARY]
    advice = planted_statistics(nodes, "inline", bytes=8_000_000_000).verdict.advice
    assert "num_threads=16" in advice
    assert "mp_prefetch" not in advice


def test_batching_is_not_advised_to_large_elements():
    nodes = [Node("range", 0.0), Node("map", 1.7, "make"), BOUNDARY]
    advice = planted_statistics(nodes, "inline", bytes=8_000_000_000).verdict.advice
    assert advice == "Make `make` faster: workers would take as long to send elements of 8 MB."


def test_the_time_of_the_consumer_is_not_the_time_to_send_elements():
    nodes = [Node("range", 0.0), Node("map", 0.24, "slow"), BOUNDARY]
    stats = planted_statistics(nodes, "inline", consumer_seconds=1.6, bytes=8000)
    verdict = stats.verdict
    assert "send" not in verdict.advice
    assert "The consumer works for 87 % of the time" in verdict.advice
    assert "would give about 1.15x" in verdict.advice
    assert "`slow` takes 100 % of the 13 % of the time that the consumer waits" in verdict.sentence


def test_the_warm_up_is_no_part_of_the_work_that_workers_would_share():
    nodes = [Node("range", 0.0), Node("map", 0.006, "slow"), BOUNDARY]
    wait = WaitStatistics(count=1, total_seconds=0.003, warm_up_count=1, warm_up_seconds=0.003)
    stats = planted_statistics(
        nodes, "inline", elements=2, bytes=64, wait=wait, consumer_seconds=0.0
    )
    assert "`to_iter_dataset" not in stats.verdict.sentence
    assert "`mp_prefetch(num_workers=2)` would give about 2.0x" in stats.verdict.advice


def test_a_second_limit_that_is_nearly_as_slow_is_named():
    nodes = [SOURCE, Node("map", 9.8, "decode", cpu=0.02), Node("pack", 9.4)]
    stats = planted_statistics([*nodes[:2], BOUNDARY, nodes[2]], "workers", bytes=1000)
    stats = dataclasses.replace(
        stats,
        workers=tuple(
            dataclasses.replace(worker, busy_seconds=9.9, node_seconds={1: 9.8})
            for worker in stats.workers
        ),
        wait=WaitStatistics(count=999, total_seconds=10.0),
    )
    verdict = stats.verdict
    assert verdict.node == 1
    assert (
        "`pack()` in the consumer's thread takes nearly as long: make both faster" in verdict.advice
    )
