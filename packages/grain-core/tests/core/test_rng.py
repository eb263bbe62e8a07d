"""Generators of elements: seeking in memory draws the same as numpy's public state."""

from __future__ import annotations

import ctypes
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain import rng as rng_module
from grain.rng import ElementGenerator, RngPool

DRAWS: list[Callable[[np.random.Generator], Any]] = [
    lambda rng: rng.random(),
    lambda rng: rng.random(3).tolist(),
    lambda rng: rng.random(dtype=np.float32),  # Half a word: the other half is left over.
    lambda rng: int(rng.integers(0, 7, dtype=np.uint32)),
    lambda rng: int(rng.integers(2**60)),
    lambda rng: rng.normal(),
    lambda rng: rng.permutation(5).tolist(),
    lambda rng: rng.choice(10, 2, replace=False).tolist(),
    lambda rng: rng.bytes(5),
]


def public(seed: int, index: int, op_seed: int = 0) -> np.random.Generator:
    """Return a new generator, set to an element by numpy's public interface."""
    bits = np.random.Philox(seed)
    state = bits.state
    state["state"]["counter"] = np.array([0, 0, op_seed, index], dtype=np.uint64)
    state["buffer_pos"] = 4
    state["has_uint32"] = 0
    state["uinteger"] = 0
    bits.state = state
    return np.random.Generator(bits)


@pytest.fixture(params=["memory", "public state"])
def way(request, monkeypatch):
    if request.param == "public state":
        monkeypatch.setattr(rng_module, "layout_matches", lambda: False)
    return request.param


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2**64 - 1),
        st.lists(st.integers(0, len(DRAWS) - 1), max_size=6),
    ),
    max_size=6,
)


@given(seed=st.integers(0, 2**70), steps=STEPS)
@settings(deadline=None, max_examples=60)
def test_a_generator_that_is_used_again_draws_like_one_made_for_the_element(seed, steps):
    generator = ElementGenerator(seed)
    for index, draws in steps:
        expected, rng = public(seed, index), generator.seek(index)
        for draw in draws:
            assert DRAWS[draw](rng) == DRAWS[draw](expected)


def test_both_ways_draw_the_same_whatever_was_drawn_before(way):
    generator = ElementGenerator(5)
    assert generator.writes_memory == (way == "memory")
    for index in (3, 3, 2**63, 0, 2**64 - 1):
        for draw in DRAWS:
            generator.seek(7).random(dtype=np.float32)
            assert draw(generator.seek(index)) == draw(public(5, index))


def test_memory_is_written_with_this_numpy():
    assert rng_module.layout_matches()
    assert ElementGenerator(5).writes_memory


def test_pipelines_draw_the_same_either_way(way):
    def draw(x: int, rng: np.random.Generator) -> tuple[int, float, int]:
        return x, rng.random(), int(rng.integers(100, dtype=np.int32))

    ds = grain.MapDataset.range(5).random_map(draw, seed=9).repeat(2)
    expected = [draw(i % 5, public(9, i)) for i in range(10)]
    assert list(ds) == expected
    on_iter = grain.MapDataset.range(5).to_iter_dataset().random_map(draw, seed=9)
    assert list(on_iter) == expected[:5]


def test_another_memory_layout_is_detected():
    fields = list(rng_module.PhiloxState._fields_)
    fields[2:4] = [fields[3], fields[2]]

    class Otherwise(ctypes.Structure):
        _fields_ = tuple(fields)

    assert not rng_module.layout_matches(Otherwise)
    assert not rng_module.layout_matches(byteorder="big")


# --- the pool ------------------------------------------------------------------------------------


def test_a_pool_hands_out_generators_set_to_an_element(way):
    pool = RngPool(7)
    for index in (3, 4, 3):
        rng = pool.acquire_rng(index)
        assert rng.random() == public(7, index).random()
        pool.release_rng(rng)


def test_generators_in_use_at_the_same_time_are_different():
    pool = RngPool(7)
    first, second = pool.acquire_rng(3), pool.acquire_rng(4)
    draws = [first.random(), second.random(), first.random(), second.random()]
    one, other = public(7, 3), public(7, 4)
    assert draws == [one.random(), other.random(), one.random(), other.random()]


def test_a_released_generator_is_used_again():
    pool = RngPool(7)
    rng = pool.acquire_rng(3)
    pool.release_rng(rng)
    assert pool.acquire_rng(4) is rng


def test_operations_on_one_element_draw_independently(way):
    pool = RngPool(7)
    for op_seed in (0, 5, 2**64 - 1, 0):
        rng = pool.acquire_rng(3, op_seed=op_seed)
        assert rng.random() == public(7, 3, op_seed).random()
        pool.release_rng(rng)


def test_a_pool_refuses_generators_of_others():
    pool = RngPool(7)
    rng = pool.acquire_rng(3)
    pool.release_rng(rng)
    for wrong in (rng, np.random.default_rng(1)):
        with pytest.raises(ValueError, match="was not acquired from this pool"):
            pool.release_rng(wrong)


def test_a_pool_is_pickled_as_its_seed():
    pool = RngPool(7)
    pool.acquire_rng(1)
    copied = pickle.loads(pickle.dumps(pool))
    assert copied.acquire_rng(3).random() == RngPool(7).acquire_rng(3).random()
    assert len(pickle.dumps(pool)) < 100


def test_threads_share_a_pool():
    pool = RngPool(7)
    together = threading.Barrier(8)
    wrong: list[Any] = []

    def draw(first: int) -> None:
        together.wait()
        for index in range(first, first + 200):
            rng = pool.acquire_rng(index)
            found = [rng.random(), rng.random()]
            pool.release_rng(rng)
            expected = public(7, index)
            if found != [expected.random(), expected.random()]:
                wrong.append(index)

    threads = [threading.Thread(target=draw, args=(n * 1000,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_random_map_may_read_another_one():
    """The generator of the outer element is not the one that the inner elements get."""
    inner = grain.MapDataset.range(4).random_map(lambda x, rng: rng.random(), seed=1)

    def outer(x: int, rng: np.random.Generator) -> tuple[float, float, float]:
        return rng.random(), inner[x], rng.random()

    ds = grain.MapDataset.range(4).random_map(outer, seed=1)
    for index in range(4):
        rng = public(1, index)
        expected = rng.random(), public(1, index).random(), rng.random()
        assert ds[index] == expected
