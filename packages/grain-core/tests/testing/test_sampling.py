"""Samples of long sources."""

from __future__ import annotations

import pytest

from grain.testing.sampling import MOST_INDICES, MOST_STATES, sample_indices, sample_steps


@pytest.mark.parametrize("length", [0, 1, MOST_INDICES])
def test_all_indices_of_a_short_source_are_read(length):
    assert list(sample_indices(length)) == list(range(length))


@pytest.mark.parametrize("length", [MOST_INDICES + 1, 1000, 10**12, 2**63])
def test_a_sample_is_sorted_repeatable_and_includes_both_ends(length):
    sample = sample_indices(length)
    assert sample == sample_indices(length) == sorted(set(sample))
    assert (len(sample), sample[0], sample[-1]) == (MOST_INDICES, 0, length - 1)


@pytest.mark.parametrize("count", [1, MOST_STATES, MOST_STATES + 1, 257])
def test_sampled_steps_include_the_first_and_the_last(count):
    steps = list(sample_steps(count))
    assert (steps[0], steps[-1]) == (0, count - 1)
    assert len(steps) <= MOST_STATES + 1
