"""The block cipher behind every shuffle: a Feistel network over two words of `w` bits.

Round keys depend on the seed alone. One round mixes one word into the other:
`left ^= mix(right) ^ key`, then `right ^= mix(left) ^ key`, and so on.
"""

from __future__ import annotations

import array
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

IndexArray = np.ndarray[Any, np.dtype[np.int64]]
WordArray = np.ndarray[Any, np.dtype[np.uint32]]

_MASK32 = 0xFFFFFFFF
# Words of up to this many bits are mixed by a table lookup.
_LOOKUP_BITS = 16


def distinct(values: IndexArray) -> IndexArray:
    """Return the different values in order, without `numpy.unique`, which imports `numpy.ma`.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    in_order = np.sort(values)
    is_first = np.ones(values.size, dtype=bool)
    np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
    return in_order[is_first]


@functools.lru_cache(maxsize=1024)
def round_keys(seed: int, rounds: int) -> tuple[int, ...]:
    """Expand a 32-bit seed to `rounds` words, as the C++ standard defines `std::seed_seq`."""
    return tuple(expand_seeds(seed, rounds))


def expand_seeds(seeds: Any, rounds: int) -> list[Any]:
    """Return the round keys of a seed, or of an int64 array of seeds: one array per round.

    >>> [keys.tolist() for keys in expand_seeds(np.array([1, 2]), rounds=2)]
    [[1657803123, 3412103732], [1624008230, 804981003]]
    """
    words: list[Any] = [0x8B8B8B8B] * rounds
    shift = 11 if rounds >= 623 else 7 if rounds >= 68 else 5 if rounds >= 39 else 3
    if rounds < 7:
        shift = (rounds - 1) // 2
    near = (rounds - shift) // 2
    far = near + shift
    steps = max(2, rounds)
    for k in range(steps):
        here, p, q, back = k % rounds, (k + near) % rounds, (k + far) % rounds, (k - 1) % rounds
        first = 1664525 * _fold(words[here] ^ words[p] ^ words[back]) & _MASK32
        second = first + (1 if k == 0 else here + seeds if k == 1 else here)
        second = second & _MASK32
        words[p] = (words[p] + first) & _MASK32
        words[q] = (words[q] + second) & _MASK32
        words[here] = second
    for k in range(steps, steps + rounds):
        here, p, q, back = k % rounds, (k + near) % rounds, (k + far) % rounds, (k - 1) % rounds
        first = 1566083941 * _fold((words[here] + words[p] + words[back]) & _MASK32) & _MASK32
        second = (first - here) & _MASK32
        # Not in place: several entries may be one array.
        words[p] = words[p] ^ first
        words[q] = words[q] ^ second
        words[here] = second
    return words


def _fold(x: Any) -> Any:
    return x ^ (x >> 27)


def word_bits(max_index: int) -> int:
    """Return half the bits of the block: those that hold `max_index`, made even, at least 16."""
    bits = max_index.bit_length()
    return (bits + 1) // 2 if bits > 16 else 8


def mix_word(x: int, word: int, mask: int) -> int:
    """Mix the bits of one word."""
    by1 = (x << 1) | (x >> (word - 1))
    by2 = (x << 2) | (x >> (word - 2))
    by8 = (x << 8) | (x >> (word - 8))
    return ((by1 & by8) ^ by2) & mask


def mix_words(x: WordArray, word: int) -> WordArray:
    """Mix the bits of each word of an array."""
    mask = np.uint32((1 << word) - 1)
    # Bits shifted beyond the 32nd are dropped; they lie above `word` and would be masked anyway.
    by1 = (x << np.uint32(1)) | (x >> np.uint32(word - 1))
    by2 = (x << np.uint32(2)) | (x >> np.uint32(word - 2))
    by8 = (x << np.uint32(8)) | (x >> np.uint32(word - 8))
    return ((by1 & by8) ^ by2) & mask


@functools.lru_cache(maxsize=16)
def _mixed_words(word: int) -> IndexArray:
    # As wide as an index: a lookup of other integers converts them first, which takes longer than itself.
    return mix_words(np.arange(1 << word, dtype=np.uint32), word).astype(np.int64)


@functools.lru_cache(maxsize=16)
def _mixed_words_for_ints(word: int) -> array.array[int]:
    return array.array("H", _mixed_words(word).astype(np.uint16).tobytes())


def encrypt(values: IndexArray, word: int, keys: Any) -> IndexArray:
    """Encrypt each value once; a key is an int, or an array with one key per value."""
    mask = (1 << word) - 1
    if word <= _LOOKUP_BITS:
        return _encrypt_by_lookup(values, word, [key & mask for key in keys])
    keys = [
        (key & mask).astype(np.uint32) if isinstance(key, np.ndarray) else np.uint32(key & mask)
        for key in keys
    ]
    left = (values >> word).astype(np.uint32)
    right = (values & mask).astype(np.uint32)
    for first, second in zip(keys[0::2], keys[1::2], strict=True):
        left ^= mix_words(right, word)
        left ^= first
        right ^= mix_words(left, word)
        right ^= second
    result: IndexArray = left.astype(np.int64)
    result <<= word
    result |= right
    return result


def _encrypt_by_lookup(values: IndexArray, word: int, keys: Sequence[Any]) -> IndexArray:
    """Encrypt values of few bits with the table of mixed words; keys have `word` bits."""
    mixed = _mixed_words(word)
    left, right = values >> word, values & ((1 << word) - 1)
    found = np.empty_like(left)
    for first, second in zip(keys[0::2], keys[1::2], strict=True):
        # All words are inside the table; clipping them is faster than a check, which copies `found`.
        mixed.take(right, out=found, mode="clip")
        left ^= found
        left ^= first
        mixed.take(left, out=found, mode="clip")
        right ^= found
        right ^= second
    left <<= word
    left |= right
    return left


@functools.lru_cache(maxsize=1024)
def _prepared(seed: int, word: int) -> tuple[Sequence[int], int, int, int, int]:
    """Return the table and the keys of the usual number of rounds, for single indices."""
    mask = (1 << word) - 1
    first, second, third, fourth = (key & mask for key in round_keys(seed, 4))
    return _mixed_words_for_ints(word), first, second, third, fourth


def encrypt_until_inside(index: int, max_index: int, seed: int, rounds: int) -> int:
    """Encrypt one index, again and again until it lies in `0..max_index`."""
    word = word_bits(max_index)
    mask = (1 << word) - 1
    left, right = index >> word, index & mask
    if rounds == 4 and word <= _LOOKUP_BITS:
        mixed, first, second, third, fourth = _prepared(seed, word)
        while True:
            left ^= mixed[right] ^ first
            right ^= mixed[left] ^ second
            left ^= mixed[right] ^ third
            right ^= mixed[left] ^ fourth
            value = (left << word) | right
            if value <= max_index:
                return value
    keys = round_keys(seed, rounds)
    pairs = [(keys[k] & mask, keys[k + 1] & mask) for k in range(0, len(keys), 2)]
    while True:
        for first, second in pairs:
            left ^= mix_word(right, word, mask) ^ first
            right ^= mix_word(left, word, mask) ^ second
        value = (left << word) | right
        if value <= max_index:
            return value
