"""A permutation of 0..max_index that needs no memory: a small block cipher, walked until it stays inside.

The cipher splits a value into two halves of `w` bits and mixes them with round keys that depend on the
seed alone. Values that leave the range are encrypted again; since the cipher is a bijection on its
block, the walk returns into the range and the result is a permutation, whatever the length.
"""

from __future__ import annotations

import functools
from typing import Any, overload

import numpy as np

IndexArray = np.ndarray[Any, np.dtype[np.int64]]
WordArray = np.ndarray[Any, np.dtype[np.uint32]]

_MASK32 = 0xFFFFFFFF
# Up to this many elements the whole permutation is tabulated once per seed: the block is never
# smaller than 16 bits, so walking it one index at a time would take thousands of steps.
_TABLE_LIMIT = 1 << 16
_LOOKUP_BITS = 16


@overload
def index_shuffle(index: int, max_index: int, seed: int, rounds: int = 4) -> int: ...
@overload
def index_shuffle(index: IndexArray, max_index: int, seed: int, rounds: int = 4) -> IndexArray: ...
def index_shuffle(
    index: int | IndexArray, max_index: int, seed: int, rounds: int = 4
) -> int | IndexArray:
    """Returns where `index` goes in the permutation of `0..max_index` that `seed` chooses.

    Args:
      index: one index, or an int64 array of indices, each in `0..max_index`.
      max_index: the largest index, inclusive; below 2**63.
      seed: chooses the permutation; `0 <= seed < 2**32`.
      rounds: rounds of mixing; even, at least 2.

    When `max_index` is 2**k with k even and at least 16, this function keeps the block that earlier
    releases of this API used, which is one bit short: `index` 0 and `max_index` then go to the same
    place. `MapDataset.shuffle` has no such case: it is a permutation for every length.

    >>> sorted(index_shuffle(i, max_index=9, seed=42) for i in range(10))
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    max_index, seed, rounds = _checked_arguments(max_index, seed, rounds)
    if isinstance(index, np.ndarray):
        if index.size and (int(index.min()) < 0 or int(index.max()) > max_index):
            raise ValueError(
                f"index_shuffle: indices must lie in 0..max_index={max_index}, but they span "
                f"{int(index.min())}..{int(index.max())}."
            )
        if _has_short_block(max_index):
            return permute(index % max_index, max_index - 1, seed, rounds)
        return permute(index, max_index, seed, rounds)
    if not hasattr(index, "__index__"):
        raise TypeError(
            f"index_shuffle: index must be an integer or an array of integers, got {index!r} of type "
            f"{type(index).__name__}."
        )
    if not 0 <= index <= max_index:
        raise ValueError(f"index_shuffle: index {index} is outside of 0..max_index={max_index}.")
    if _has_short_block(max_index):
        return permute_one(int(index) % max_index, max_index - 1, seed, rounds)
    return permute_one(int(index), max_index, seed, rounds)


def _has_short_block(max_index: int) -> bool:
    bits = max_index.bit_length()
    return bits > 16 and bits % 2 == 1 and max_index == 1 << (bits - 1)


def _checked_arguments(max_index: int, seed: int, rounds: int) -> tuple[int, int, int]:
    """The arguments as Python's integers, which numpy's are not."""
    for name, value in (("max_index", max_index), ("seed", seed), ("rounds", rounds)):
        if not hasattr(value, "__index__"):
            raise TypeError(
                f"index_shuffle: {name} must be an integer, got {value!r} of type "
                f"{type(value).__name__}."
            )
    max_index, seed, rounds = int(max_index), int(seed), int(rounds)
    if not 0 <= max_index < 2**63:
        raise ValueError(f"index_shuffle: max_index must be in [0, 2**63), got {max_index}.")
    if not 0 <= seed < 2**32:
        raise ValueError(f"index_shuffle: seed must be in [0, 2**32), got {seed}.")
    if rounds < 2 or rounds % 2:
        raise ValueError(f"index_shuffle: rounds must be an even number >= 2, got {rounds}.")
    return max_index, seed, rounds


def permute(indices: IndexArray, max_index: int, seed: int, rounds: int = 4) -> IndexArray:
    """Permutes an array of indices that are known to lie in `0..max_index`.

    >>> permute(np.arange(6), max_index=5, seed=42).tolist()
    [4, 1, 2, 3, 0, 5]
    """
    if max_index == 0:
        return np.zeros_like(indices)
    if max_index < _TABLE_LIMIT:
        return _table(max_index, seed, rounds)[indices]
    word = _word_bits(max_index)
    keys = round_keys(seed, rounds)
    values = _encrypt(indices, word, keys)
    # Compared without sign: a block of 64 bits reaches beyond what an int64 holds.
    outside = np.flatnonzero(values.view(np.uint64) > max_index)
    while outside.size:
        again = _encrypt(values[outside], word, keys)
        values[outside] = again
        outside = outside[again.view(np.uint64) > max_index]
    return values


def permute_one(index: int, max_index: int, seed: int, rounds: int = 4) -> int:
    """Permutes one index that is known to lie in `0..max_index`."""
    if max_index == 0:
        return 0
    if max_index < _TABLE_LIMIT:
        return int(_table(max_index, seed, rounds)[index])
    word = _word_bits(max_index)
    mask = (1 << word) - 1
    keys = round_keys(seed, rounds)
    value = index
    while True:
        left, right = value >> word, value & mask
        for first, second in zip(keys[0::2], keys[1::2], strict=True):
            left ^= _feistel(right, word, mask) ^ (first & mask)
            right ^= _feistel(left, word, mask) ^ (second & mask)
        value = (left << word) | right
        if value <= max_index:
            return value


@functools.lru_cache(maxsize=64)
def round_keys(seed: int, rounds: int) -> tuple[int, ...]:
    """Expands a 32-bit seed to `rounds` words, as the C++ standard defines `std::seed_seq`."""
    words = [0x8B8B8B8B] * rounds
    shift = 11 if rounds >= 623 else 7 if rounds >= 68 else 5 if rounds >= 39 else 3
    if rounds < 7:
        shift = (rounds - 1) // 2
    near = (rounds - shift) // 2
    far = near + shift
    seeds = (seed & _MASK32,)
    steps = max(len(seeds) + 1, rounds)
    for k in range(steps):
        here, p, q, back = k % rounds, (k + near) % rounds, (k + far) % rounds, (k - 1) % rounds
        first = 1664525 * _fold(words[here] ^ words[p] ^ words[back]) & _MASK32
        if k == 0:
            second = first + len(seeds)
        elif k <= len(seeds):
            second = first + here + seeds[k - 1]
        else:
            second = first + here
        second &= _MASK32
        words[p] = (words[p] + first) & _MASK32
        words[q] = (words[q] + second) & _MASK32
        words[here] = second
    for k in range(steps, steps + rounds):
        here, p, q, back = k % rounds, (k + near) % rounds, (k + far) % rounds, (k - 1) % rounds
        first = 1566083941 * _fold((words[here] + words[p] + words[back]) & _MASK32) & _MASK32
        second = (first - here) & _MASK32
        words[p] ^= first
        words[q] ^= second
        words[here] = second
    return tuple(words)


def _fold(x: int) -> int:
    return x ^ (x >> 27)


def _word_bits(max_index: int) -> int:
    """Half the block: the bits that hold `max_index`, made even, at least 16."""
    bits = max(16, max_index.bit_length())
    return (bits + 1) // 2


def _feistel(x: int, word: int, mask: int) -> int:
    by1 = (x << 1) | (x >> (word - 1))
    by2 = (x << 2) | (x >> (word - 2))
    by8 = (x << 8) | (x >> (word - 8))
    return ((by1 & by8) ^ by2) & mask


@functools.lru_cache(maxsize=16)
def _feistel_table(word: int) -> WordArray:
    """All values of the mixing function for words of at most 16 bits."""
    return _feistel_array(np.arange(1 << word, dtype=np.uint32), word)


def _feistel_array(x: WordArray, word: int) -> WordArray:
    mask = np.uint32((1 << word) - 1)
    # Bits shifted beyond the 32nd are dropped; they lie above `word` and would be masked anyway.
    by1 = (x << np.uint32(1)) | (x >> np.uint32(word - 1))
    by2 = (x << np.uint32(2)) | (x >> np.uint32(word - 2))
    by8 = (x << np.uint32(8)) | (x >> np.uint32(word - 8))
    return ((by1 & by8) ^ by2) & mask


def _encrypt(values: IndexArray, word: int, keys: tuple[int, ...]) -> IndexArray:
    mask = (1 << word) - 1
    left = (values >> word).astype(np.uint32)
    right = (values & mask).astype(np.uint32)
    if word <= _LOOKUP_BITS:
        table = _feistel_table(word)
        for first, second in zip(keys[0::2], keys[1::2], strict=True):
            left ^= table[right]
            left ^= np.uint32(first & mask)
            right ^= table[left]
            right ^= np.uint32(second & mask)
    else:
        for first, second in zip(keys[0::2], keys[1::2], strict=True):
            left ^= _feistel_array(right, word)
            left ^= np.uint32(first & mask)
            right ^= _feistel_array(left, word)
            right ^= np.uint32(second & mask)
    result: IndexArray = left.astype(np.int64)
    result <<= word
    result |= right
    return result


@functools.lru_cache(maxsize=32)
def _table(max_index: int, seed: int, rounds: int) -> IndexArray:
    """The whole permutation of a small range.

    Walks all indices at once: `jump` leads every value outside of the range one step on and keeps the
    others where they are; squared a few times it leads each first step to where its walk ends.
    """
    word = _word_bits(max_index)
    block = np.arange(1 << (2 * word), dtype=np.int64)
    jump = _encrypt(block, word, round_keys(seed, rounds))
    first = jump[: max_index + 1].copy()
    jump[: max_index + 1] = block[: max_index + 1]
    ends = jump[first]
    while (ends > max_index).any():
        jump = jump.take(jump)
        ends = jump.take(first)
    ends.setflags(write=False)
    return ends


def shuffle_epochs(indices: IndexArray, length: int, seed: int) -> IndexArray:
    """Shuffles each epoch of a dataset of `length` by itself: epoch `e` uses seed `seed + e`.

    An index past the end belongs to a later epoch, and its result stays in that epoch.

    >>> shuffle_epochs(np.arange(8), length=4, seed=1).tolist()
    [1, 2, 3, 0, 4, 7, 5, 6]
    """
    if not indices.size:
        return indices
    first, last = int(indices[0]) // length, int(indices[-1]) // length
    if first == last:
        # The usual case is a stretch of one epoch; whether the middle agrees is checked cheaply.
        within = indices - first * length
        if int(within.min()) >= 0 and int(within.max()) < length:
            return permute(within, length - 1, (seed + first) % 2**32) + first * length
    epochs = indices // length
    within = indices - epochs * length
    result = np.empty_like(indices)
    for epoch in np.unique(epochs).tolist():
        here = epochs == epoch
        shuffled = permute(within[here], length - 1, (seed + epoch) % 2**32)
        result[here] = shuffled + epoch * length
    return result


def shuffle_one(index: int, length: int, seed: int) -> int:
    """What `shuffle_epochs` makes of one index, in a tenth of the time.

    >>> [shuffle_one(index, length=4, seed=1) for index in range(8)]
    [1, 2, 3, 0, 4, 7, 5, 6]
    """
    epoch, within = divmod(index, length)
    return permute_one(within, length - 1, (seed + epoch) % 2**32) + epoch * length


def shuffle_windows(indices: IndexArray, length: int, window: int, seed: int) -> IndexArray:
    """Shuffles each window of consecutive indices inside itself: window `i` uses seed `seed + i`.

    Windows are cut anew in every epoch, the last one of an epoch may be short, and the numbering goes
    on from epoch to epoch.

    >>> shuffle_windows(np.arange(8), length=4, window=2, seed=1).tolist()
    [1, 0, 2, 3, 4, 5, 7, 6]
    """
    per_epoch = -(-length // window)
    epochs = indices // length
    within = indices - epochs * length
    inside = within // window
    numbers = epochs * per_epoch + inside
    starts = inside * window
    result = np.empty_like(indices)
    for number in np.unique(numbers).tolist():
        here = numbers == number
        start = int(starts[here][0])
        size = min(window, length - start)
        offset = int(epochs[here][0]) * length + start
        seed_here = (seed + number) % 2**32
        result[here] = permute(within[here] - start, size - 1, seed_here) + offset
    return result
