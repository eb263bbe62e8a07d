"""Statistics of nodes from counters of threads and workers; nothing is measured."""

from __future__ import annotations

from typing import Any

import grain
from grain.observe.observed_graph import GraphNode, in_order
from grain.observe.recording import NodeCounters, ThreadRecorder
from grain.observe.summary import Measured, node_statistics


def recorder_of(counts: dict[int, tuple[int, int]], is_consumer: bool) -> ThreadRecorder:
    """Return the recorder of a thread with the elements that each node received and returned there."""
    recorder = ThreadRecorder(0)
    recorder.is_consumer = is_consumer
    for node, (received, returned) in counts.items():
        counters = recorder.counters[node] = NodeCounters()
        counters.calls, counters.received, counters.returned = returned, received, returned
        counters.working = returned
    return recorder


def statistics_of(
    dataset: Any, consumer: dict[int, tuple[int, int]], thread: dict[int, tuple[int, int]]
) -> list[Any]:
    nodes = list(in_order(dataset))
    numbers = {id(node): number for number, node in enumerate(nodes)}
    graph = tuple(
        GraphNode(number, node, tuple(numbers[id(parent)] for parent in node.parents), False)
        for number, node in enumerate(nodes)
    )
    threads = (recorder_of(consumer, True), recorder_of(thread, False))
    local: dict[int, NodeCounters] = {}
    for recorder in threads:
        for node, counters in recorder.counters.items():
            local.setdefault(node, NodeCounters()).add(counters.values())
    measured = Measured(
        nodes=graph,
        threads=threads,
        workers={},
        local=local,
        remote={},
        capacities={},
        elapsed_seconds=1.0,
    )
    return list(node_statistics(measured))


def test_elements_that_other_threads_computed_are_received_as_well():
    ds = grain.MapDataset.range(100).map(str).to_iter_dataset()
    # The first four were read in the thread of the consumer.
    nodes = statistics_of(ds, {0: (0, 4), 1: (4, 4), 2: (4, 100)}, {0: (0, 96), 1: (96, 96)})
    assert [node.location for node in nodes] == ["threads", "threads", "consumer"]
    assert [node.elements_in for node in nodes] == [0, 100, 100]


def test_what_one_of_several_readers_received_is_not_counted():
    shared = grain.MapDataset.range(100)
    ds = grain.IterDataset.mix([shared.to_iter_dataset(), shared.to_iter_dataset()])
    nodes = statistics_of(ds, {1: (4, 50), 2: (4, 50), 3: (100, 100)}, {0: (0, 100)})
    assert [node.elements_in for node in nodes] == [0, 0, 0, 100]
