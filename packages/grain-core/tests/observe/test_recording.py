"""Frames and counters of threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import grain
from grain.observe.recording import WAIT, NodeCounters, Recorders

from ..helpers.pipelines import INLINE


def call(recorders: Recorders, node: int, inside: tuple[int, ...] = (), returned: int = 1) -> None:
    recorder = recorders.current()
    frame = recorder.open(node)
    for other in inside:
        call(recorders, other)
    recorder.close(frame, returned)


def test_the_time_of_a_frame_is_not_the_time_of_those_outside():
    recorders = Recorders("nested")
    for _ in range(3):
        call(recorders, 1, inside=(0, 0))
    totals = recorders.totals()
    assert (totals[0].calls, totals[1].calls) == (6, 3)
    assert totals[1].received == 6
    recorder = recorders.current()
    assert recorder.busy == totals[0].working + totals[1].working


def test_a_method_that_calls_another_one_of_its_node_counts_once():
    recorders = Recorders("same")
    call(recorders, 2, inside=(2, 2), returned=5)
    totals = recorders.totals()
    assert (totals[2].calls, totals[2].returned) == (1, 5)


def test_waiting_is_not_being_busy():
    recorders = Recorders("waiting")
    recorder = recorders.current()
    frame = recorder.open(0)
    recorder.close(frame, 1, WAIT)
    assert recorder.busy == 0
    assert recorders.totals()[0].waiting > 0
    assert recorders.totals()[0].working == 0


def test_elements_kept_back_are_not_dropped():
    recorders = Recorders("kept")
    recorder = recorders.current()
    for received, returned in ((10, 2), (0, 3)):
        frame = recorder.open(0)
        recorder.received = received
        recorder.close(frame, returned, drops=True)
    assert recorders.totals()[0].dropped == 5


def add_growth(totals: dict[int, NodeCounters], recorders: Recorders) -> None:
    for node, values in recorders.growth().items():
        totals.setdefault(node, NodeCounters()).add(values)


def test_growth_is_what_was_added_since():
    recorders = Recorders("growth")
    totals: dict[int, NodeCounters] = {}
    for calls in (1, 2, 6):
        for _ in range(calls):
            call(recorders, 0, returned=3)
        add_growth(totals, recorders)
    assert recorders.growth() == {}
    assert totals[0].values() == recorders.totals()[0].values()
    assert totals[0].returned == 27


def test_threads_that_have_ended_are_counted_as_one():
    recorders = Recorders("threads", max_spans=10)
    totals: dict[int, NodeCounters] = {}
    for _ in range(200):
        thread = threading.Thread(target=call, args=(recorders, 0))
        thread.start()
        thread.join()
        add_growth(totals, recorders)
    assert len(recorders.threads) <= 65
    assert recorders.totals()[0].calls == 200
    assert totals[0].values() == recorders.totals()[0].values()
    assert sum(recorder.tasks for recorder in recorders.threads) == 200


def test_an_interrupt_leaves_no_frame_open():
    ds = grain.MapDataset.range(20).map(abs).to_iter_dataset(INLINE)
    with grain.observing() as observation:
        iterator = iter(ds)
    recorder = observation.recorders[0].recorders.current()
    recorder.open(0)  # As an interrupt leaves it.
    assert list(iterator) == list(range(20))
    assert recorder.node is None
    assert iterator.stats().nodes[0].elements_out == 20


def test_the_most_recent_spans_are_kept():
    recorders = Recorders("spans", max_spans=3)
    for node in range(5):
        call(recorders, node)
    assert [span.node for _, span in recorders.take_spans()] == [2, 3, 4]
    assert recorders.take_spans() == []


@pytest.mark.parametrize("is_filtered", [False, True], ids=["batched", "filtered"])
def test_frames_on_a_timeline_and_brief_ones_count_the_same(is_filtered):
    def counted(trace: bool) -> list[tuple[str, int, int, int]]:
        ds = grain.MapDataset.range(400).shuffle(1).map(lambda i: np.full(40_000, i))
        ds = ds.filter(lambda image: image[0] % 2 == 0) if is_filtered else ds.batch(50)
        with grain.observing(trace=trace), iter(ds.to_iter_dataset(INLINE)) as iterator:
            assert len(list(iterator)) == (200 if is_filtered else 8)
            nodes = iterator.stats().nodes
        return [(node.name, node.elements_in, node.elements_out, node.dropped) for node in nodes]

    assert counted(trace=False) == counted(trace=True)
