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

from grain.index.mixing import Mixture, integer_weights, mixed_length, select_one

INDICES = st.lists(st.integers(-(2**40), 2**40), max_size=30)


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
@example(weights=[2**30, 2**30 - 1], indices=[0, 1, 2**40])  # The last period of array arithmetic.
@example(weights=[2**30, 2**30], indices=[0, 1, 2**40])  # The first beyond it.
@example(weights=[2**19, 2**19], indices=[0, 1, 2**20, 2**40])  # The largest table.
@settings(deadline=None, max_examples=60)
def test_long_periods_are_not_tabulated_and_select_the_same(weights, indices):
    assert pairs(weights, indices) == [select_one(index, weights) for index in indices]


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
