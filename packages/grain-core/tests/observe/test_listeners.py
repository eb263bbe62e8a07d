"""Functions that are called while observed pipelines are consumed, and the list of those that exist."""

from __future__ import annotations

import gc

import pytest

import grain
from grain.observe.pipeline_recorder import recorder_of
from grain.observe.switch import live_pipelines

Map = grain.MapDataset


@pytest.mark.parametrize("ds", [Map.range(6), Map.range(6).to_iter_dataset().map(str).batch(2)])
def test_a_listener_is_called_at_the_end_of_each_pass(ds):
    with grain.observing():
        iterator = iter(ds)
    seen = []
    recorder_of(iterator).add_listener(lambda stats: seen.append(stats.elements), at_end=True)
    start = iterator.get_state()
    count = len(list(iterator))
    assert seen == [count]
    iterator.set_state(start)
    assert len(list(iterator)) == count
    assert seen == [count, 2 * count]


def test_a_listener_that_is_never_called_is_refused():
    with grain.observing():
        iterator = iter(Map.range(3))
    with pytest.raises(ValueError, match="`seconds`, `elements` or `at_end`"):
        recorder_of(iterator).add_listener(print)


def test_the_pipelines_of_the_process_are_those_whose_iterators_exist():
    gc.collect()
    before = len(live_pipelines())
    with grain.observing(name="kept"):
        first = iter(Map.range(3))
        second = iter(Map.range(4))
        next(second)
    found = live_pipelines()[before:]
    assert [stats.elements for stats in found] == [0, 1]
    assert {stats.name for stats in found} == {"kept"}
    del first, second
    gc.collect()
    assert len(live_pipelines()) == before
