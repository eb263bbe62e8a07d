"""The cipher of arrays: by lookup and by arithmetic, with one key or with a key for each value."""

from __future__ import annotations

import numpy as np
import pytest

from grain.index.cipher import encrypt, expand_seeds, mix_word, round_keys

# Words on both sides of the limit of the lookup, and the widest.
WORDS = (8, 9, 12, 16, 17, 20, 31)


def encrypted(value: int, word: int, keys: list[int]) -> int:
    """Encrypt one value as the description of the cipher says."""
    mask = (1 << word) - 1
    left, right = value >> word, value & mask
    for first, second in zip(keys[0::2], keys[1::2], strict=True):
        left ^= mix_word(right, word, mask) ^ (first & mask)
        right ^= mix_word(left, word, mask) ^ (second & mask)
    return (left << word) | right


def some_values(word: int) -> np.ndarray:
    last = (1 << 2 * word) - 1
    inside = np.random.default_rng(word).integers(0, last, 50, endpoint=True)
    return np.concatenate([[0, 1, last - 1, last], inside]).astype(np.int64)


@pytest.mark.parametrize("rounds", [4, 6])
@pytest.mark.parametrize("word", WORDS)
def test_arrays_are_encrypted_like_single_values(word, rounds):
    values, keys = some_values(word), list(round_keys(7, rounds))
    expected = [encrypted(value, word, keys) for value in values.tolist()]
    result = encrypt(values, word, keys)
    assert result.dtype == np.int64
    assert result.tolist() == expected


@pytest.mark.parametrize("word", WORDS)
def test_each_value_may_have_its_own_key(word):
    values = some_values(word)
    seeds = np.arange(values.size, dtype=np.int64)
    expected = [
        encrypted(value, word, list(round_keys(seed, 4)))
        for value, seed in zip(values.tolist(), seeds.tolist(), strict=True)
    ]
    assert encrypt(values, word, expand_seeds(seeds, 4)).tolist() == expected


@pytest.mark.parametrize("word", WORDS)
def test_the_values_are_not_changed_and_need_not_be_contiguous(word):
    values, keys = some_values(word), round_keys(1, 4)
    before = values.copy()
    every_second = encrypt(values[::2], word, keys)
    assert every_second.tolist() == encrypt(values, word, keys)[::2].tolist()
    assert values.tolist() == before.tolist()


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("size", [0, 1])
def test_few_values(word, size):
    assert encrypt(some_values(word)[:size], word, round_keys(1, 4)).shape == (size,)
