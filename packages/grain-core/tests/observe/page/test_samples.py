"""Sample elements: read of every node, without workers, within a limit of time."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

import grain
from grain.observe.page.page_graph import ordered_nodes
from grain.observe.page.samples import read_samples


def samples(ds, count=3, max_seconds=60.0, **options):
    return read_samples(ordered_nodes(ds), count, max_seconds, **options)


def with_process(x):
    return (int(x), os.getpid())


def fails(x):
    raise ValueError(f"bad {x}")


def test_each_node_has_its_first_elements():
    ds = grain.MapDataset.range(10).map(lambda x: x * 10).batch(2).to_iter_dataset()
    found = samples(ds, 2)
    values = {n: [np.asarray(s.element).tolist() for s in each] for n, each in found.items()}
    assert values == {0: [0, 1], 1: [0, 10], 2: [[0, 10], [20, 30]], 3: [[0, 10], [20, 30]]}
    assert [s.position for s in found[0]] == [0, 1]


@pytest.mark.parametrize("above", [False, True])
def test_no_worker_is_started(above):
    ds = grain.MapDataset.range(10).map(with_process).to_iter_dataset().mp_prefetch(num_workers=2)
    if above:
        ds = ds.map(lambda pair: pair)
    found = samples(ds)
    assert {s.element[1] for each in (found[1], found[3]) for s in each} == {os.getpid()}
    assert [s.element[0] for s in found[len(found) - 1]] == [0, 1, 2]


def test_elements_that_a_filter_dropped_are_passed_over():
    found = samples(grain.MapDataset.range(100).filter(lambda x: x % 5 == 4))
    assert [(s.position, s.element) for s in found[1]] == [(4, 4), (9, 9), (14, 14)]
    assert 1 not in samples(grain.MapDataset.range(100).filter(lambda x: False))


def test_an_error_of_a_function_takes_the_place_of_an_element():
    found = samples(grain.MapDataset.range(3).map(fails).batch(2))
    assert [s.element for s in found[0]] == [0, 1, 2]
    assert found[1][0].error == "ValueError: bad 0"
    assert "ValueError: bad 0" in found[2][0].error
    found = samples(grain.MapDataset.range(3).to_iter_dataset().map(fails))
    assert "ValueError: bad 0" in found[2][0].error


def test_an_empty_dataset_has_no_samples():
    assert samples(grain.MapDataset.source([])) == {}
    assert samples(grain.MapDataset.source([]).to_iter_dataset()) == {}


def test_of_a_short_dataset_all_elements_are_shown():
    assert [s.element for s in samples(grain.MapDataset.range(1))[0]] == [0]
    assert [s.element for s in samples(grain.MapDataset.range(1).to_iter_dataset())[1]] == [0]


def test_an_endless_dataset_and_one_of_a_trillion_elements_are_sampled():
    assert len(samples(grain.MapDataset.range(10).repeat().shuffle(seed=1))[2]) == 3
    assert len(samples(grain.MapDataset.range(10**12).shuffle(seed=1))[1]) == 3


def test_no_samples_are_read_if_none_are_requested():
    assert samples(grain.MapDataset.range(3).map(fails), 0) == {}
    assert read_samples([], 3, 1.0) == {}


def test_the_output_is_read_first_and_the_time_is_limited():
    calls = itertools.count()
    ds = grain.MapDataset.range(10).map(str).map(str.strip)
    # The third look at the clock, after the first element, is past the limit.
    found = samples(ds, 3, 2.5, clock=lambda: float(next(calls)))
    assert list(found) == [2]
    assert len(found[2]) < 3


def test_states_and_later_passes_of_the_dataset_are_not_affected():
    ds = grain.MapDataset.range(10).shuffle(seed=1).to_iter_dataset()
    before = list(ds)
    samples(ds)
    assert list(ds) == before
