"""Executor and number of workers change neither the stream, nor a state, nor whether a state restores."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.properties.pipelines import Recipe
from tests.properties.strategies import iter_recipes

import grain

from ..helpers.pipelines import step, steps, through_json, with_workers
from .pipelines import (
    FAILING,
    PIPELINES,
    AddDraw,
    AddOne,
    EndlessSampler,
    Halves,
    KeepOdd,
    odd,
    rows,
)

# A filter that keeps little is nothing to warn about here.
pytestmark = pytest.mark.filterwarnings("ignore:Transformation")

ALL_COUNTS = (1, 2, 3, 5)
EXECUTORS = ("inline", "threads", "processes")
# Workers take a while to start: the pipelines share the worker counts, unless a test names one.
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
SHARED_COUNTS = [ALL_COUNTS] if THOROUGH else [(1, 3), (2,), (5,), (2,)]


def journey(iterator: Any, jumps: list[int]) -> list[Any]:
    """All that can be seen of an iterator on its way to the end, and then from state to state."""
    seen: list[Any] = [through_json(iterator.get_state()), *steps(iterator)]
    states = [seen[0], *(state for *_, state in seen[1:])]
    for jump in jumps:
        iterator.set_state(states[jump % len(states)])
        seen.append(through_json(iterator.get_state()))
        seen += [step(iterator) for _ in range(3)]
    return seen


def assert_same(
    build: Callable[[], grain.IterDataset],
    counts: Sequence[int],
    jumps: list[int],
    executor: str = "processes",
) -> None:
    with iter(build()) as alone:
        expected = journey(alone, jumps)
    for count in counts:
        with iter(with_workers(build(), count, executor=executor)) as iterator:
            found = journey(iterator, jumps)
        for number, (one, other) in enumerate(zip(expected, found, strict=False)):
            assert other == one, f"step {number} of {len(expected)} with {count} workers"
        assert len(found) == len(expected)


def shared(table: dict[str, Any]) -> Any:
    """The names of a table, each with some counts of workers."""
    return list(zip(table, itertools.cycle(SHARED_COUNTS), strict=False))


@pytest.mark.parametrize(("name", "counts"), shared(PIPELINES))
def test_a_pipeline_gives_the_same_with_workers(name: str, counts: tuple[int, ...]) -> None:
    assert_same(PIPELINES[name], counts, jumps=[3, 0, 8, 1000])


@pytest.mark.parametrize("executor", EXECUTORS[:2])
@pytest.mark.parametrize("name", PIPELINES)
def test_a_closed_iterator_keeps_its_state(name: str, executor: str) -> None:
    build = PIPELINES[name]
    for taken in (0, 1, 3):
        with iter(build()) as alone:
            expected = [alone.get_state(), *(step(alone)[-1] for _ in range(taken))][-1]
        iterator = iter(with_workers(build(), 2, executor=executor))
        for _ in range(taken):
            next(iterator, None)
        iterator.close()
        assert through_json(iterator.get_state()) == through_json(expected)


@pytest.mark.parametrize(("name", "counts"), shared(FAILING))
def test_what_fails_is_followed_by_the_same_with_workers(
    name: str, counts: tuple[int, ...]
) -> None:
    assert any(seen[0] == "error" for seen in steps(iter(FAILING[name]())))
    assert_same(FAILING[name], counts, jumps=[5, 2])


@pytest.mark.parametrize("executor", ["inline", "threads"])
@pytest.mark.parametrize("name", [*PIPELINES, *FAILING])
def test_a_pipeline_gives_the_same_with_another_executor(name: str, executor: str) -> None:
    build = {**PIPELINES, **FAILING}[name]
    assert_same(build, (2,), jumps=[3, 0, 8, 1000], executor=executor)


def test_a_state_saved_with_one_executor_restores_with_another() -> None:
    build = PIPELINES["draws after a filter"]
    expected = steps(iter(build()))
    state = iter(build()).get_state()
    for number, executor in enumerate(itertools.islice(itertools.cycle(EXECUTORS), 6)):
        with iter(with_workers(build(), 2, executor=executor)) as iterator:
            iterator.set_state(through_json(state))
            assert step(iterator) == expected[number]
            state = iterator.get_state()


@settings(
    max_examples=200 if THOROUGH else 8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a smaller example is not worth the wait
)
@given(plan=iter_recipes(), jumps=st.lists(st.integers(0, 80), max_size=3))
def test_any_pipeline_gives_the_same_with_any_number_of_workers(
    plan: Recipe, jumps: list[int]
) -> None:
    assert_same(plan.build, ALL_COUNTS, jumps)


def test_34_rows_in_batches_of_16_with_2_workers_give_16_16_and_2() -> None:
    assert [len(b) for b in with_workers(rows(34).batch(16), 2)] == [16, 16, 2]
    assert [len(b) for b in with_workers(rows(34).batch(16, drop_remainder=True), 2)] == [16, 16]


@pytest.mark.parametrize("name", ["indices and draws", "first fit", "turns of streams"])
def test_a_state_taken_while_blocks_are_in_flight_restores_with_another_count(name: str) -> None:
    build = PIPELINES[name]
    expected = steps(iter(build()))
    with iter(with_workers(build(), 3, per_worker_buffer_size=4)) as first:
        first.start_prefetch()
        assert through_json(first.get_state()) == through_json(iter(build()).get_state())
        for seen in expected[:4]:
            assert step(first) == seen
        state = json.dumps(first.get_state())
        with iter(with_workers(build(), 2)) as second:
            second.set_state(json.loads(state))
            assert steps(second) == expected[4:]
        # The one it was taken of is none the wiser.
        assert steps(first) == expected[4:]


def test_an_iterator_goes_back_and_forth_while_blocks_are_in_flight() -> None:
    build = PIPELINES["draws after a filter"]
    expected = steps(iter(build()))
    with iter(with_workers(build(), 2, per_worker_buffer_size=8)) as iterator:
        states = [through_json(iterator.get_state()), *(state for *_, state in expected)]
        for place in [4, 0, 7, 7, 1, len(expected) - 1, 2]:
            iterator.set_state(states[place])
            assert step(iterator) == expected[place]
        assert steps(iterator) == expected[3:]


def test_several_epochs_run_on_the_same_workers() -> None:
    build = PIPELINES["shuffled map batches"]
    expected = steps(iter(build()))
    with iter(with_workers(build().map(_with_pid), 2)) as iterator:
        start, seen = iterator.get_state(), set()
        for _ in range(3):
            epoch = list(iterator)
            assert len(epoch) == len(expected) - 1
            seen |= {pid for _, pid in epoch}
            iterator.set_state(start)
    assert len(seen) <= 2


def _with_pid(element: Any) -> Any:
    return element, os.getpid()


def test_several_iterators_run_at_once() -> None:
    first, second = PIPELINES["mixture"], PIPELINES["best fit"]
    alone = [steps(iter(first())), steps(iter(second())), steps(iter(first()))]
    with (
        iter(with_workers(first(), 2)) as a,
        iter(with_workers(second(), 1)) as b,
        iter(with_workers(first(), 2)) as c,
    ):
        found: list[list[Any]] = [[], [], []]
        for number, iterator in itertools.cycle(enumerate([a, b, c])):
            if len(found[number]) < len(alone[number]):
                found[number].append(step(iterator))
            if list(map(len, found)) == list(map(len, alone)):
                break
    assert found == alone


def test_operations_above_workers_see_what_they_see_without_them() -> None:
    def build(count: int) -> grain.IterDataset:
        parts = [with_workers(rows(9).filter(odd), count), with_workers(rows(30).batch(4), count)]
        return grain.IterDataset.mix(parts, [1, 2]).map(np.sum).batch(2)

    with iter(build(2)) as iterator:
        assert steps(iterator) == steps(iter(build(0)))


def test_no_number_of_workers_means_a_sensible_one() -> None:
    assert list(rows(9).mp_prefetch()) == list(range(9))
    options = grain.MultiprocessingOptions(num_workers=None)
    assert list(rows(9).mp_prefetch(options)) == list(range(9))


def test_sequential_slices_are_accepted_and_change_nothing() -> None:
    ds = rows(9).mp_prefetch(grain.MultiprocessingOptions(2), sequential_slice=True)
    assert list(ds) == list(range(9))


LOADERS: dict[str, dict[str, Any]] = {
    "batches": {"operations": [grain.transforms.Batch(3)]},
    "batches without a remainder": {"operations": [grain.transforms.Batch(3, drop_remainder=True)]},
    "functions": {"operations": [AddOne()]},
    "random": {"operations": [AddDraw(), grain.transforms.Batch(4)]},
    "pieces": {"operations": [Halves(), grain.transforms.Batch(4)]},
    "filter": {"operations": [KeepOdd(), grain.transforms.Batch(2)]},
    "unknown length": {"sampler": EndlessSampler(), "operations": [grain.transforms.Batch(4)]},
    "a shard": {"shard_options": grain.ShardOptions(shard_index=1, shard_count=3)},
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_gives_the_same_with_any_executor(name: str) -> None:
    options = {
        "data_source": grain.RangeDataSource(0, 20, 1),
        "sampler": grain.IndexSampler(num_records=20, num_epochs=2, seed=1, shuffle=True),
        **LOADERS[name],
    }
    with iter(grain.DataLoader(**options)) as alone:
        states = [alone.get_state()]
        elements = []
        for element in alone:
            elements.append(element)
            states.append(alone.get_state())
        states.append(alone.get_state())
    for executor in EXECUTORS:
        with iter(grain.DataLoader(**options, worker_count=2, executor=executor)) as iterator:
            assert _comparable(iterator.get_state()) == _comparable(states[0])
            for number, element in enumerate(elements):
                np.testing.assert_array_equal(next(iterator), element)
                assert _comparable(iterator.get_state()) == _comparable(states[number + 1])
            assert next(iterator, "the end") == "the end"
            for place in (5, 0, len(elements)):
                # Saved without workers, restored with them.
                iterator.set_state(states[place])
                found = list(iterator)
                assert len(found) == len(elements) - place
                for one, other in zip(found, elements[place:], strict=True):
                    np.testing.assert_array_equal(one, other)
            saved = iterator.get_state()
        # Saved with workers, restored without them.
        with iter(grain.DataLoader(**options)) as alone:
            alone.set_state(saved)
            assert next(alone, "the end") == "the end"


def _comparable(state: bytes) -> Any:
    """All of a loader's state except how many workers there are."""
    fields = json.loads(state)
    assert "worker_count" in fields
    return {name: value for name, value in fields.items() if name != "worker_count"}
