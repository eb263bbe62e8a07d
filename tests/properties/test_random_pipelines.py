"""Invariants of every pipeline: batched reads, threads and resuming do not change the stream."""

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

from .pipelines import Recipe
from .strategies import indices, iter_recipes, map_recipes

# Filters that drop most elements warn; here that is expected.
pytestmark = pytest.mark.filterwarnings("ignore")

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
THREADS = grain.ReadOptions(num_threads=4, prefetch_buffer_size=16)


def assert_same(expected: list[Any], found: list[Any], what: str) -> None:
    differs = difference(encode(list(expected)), encode(list(found)), what)
    assert differs is None, differs


@given(recipe=map_recipes(), wanted=indices())
def test_many_reads_at_once_equal_single_reads(recipe: Recipe, wanted: list[int]) -> None:
    ds = recipe.build()
    assume(len(ds) > 0)
    assert_same([ds[i] for i in wanted], ds.__getitems__(wanted), "list of indices")
    near = [i for i in wanted if abs(i) < 2**62]
    array = np.array(near, dtype=np.int64)
    assert_same([ds[i] for i in near], ds.__getitems__(array), "array of indices")


@given(recipe=map_recipes())
def test_iteration_yields_every_read_that_is_not_filtered_out(recipe: Recipe) -> None:
    ds = recipe.build()
    reads = [ds[i] for i in range(len(ds))]
    assert_same([x for x in reads if x is not None], list(ds), "iteration")
    kept = list(ds.to_iter_dataset(INLINE, allow_nones=True))
    assert_same(reads, kept, "iteration that keeps Nones")


@given(recipe=map_recipes(), positions=st.lists(st.integers(-100, 100), min_size=1, max_size=20))
def test_slice_by_positions_gives_those_elements(recipe: Recipe, positions: list[int]) -> None:
    ds = recipe.build()
    positions = [p for p in positions if -len(ds) <= p < len(ds)]
    assume(positions)
    picked = ds.slice(positions)
    assert len(picked) == len(positions)
    # A position below zero counts from the end of this epoch.
    expected = [ds[p % len(ds)] for p in positions]
    assert_same(expected, [picked[i] for i in range(len(positions))], "positions")


@given(recipe=iter_recipes())
def test_threads_yield_the_stream_and_states_of_inline_reading(recipe: Recipe) -> None:
    inline, threaded = iter(recipe.build(INLINE)), iter(recipe.build(THREADS))
    for step in itertools.count():
        state = inline.get_state()
        assert threaded.get_state() == state, f"state after {step} elements"
        expected, found = next(inline, "the end"), next(threaded, "the end")
        assert_same([expected], [found], f"element {step}")
        if isinstance(expected, str):
            break
    threaded.close()


@pytest.mark.parametrize("options", [INLINE, THREADS], ids=["inline", "threads"])
@given(recipe=iter_recipes())
def test_any_state_continues_the_same_stream(options: grain.ReadOptions, recipe: Recipe) -> None:
    ds = recipe.build(options)
    iterator = iter(ds)
    states, elements = [_through_json(iterator.get_state())], []
    for element in iterator:
        elements.append(element)
        states.append(_through_json(iterator.get_state()))
    for taken, state in enumerate(states):
        fresh = iter(recipe.build(options))
        fresh.set_state(state)
        assert _through_json(fresh.get_state()) == state
        fresh.set_state(state)
        assert_same(elements[taken:], list(fresh), f"restored twice after {taken}")
        # And back again, from the end.
        fresh.set_state(state)
        assert_same(elements[taken:], list(fresh), f"restored at the end after {taken}")
        fresh.close()
    iterator.close()


@given(recipe=iter_recipes(), jumps=st.lists(st.integers(0, 80), min_size=2, max_size=6))
def test_an_iterator_may_jump_between_its_states(recipe: Recipe, jumps: list[int]) -> None:
    ds = recipe.build(INLINE)
    iterator = iter(ds)
    states, elements = [iterator.get_state()], []
    for element in iterator:
        elements.append(element)
        states.append(iterator.get_state())
    for jump in jumps:
        position = jump % len(states)
        iterator.set_state(states[position])
        found = list(itertools.islice(iterator, 3))
        assert_same(elements[position : position + 3], found, f"after jumping to {position}")


@given(recipe=iter_recipes())
def test_two_iterators_of_one_dataset_are_independent(recipe: Recipe) -> None:
    ds = recipe.build(INLINE)
    expected = list(ds)
    first, second = iter(ds), iter(ds)
    zipped = list(itertools.zip_longest(first, second))
    assert_same(expected, [a for a, _ in zipped], "first")
    assert_same(expected, [b for _, b in zipped], "second")


@given(recipe=iter_recipes())
def test_a_known_length_is_the_number_of_elements(recipe: Recipe) -> None:
    ds = recipe.build(INLINE)
    try:
        length = len(ds)
    except TypeError:
        return
    assert length == len(list(ds))


def _through_json(state: Any) -> Any:
    return json.loads(json.dumps(state))
