"""Tests of pipelines over a source, shared by every plugin: one stream and one state with every executor.

A test module has a fixture `source` and a subclass of `PipelinesOverASource` that names a function of
its records; of `ColumnsOverASource`, too, if the source has columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

import grain


def in_processes(dataset):
    return dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))


def loader(source, worker_count):
    return grain.DataLoader(
        data_source=source,
        sampler=grain.samplers.IndexSampler(len(source), shuffle=True, num_epochs=2, seed=7),
        operations=[grain.transforms.Batch(5)],
        worker_count=worker_count,
    )


def plain(element):
    return repr(element)


def steps(dataset):
    """Return all elements, and the states before the first and after each."""
    with iter(dataset) as iterator:
        return steps_of(iterator)


def steps_of(iterator):
    states = [iterator.get_state()]
    elements = []
    for element in iterator:
        elements.append(plain(element))
        states.append(iterator.get_state())
    return elements, states


def from_each(iterator, states):
    """Return the elements after each state, all restored by one iterator, which keeps its workers."""
    elements = []
    for state in states:
        iterator.set_state(state)
        elements.append([plain(element) for element in iterator])
    return elements


def rests(elements):
    """Return the remaining elements after each step, the last included."""
    return [elements[step:] for step in range(len(elements) + 1)]


def resumed(dataset, state):
    with iter(dataset) as iterator:
        iterator.set_state(state)
        return [plain(element) for element in iterator]


class PipelinesOverASource:
    """Tests of a dataset and a loader; `function` maps a record to what is batched."""

    function: ClassVar[Callable[[Any], Any]]

    def batches(self, source, **mapped):
        function = type(self).function
        dataset = grain.MapDataset.source(source).shuffle(seed=3).map(function).batch(5).repeat(2)
        return dataset.to_iter_dataset(**mapped)

    def test_a_dataset_has_one_stream_and_resumes_at_every_step(self, source):
        elements, states = steps(
            self.batches(source, read_options=grain.ReadOptions(num_threads=0))
        )
        assert len(elements) == 2 * -(-len(source) // 5)
        threads = self.batches(source, read_options=grain.ReadOptions(num_threads=3))
        assert steps(threads) == (elements, states)
        for step, state in enumerate(states):
            assert resumed(threads, json.loads(json.dumps(state))) == elements[step:]

    def test_processes_compute_the_same_stream_and_resume_at_every_step(self, source):
        elements, states = steps(self.batches(source))
        with iter(in_processes(self.batches(source))) as iterator:
            assert steps_of(iterator) == (elements, states)
            assert from_each(iterator, states) == rests(elements)

    def test_a_loader_has_one_stream_and_resumes_at_every_step(self, source):
        elements, states = steps(loader(source, 0))
        for step, state in enumerate(states):
            assert resumed(loader(source, 0), state) == elements[step:]

    def test_a_loader_with_workers_resumes_at_every_step_of_one_without_and_the_reverse(
        self, source
    ):
        elements, states = steps(loader(source, 0))
        with iter(loader(source, 2)) as iterator:
            parallel, parallel_states = steps_of(iterator)
            assert parallel == elements
            assert from_each(iterator, states) == rests(elements)
            assert from_each(iterator, parallel_states) == rests(elements)
        assert [resumed(loader(source, 0), state) for state in parallel_states] == rests(elements)


class ColumnsOverASource:
    """Tests of sources with columns: batches are the same with and without them."""

    def test_batches_from_columns_equal_batches_of_elements(self, source):
        elements = grain.MapDataset.source(source)
        for dataset in (elements.shuffle(seed=3), elements[::2], elements.repeat(2)):
            columns = dataset.batch(5)
            rows = dataset.map(lambda element: element).batch(5)
            assert [plain(columns[i]) for i in range(len(columns))] == [plain(b) for b in rows]


def expect_refused(state, source):
    """Assert that a loader over `source` refuses a state of a loader over other data."""
    with pytest.raises(ValueError, match="data source"):
        resumed(loader(source, 0), state)
