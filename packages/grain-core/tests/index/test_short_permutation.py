"""Permutations of short ranges: walks, tables and arrays of mixed ranges agree with a plain walk."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.index.cipher import encrypt, expand_seeds, round_keys
from grain.index.permutation import (
    permute,
    permute_each,
    shuffle_one_in_window,
    shuffle_windows,
)
from grain.index.short_permutation import BLOCK_SIZE, ShortPermutations

SEEDS = st.integers(0, 2**32 - 1)


def plain_walk(index: int, max_index: int, seed: int, rounds: int) -> int:
    """Encrypt the index in the smallest block until it lies inside of the range."""
    mask, keys = 0xFF, round_keys(seed, rounds)
    left, right = index >> 8, index & mask

    def mix(x: int) -> int:
        def rotated(by: int) -> int:
            return (x << by | x >> (8 - by)) & mask

        return rotated(1) & rotated(8) ^ rotated(2)

    while True:
        for first, second in zip(keys[::2], keys[1::2], strict=True):
            left ^= mix(right) ^ first & mask
            right ^= mix(left) ^ second & mask
        if left << 8 | right <= max_index:
            return left << 8 | right


def arange(length: int) -> np.ndarray:
    return np.arange(length, dtype=np.int64)


@given(
    max_index=st.integers(300, BLOCK_SIZE - 1),
    seed=SEEDS,
    rounds=st.sampled_from([2, 4, 6]),
    data=st.data(),
)
@settings(deadline=None, max_examples=50)
def test_a_table_and_a_walk_agree_with_a_plain_walk(max_index, seed, rounds, data):
    indices = data.draw(st.lists(st.integers(0, max_index), min_size=1, max_size=8))
    expected = [plain_walk(index, max_index, seed, rounds) for index in indices]
    permutations = ShortPermutations()
    singly = [permutations.permute_one(index, max_index, seed, rounds) for index in indices]
    walked = permutations.permute(np.array(indices), max_index, seed, rounds)
    whole = permutations.permute(arange(max_index + 1), max_index, seed, rounds)
    assert permutations.tables_made == 1
    assert singly == walked.tolist() == whole[indices].tolist() == expected


@given(
    ranges=st.lists(st.tuples(st.integers(1, 2**17), SEEDS), min_size=1, max_size=12),
    data=st.data(),
)
@settings(deadline=None, max_examples=40)
def test_mixed_ranges_are_permuted_like_each_of_them(ranges, data):
    chosen = data.draw(st.lists(st.sampled_from(ranges), max_size=200))
    lengths = np.array([length for length, _ in chosen], dtype=np.int64)
    seeds = np.array([seed for _, seed in chosen], dtype=np.int64)
    indices = arange(lengths.size) * 7919 % np.maximum(lengths, 1)
    expected = [
        int(permute(np.array([index]), length - 1, seed)[0])
        for index, (length, seed) in zip(indices.tolist(), chosen, strict=True)
    ]
    assert permute_each(indices, lengths - 1, seeds).tolist() == expected


@given(
    length=st.integers(1, 10**6),
    window=st.integers(1, 10**5),
    seed=SEEDS,
    index=st.integers(-(10**7), 10**7),
)
@settings(deadline=None, max_examples=50)
def test_one_index_of_a_window_is_shuffled_like_an_array_of_it(length, window, seed, index):
    expected = shuffle_windows(np.array([index]), length, window, seed).tolist()
    assert [shuffle_one_in_window(index, length, window, seed)] == expected


@given(seeds=st.lists(SEEDS, min_size=1, max_size=5), rounds=st.sampled_from([2, 4, 6, 8, 40, 70]))
@settings(deadline=None, max_examples=30)
def test_round_keys_of_many_seeds_are_those_of_each(seeds, rounds):
    arrays = expand_seeds(np.array(seeds, dtype=np.int64), rounds)
    each = [[int(keys[number]) for keys in arrays] for number in range(len(seeds))]
    assert each == [list(round_keys(seed, rounds)) for seed in seeds]


def test_keys_of_an_array_encrypt_like_one_key():
    values = arange(1000)
    for word in (8, 16, 20):
        expected = encrypt(values, word, round_keys(5, 4))
        keys = [np.full(1000, key) for key in round_keys(5, 4)]
        assert encrypt(values, word, keys).tolist() == expected.tolist()


def test_scattered_reads_of_many_ranges_make_no_table():
    permutations = ShortPermutations()
    parts = arange(2000)
    for index in range(5):
        permutations.permute_each(np.full(2000, index), np.full(2000, 999), parts, 4)
        permutations.permute_one(index, 999, 2000 + index, 4)
    assert permutations.tables_made == 0


def test_ranges_of_one_element_need_neither_table_nor_walk(monkeypatch):
    unused = ShortPermutations()
    monkeypatch.setattr("grain.index.permutation._short", unused)
    assert not permute_each(np.zeros(500, int), np.zeros(500, int), arange(500)).any()
    assert unused.tables_made == 0


def test_a_range_that_is_used_often_gets_one_table():
    permutations = ShortPermutations()
    for index in range(1000):
        permutations.permute_one(index, 999, 3, 4)
    permutations.permute(arange(1000), 999, 3, 4)
    permutations.permute_each(arange(1000), np.full(1000, 999), np.full(1000, 3), 4)
    assert permutations.tables_made == 1


def test_tables_that_were_discarded_for_lack_of_room_are_made_again():
    permutations = ShortPermutations()
    indices = arange(60_000)
    before = permutations.permute(indices, 59_999, 0, 4)
    for seed in range(1, 40):
        permutations.permute(indices, 59_999, seed, 4)
    assert permutations.permute(indices, 59_999, 0, 4).tolist() == before.tolist()
    assert permutations.tables_made == 41
