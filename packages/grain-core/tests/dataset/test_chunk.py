"""The stream and its states are the same for chunks of any size."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import grain

from ..helpers.pipelines import INLINE

mix = grain.IterDataset.mix


class CountIterator(grain.DatasetIterator):
    """An iterator as users write it: its state is valid until it is advanced again."""

    def __init__(self, stop: int):
        super().__init__()
        self.at, self.stop = 0, stop

    def __next__(self) -> int:
        if self.at >= self.stop:
            raise StopIteration
        self.at += 1
        return 1000 + self.at

    def get_state(self) -> Any:
        return {"at": self.at}

    def set_state(self, state: Any) -> None:
        self.at = state["at"]


class Count(grain.IterDataset):
    def __init__(self, stop: int):
        super().__init__()
        self.stop = stop

    def __iter__(self) -> grain.DatasetIterator:
        return CountIterator(self.stop)


class Twice(grain.experimental.FlatMapTransform):
    max_fan_out = 3

    def flat_map(self, element: int) -> list[int]:
        return [element] * (element % 3)


def ours(stop: int) -> grain.IterDataset:
    return grain.MapDataset.range(stop).to_iter_dataset(INLINE)


def some(stop: int) -> grain.IterDataset:
    return grain.MapDataset.range(stop).filter(lambda x: x % 3 != 1).to_iter_dataset(INLINE)


def draw(element: Any, rng: Any) -> Any:
    return element + int(rng.integers(100))


PIPELINES: dict[str, Callable[[], grain.IterDataset]] = {
    "ours": lambda: ours(20),
    "sparse": lambda: some(20),
    "user": lambda: Count(20),
    "map": lambda: some(20).map(lambda x: x + 1),
    "map over user": lambda: Count(20).map(lambda x: x + 1),
    "filter": lambda: some(30).filter(lambda x: x % 2),
    "filter over user": lambda: Count(30).filter(lambda x: x % 4 == 0),
    "counted": lambda: some(20).map_with_index(lambda i, x: 100 * i + x).random_map(draw, seed=1),
    "counted over user": lambda: (
        Count(20).map_with_index(lambda i, x: i + x).random_map(draw, seed=1)
    ),
    "batch": lambda: some(30).batch(4, batch_fn=list),
    "batch over user": lambda: Count(30).batch(4, batch_fn=list),
    "batch over filtered user": lambda: Count(30).filter(lambda x: x % 3).batch(4, batch_fn=list),
    "flat map": lambda: some(20).apply(Twice()),
    "flat map over user": lambda: Count(20).apply(Twice()),
    "mix": lambda: mix([ours(20), some(20)], [2, 1]),
    "mix with user": lambda: mix([ours(30), Count(20), some(30)], [3, 1, 2]),
    "mix of users": lambda: mix([Count(8), Count(9)]),
    "named mix": lambda: mix({"b": ours(20), "a": Count(9)}, {"a": 1, "b": 3}),
    "batch over mix with user": lambda: mix([ours(30), Count(20)], [5, 1]).batch(4, batch_fn=list),
    "mix over mix with user": lambda: mix([mix([ours(9), Count(9)]), ours(30)], [1, 4]),
    "flat map over mix with user": lambda: mix([ours(30), Count(20)], [4, 1]).apply(Twice()),
    "batch of batches": lambda: (
        mix([ours(30), Count(20)]).batch(2, batch_fn=list).batch(3, batch_fn=list)
    ),
}


def steps(iterator: grain.DatasetIterator) -> tuple[list[Any], list[Any]]:
    elements, states = [], [iterator.get_state()]
    for element in iterator:
        elements.append(element)
        states.append(json.loads(json.dumps(iterator.get_state())))
    return elements, states


@pytest.mark.parametrize("name", PIPELINES)
@given(limits=st.lists(st.integers(1, 9), min_size=1, max_size=5))
@example(limits=[1])
@example(limits=[1024])
@example(limits=[1, 2, 4, 8, 16])
@settings(deadline=None, max_examples=15)
def test_chunks_of_any_size_make_the_same_stream_with_the_same_states(name, limits):
    make = PIPELINES[name]
    expected, expected_states = steps(iter(make()))
    iterator = iter(make())
    elements: list[Any] = []
    states: list[Any] = [iterator.get_state()]
    pending: list[Callable[[], Any]] = []
    for number in range(10**4):
        run = iterator.next_chunk(limits[number % len(limits)])
        # The states of a chunk stay valid when the iterator advances, unless the chunk is live.
        states += [ask() for ask in pending]
        pending = []
        if not run.elements:
            break
        elements += run.elements
        asks = [run.snapshot(place) for place in range(len(run.elements))]
        if run.live:
            states += [ask() for ask in asks]
        else:
            pending = asks
    assert elements == expected
    for place, state in enumerate(states):
        fresh = iter(make())
        fresh.set_state(json.loads(json.dumps(state)))
        assert list(fresh) == expected[place:], f"restored after {place} elements"
    assert states == expected_states[: len(states)]


@pytest.mark.parametrize("name", PIPELINES)
def test_elements_taken_one_by_one_and_in_runs_may_alternate(name):
    make = PIPELINES[name]
    expected = list(make())
    iterator = iter(make())
    elements = []
    for number in range(10**4):
        if number % 2:
            run = iterator.next_chunk(3)
            elements += run.elements
            if not run.elements:
                break
        else:
            for element in iterator:
                elements.append(element)
                break
    assert elements == expected
