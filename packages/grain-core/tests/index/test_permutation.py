"""The permutation behind every shuffle: a bijection for each length, and arrays agree with ints."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import grain
from grain.index.permutation import (
    index_shuffle,
    permute,
    permute_one,
    shuffle_epochs,
    shuffle_one,
    shuffle_windows,
)

SEEDS = st.integers(0, 2**32 - 1)
# Where the width of the block changes, and where an earlier release of this API was one bit short.
EDGES = (2**16, 2**18, 2**20)


def arange(length: int) -> np.ndarray:
    return np.arange(length, dtype=np.int64)


def assert_permutation(values: np.ndarray, length: int) -> None:
    assert values.size == length
    assert values.min() == 0
    assert values.max() == length - 1
    assert np.bincount(values, minlength=length).max() == 1


@given(length=st.integers(1, 300), seed=SEEDS)
@settings(max_examples=25, deadline=None)
def test_every_small_length_is_permuted(length, seed):
    assert_permutation(permute(arange(length), length - 1, seed), length)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("offset", [-1, 0, 1, 2])
def test_lengths_around_powers_of_two_are_permuted(edge, offset):
    length = edge + offset
    assert_permutation(permute(arange(length), length - 1, seed=42), length)


@given(
    max_index=st.integers(0, 2**63 - 1),
    seed=SEEDS,
    rounds=st.sampled_from([2, 4, 6, 8]),
    data=st.data(),
)
@example(max_index=2**62, seed=3, rounds=4, data=None)
@example(max_index=2**63 - 1, seed=3, rounds=4, data=None)
@settings(max_examples=40, deadline=None)
def test_an_array_of_indices_is_permuted_like_each_of_them(max_index, seed, rounds, data):
    if data is None:
        indices = list(range(500))
    else:
        indices = data.draw(st.lists(st.integers(0, max_index), max_size=20))
    array = permute(np.array(indices, dtype=np.int64), max_index, seed, rounds)
    assert array.tolist() == [permute_one(index, max_index, seed, rounds) for index in indices]
    assert all(0 <= value <= max_index for value in array.tolist())


@given(max_index=st.integers(2**20, 2**63 - 1), seed=SEEDS)
@settings(max_examples=25, deadline=None)
def test_distinct_indices_of_a_huge_range_have_distinct_results(max_index, seed):
    assert np.unique(permute(arange(3000), max_index, seed)).size == 3000


def test_shuffling_endless_repetition_gives_elements_that_single_reads_give():
    ds = grain.MapDataset.range(10).repeat().shuffle(seed=3)
    assert len(ds) == sys.maxsize
    assert ds.__getitems__(range(500)) == [ds[i] for i in range(500)]
    permuted = permute(arange(500), sys.maxsize - 1, 3)
    assert ds.__getitems__(range(500)) == (permuted % 10).tolist()


def test_a_shuffle_of_a_million_million_elements_needs_constant_memory():
    ds = grain.MapDataset.range(10**12).shuffle(seed=1)
    tracemalloc.start()
    try:
        first = ds[0]
        tail = ds.__getitems__(range(10**12 - 1000, 10**12))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert len({first, *tail}) == 1001
    assert all(0 <= element < 10**12 for element in tail)


def test_a_seed_of_any_size_below_two_to_the_32_chooses_another_permutation():
    orders = {tuple(permute(arange(50), 49, seed).tolist()) for seed in (0, 1, 2**31, 2**32 - 1)}
    assert len(orders) == 4


# --- index_shuffle, the public form --------------------------------------------------------------


@given(max_index=st.integers(0, 5000), seed=SEEDS)
@settings(max_examples=25, deadline=None)
def test_index_shuffle_takes_an_int_or_an_array(max_index, seed):
    indices = arange(max_index + 1)
    expected = permute(indices, max_index, seed).tolist()
    assert index_shuffle(indices, max_index, seed).tolist() == expected
    assert index_shuffle(0, max_index=max_index, seed=seed) == expected[0]
    assert index_shuffle(np.int32(max_index), max_index, seed) == expected[-1]


def test_index_shuffle_takes_numpy_integers_everywhere():
    plain = index_shuffle(3, 99, 7, 4)
    for kind in (np.int64, np.int32, np.uint32, np.uint8):
        shuffled = index_shuffle(kind(3), kind(99), kind(7), kind(4))
        assert (shuffled, type(shuffled)) == (plain, int)


@pytest.mark.parametrize("arguments", [(3, 99.0, 1), (3, 99, 1.5), (3, 99, 1, "4")])
def test_index_shuffle_refuses_what_is_no_integer(arguments):
    with pytest.raises(TypeError, match="must be an integer, got"):
        index_shuffle(*arguments)


@pytest.mark.parametrize("edge", EDGES)
def test_index_shuffle_keeps_the_short_block_where_the_shuffle_of_a_dataset_does_not(edge):
    assert index_shuffle(0, edge, 7) == index_shuffle(edge, edge, 7)
    both = index_shuffle(np.array([0, edge]), edge, 7)
    assert both[0] == both[1] == index_shuffle(0, edge, 7)
    assert permute_one(0, edge, 7) != permute_one(edge, edge, 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 9, 1), r"index must be in \[0, max_index\], but got index = 10 and max_index = 9"),
        ((-1, 9, 1), "got index = -1"),
        ((np.array([0, 10]), 9, 1), "got index = 10"),
        ((np.array([-3, 2]), 9, 1), "got index = -3"),
        ((0, -1, 1), r"max_index must be in \[0, 2\*\*63\), got -1"),
        ((0, 2**63, 1), "max_index must be"),
        ((0, 9, -1), r"seed must be in \[0, 2\*\*32\), got -1"),
        ((0, 9, 2**32), "seed must be"),
        ((0, 9, 1, 3), "rounds must be an even integer between 4 and 1024, but got rounds = 3"),
        ((0, 9, 1, 0), "but got rounds = 0"),
        ((0, 9, 1, 2**40), "but got rounds = 1099511627776"),
    ],
)
def test_index_shuffle_says_which_argument_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        index_shuffle(*arguments)


# --- epochs and windows --------------------------------------------------------------------------


@given(
    length=st.integers(1, 200),
    seed=SEEDS,
    indices=st.lists(st.integers(-1000, 1000), max_size=50),
)
@settings(max_examples=40, deadline=None)
def test_each_epoch_is_permuted_by_itself_with_its_own_seed(length, seed, indices):
    shuffled = shuffle_epochs(np.array(indices, dtype=np.int64), length, seed).tolist()
    for index, result in zip(indices, shuffled, strict=True):
        epoch = index // length
        inside = permute_one(index - epoch * length, length - 1, (seed + epoch) % 2**32)
        assert result == inside + epoch * length


@given(length=st.integers(1, 10**12), seed=SEEDS, epoch=st.integers(0, 5), data=st.data())
@settings(max_examples=50, deadline=None)
def test_one_index_is_shuffled_like_an_array_of_it(length, seed, epoch, data):
    index = epoch * length + data.draw(st.integers(0, length - 1))
    expected = shuffle_epochs(np.array([index], np.int64), length, seed).tolist()
    assert [shuffle_one(index, length, seed)] == expected


def test_epochs_differ_and_the_seed_wraps_around():
    ds = grain.MapDataset.range(20).shuffle(seed=2**32 - 1)
    first, second = ds.__getitems__(range(20)), ds.__getitems__(range(20, 40))
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert second == list(grain.MapDataset.range(20).shuffle(seed=0))


@given(
    length=st.integers(1, 100),
    window=st.integers(1, 40),
    seed=SEEDS,
    epochs=st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_a_window_is_shuffled_inside_itself(length, window, seed, epochs):
    shuffled = shuffle_windows(arange(length * epochs), length, window, seed).tolist()
    for epoch in range(epochs):
        for start in range(0, length, window):
            begin, end = epoch * length + start, epoch * length + min(start + window, length)
            assert sorted(shuffled[begin:end]) == list(range(begin, end))


def test_windows_are_counted_across_epochs():
    # Two windows an epoch: the first window of epoch 1 is window 2.
    shuffled = shuffle_windows(arange(40), 20, 10, seed=5)
    assert (shuffled[20:30] - 20).tolist() == permute(arange(10), 9, 5 + 2).tolist()
