"""Mixtures: arrays agree with single selections, whatever the weights."""

from __future__ import annotations

import copy
import pickle
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grain.index.mixing import Mixture, count_taken, integer_weights, mixed_length

INDICES = st.lists(st.integers(-(2**40), 2**40), max_size=30)


def select_one(k: int, weights: list[int]) -> tuple[int, int]:
    """Select one element by the definition of a mixture, component by component."""
    remaining = sum(weights)
    low, high = k, k + 1
    for component, weight in enumerate(weights):
        next_low = low * (remaining - weight) // remaining
        next_high = high * (remaining - weight) // remaining
        if low - next_low != high - next_high:
            return component, high - next_high - 1
        remaining -= weight
        low, high = next_low, next_high
    raise AssertionError


def pairs(weights: list[int], indices: list[int]) -> list[tuple[int, int]]:
    components, elements = Mixture(weights).select(np.array(indices, dtype=np.int64))
    return list(zip(components.tolist(), elements.tolist(), strict=True))


@given(weights=st.lists(st.integers(1, 500), min_size=1, max_size=6), indices=INDICES)
@settings(deadline=None, max_examples=60)
def test_an_array_selects_what_single_selections_do(weights, indices):
    assert pairs(weights, indices) == [select_one(index, weights) for index in indices]


@given(
    weights=st.lists(st.integers(2**20, 2**45), min_size=1, max_size=4),
    indices=st.lists(st.integers(0, 2**60), max_size=20),
)
@example(weights=[2**30, 2**30 - 1], indices=[0, 1, 2**40])  # The last exact product of arrays.
@example(weights=[2**30, 2**30 + 1], indices=[0, 1, 2**40])  # The first beyond it.
@example(weights=[2**51, 2**51 - 1], indices=[0, 1, 2**50])  # The last exact quotient.
@example(weights=[2**51, 2**51 + 1], indices=[0, 1, 2**50])  # The first beyond it.
@example(weights=[2**19, 2**19 - 1], indices=[0, 1, 2**20, 2**40])  # The largest table.
@settings(deadline=None, max_examples=60)
def test_scattered_elements_of_long_periods_are_selected_like_single_ones(weights, indices):
    assert pairs(weights, indices) == [select_one(index, weights) for index in indices]


@given(
    weights=st.one_of(
        st.lists(st.integers(1, 9), min_size=1, max_size=80),
        st.lists(st.integers(1, 10**6), min_size=1, max_size=40),
        st.lists(st.integers(1, 2**70), min_size=1, max_size=5),
    ),
    start=st.integers(-(2**62), 2**62),
    count=st.integers(1, 100),
    again=st.integers(0, 700),
)
@settings(deadline=None, max_examples=100)
def test_ranges_are_selected_like_single_elements(weights, start, count, again):
    mixture = Mixture(weights)
    for first in (start, start + again):
        indices = np.arange(first, first + count)
        components, elements = mixture.select(indices)
        selected = list(zip(components.tolist(), elements.tolist(), strict=True))
        assert selected == [select_one(index, weights) for index in indices.tolist()]


@given(
    weights=st.lists(st.integers(1, 10**7), min_size=1, max_size=30),
    indices=st.lists(st.integers(-(2**40), 2**40), max_size=20),
    count=st.integers(1, 40),
)
@settings(deadline=None, max_examples=60)
def test_single_selections_agree_in_any_order(weights, indices, count):
    mixture = Mixture(weights)
    for index in [*indices, *range(count), *reversed(indices)]:
        assert mixture.select_one(index) == select_one(index, weights)


@given(weights=st.lists(st.integers(1, 500), min_size=1, max_size=6), factor=st.integers(1, 10**6))
@settings(deadline=None, max_examples=30)
def test_a_common_factor_of_the_weights_changes_nothing(weights, factor):
    indices = list(range(50))
    assert pairs([weight * factor for weight in weights], indices) == pairs(weights, indices)
    assert Mixture([weight * factor for weight in weights]).period == Mixture(weights).period


@given(weights=st.lists(st.integers(1, 500), min_size=1, max_size=6), count=st.integers(0, 2000))
@settings(deadline=None, max_examples=40)
def test_counts_are_those_of_the_selection(weights, count):
    components, _ = Mixture(weights).select(np.arange(count))
    expected = np.bincount(components, minlength=len(weights)).tolist()
    assert count_taken(weights, count) == expected


@pytest.mark.parametrize("components", [1, 10, 1000, 10_000])
def test_a_first_range_tabulates_no_more_than_a_page_whatever_the_weights(components):
    """Neither the period nor the number of components times the period is worked through."""
    rng = np.random.default_rng(components)
    for weights in ([1 + i % 7 for i in range(components)], rng.uniform(0.01, 1, components)):
        mixture = Mixture(integer_weights(list(weights)))
        mixture.select(np.arange(4))
        assert 0 < mixture.tabulated <= max(512, 2 * components)


def test_scattered_elements_of_a_short_period_are_tabulated_when_that_pays():
    rng = np.random.default_rng(0)
    mixture = Mixture([1 + i % 7 for i in range(2000)])
    mixture.select(rng.integers(0, 10**6, 256))
    assert mixture.tabulated == mixture.period
    sparse = Mixture([10**5, 10**5 + 1, 10**5 + 3])
    sparse.select(rng.integers(0, 10**6, 256))
    sparse.select_one(12345)
    assert sparse.tabulated == 0


@given(weights=st.lists(st.integers(1, 50), min_size=1, max_size=5), rounds=st.integers(1, 3))
@settings(deadline=None, max_examples=40)
def test_each_component_gives_its_elements_in_order_and_in_proportion(weights, rounds):
    period = sum(weights)
    selected = pairs(weights, list(range(period * rounds)))
    counts: Counter[int] = Counter()
    for component, element in selected:
        assert element == counts[component]
        counts[component] += 1
    assert [counts[component] for component in range(len(weights))] == [w * rounds for w in weights]


@given(weights=st.lists(st.integers(1, 50), min_size=2, max_size=5), index=st.integers(0, 2000))
@settings(deadline=None, max_examples=40)
def test_a_component_is_never_an_element_away_from_its_share(weights, index):
    counts = Counter(component for component, _ in pairs(weights, list(range(index))))
    for component, weight in enumerate(weights):
        assert abs(counts[component] - index * weight / sum(weights)) < len(weights)


def test_no_elements_are_selected_of_no_indices():
    assert pairs([2, 1], []) == []


@pytest.mark.parametrize("weights", [[2, 1], [2**40, 2**41]])
def test_a_mixture_is_copied_and_pickled_without_its_table(weights):
    mixture = Mixture(weights)
    expected = [part.tolist() for part in mixture.select(np.arange(9))]
    assert len(pickle.dumps(mixture)) < 200
    for other in (pickle.loads(pickle.dumps(mixture)), copy.deepcopy(mixture)):
        assert [part.tolist() for part in other.select(np.arange(9))] == expected


@given(weights=st.lists(st.floats(0.001, 1000), min_size=1, max_size=5))
def test_integer_weights_keep_two_digits_beyond_the_smallest(weights):
    scaled = integer_weights(weights)
    assert min(scaled) in (99, 100)  # 100, but for rounding.
    scale = 100 / min(weights)
    for weight, whole in zip(weights, scaled, strict=True):
        assert 0 <= weight * scale - whole < 1


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.59726, 1.27, 8.75659], [99, 212, 1466]),
        ([0.64385, 5.06586340266201], [99, 786]),
        ([0.22828, 9.001131866036511, 7.10568], [100, 3943, 3112]),
    ],
)
def test_integer_weights_are_rounded_as_in_google_grain(weights, expected):
    """Its elements tell; to multiply by 100 before the division gives others."""
    assert integer_weights(weights) == expected
    assert [int(100 * weight / min(weights)) for weight in weights] != expected


def test_a_mixture_is_as_long_as_its_first_exhausted_component_allows():
    assert mixed_length([10, 10], [1, 1]) == 20
    assert mixed_length([10, 3], [1, 1]) == 6
    assert mixed_length([3, 10], [3, 1]) == 4
    assert mixed_length([sys.maxsize, sys.maxsize], [1, 1]) == sys.maxsize
