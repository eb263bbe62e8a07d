"""What holds for every pipeline: batched reads, threads, and resuming change nothing."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.parity.encoding import difference, encode

import grain

from .pipelines import Plan
from .strategies import indices, iter_plans, map_plans

# A filter that keeps little is nothing to warn about here.
pytestmark = pytest.mark.filterwarnings("ignore")

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
THREADS = grain.ReadOptions(num_threads=4, prefetch_buffer_size=16)


def assert_same(expected: list[Any], found: list[Any], what: str) -> None:
    differs = difference(encode(list(expected)), encode(list(found)), what)
    assert differs is None, differs


@given(plan=map_plans(), wanted=indices())
def test_many_reads_at_once_equal_single_reads(plan: Plan, wanted: list[int]) -> None:
    ds = plan.build()
    assume(len(ds) > 0)
    assert_same([ds[i] for i in wanted], ds.__getitems__(wanted), "list of indices")
    near = [i for i in wanted if abs(i) < 2**62]
    array = np.array(near, dtype=np.int64)
    assert_same([ds[i] for i in near], ds.__getitems__(array), "array of indices")


@given(plan=map_plans())
def test_iteration_gives_every_read_that_is_not_filtered_out(plan: Plan) -> None:
    ds = plan.build()
    reads = [ds[i] for i in range(len(ds))]
    assert_same([x for x in reads if x is not None], list(ds), "iteration")
    kept = list(ds.to_iter_dataset(INLINE, allow_nones=True))
    assert_same(reads, kept, "iteration that keeps Nones")


@given(plan=map_plans(), positions=st.lists(st.integers(-100, 100), min_size=1, max_size=20))
def test_slice_by_positions_gives_those_elements(plan: Plan, positions: list[int]) -> None:
    ds = plan.build()
    positions = [p for p in positions if -len(ds) <= p < len(ds)]
    assume(positions)
    picked = ds.slice(positions)
    assert len(picked) == len(positions)
    # A position below zero counts from the end of this epoch.
    expected = [ds[p % len(ds)] for p in positions]
    assert_same(expected, [picked[i] for i in range(len(positions))], "positions")


@given(plan=iter_plans())
def test_threads_give_the_stream_and_states_of_inline_reading(plan: Plan) -> None:
    inline, threaded = iter(plan.build(INLINE)), iter(plan.build(THREADS))
    for step in itertools.count():
        state = inline.get_state()
        assert threaded.get_state() == state, f"state after {step} elements"
        expected, found = next(inline, "the end"), next(threaded, "the end")
        assert_same([expected], [found], f"element {step}")
        if isinstance(expected, str):
            break
    threaded.close()


@pytest.mark.parametrize("options", [INLINE, THREADS], ids=["inline", "threads"])
@given(plan=iter_plans())
def test_any_state_continues_the_same_stream(options: grain.ReadOptions, plan: Plan) -> None:
    ds = plan.build(options)
    iterator = iter(ds)
    states, elements = [_through_json(iterator.get_state())], []
    for element in iterator:
        elements.append(element)
        states.append(_through_json(iterator.get_state()))
    for taken, state in enumerate(states):
        fresh = iter(plan.build(options))
        fresh.set_state(state)
        assert _through_json(fresh.get_state()) == state
        fresh.set_state(state)
        assert_same(elements[taken:], list(fresh), f"restored twice after {taken}")
        # And back again, from the end.
        fresh.set_state(state)
        assert_same(elements[taken:], list(fresh), f"restored at the end after {taken}")
        fresh.close()
    iterator.close()


@given(plan=iter_plans(), jumps=st.lists(st.integers(0, 80), min_size=2, max_size=6))
def test_an_iterator_may_jump_between_its_states(plan: Plan, jumps: list[int]) -> None:
    ds = plan.build(INLINE)
    iterator = iter(ds)
    states, elements = [iterator.get_state()], []
    for element in iterator:
        elements.append(element)
        states.append(iterator.get_state())
    for jump in jumps:
        place = jump % len(states)
        iterator.set_state(states[place])
        found = list(itertools.islice(iterator, 3))
        assert_same(elements[place : place + 3], found, f"after jumping to {place}")


@given(plan=iter_plans())
def test_two_iterators_of_one_dataset_do_not_meddle(plan: Plan) -> None:
    ds = plan.build(INLINE)
    expected = list(ds)
    first, second = iter(ds), iter(ds)
    zipped = list(itertools.zip_longest(first, second))
    assert_same(expected, [a for a, _ in zipped], "first")
    assert_same(expected, [b for _, b in zipped], "second")


@given(plan=iter_plans())
def test_a_known_length_is_the_number_of_elements(plan: Plan) -> None:
    ds = plan.build(INLINE)
    try:
        length = len(ds)
    except TypeError:
        return
    assert length == len(list(ds))


def _through_json(state: Any) -> Any:
    return json.loads(json.dumps(state))
