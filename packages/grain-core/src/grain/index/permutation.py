"""Permutations of 0..max_index that need no memory: a small block cipher, walked until it stays inside.

The cipher (`grain.index.cipher`) is a bijection on a block of values that is a power of 4. Values outside of
the range are encrypted again; the walk returns into the range, and the result is a permutation, whatever the
length. Ranges much shorter than the smallest block have a faster way (`grain.index.short_permutation`).
"""

from __future__ import annotations

from typing import overload

import numpy as np

from grain.index.cipher import (
    IndexArray,
    distinct,
    encrypt,
    encrypt_until_inside,
    expand_seeds,
    round_keys,
    word_bits,
)
from grain.index.short_permutation import BLOCK_SIZE, ShortPermutations

__all__ = [
    "IndexArray",
    "index_shuffle",
    "permute",
    "permute_each",
    "permute_one",
    "shuffle_each",
    "shuffle_epochs",
    "shuffle_one",
    "shuffle_one_in_window",
    "shuffle_windows",
]

# Up to this number, single indices are encrypted faster than an array.
_FEW_INDICES = 12
# Up to this many epochs of a long dataset, a call per epoch is faster than round keys per index.
_FEW_EPOCHS = 8

_short = ShortPermutations()


@overload
def index_shuffle(index: int, max_index: int, seed: int, rounds: int = 4) -> int: ...
@overload
def index_shuffle(index: IndexArray, max_index: int, seed: int, rounds: int = 4) -> IndexArray: ...
def index_shuffle(
    index: int | IndexArray, max_index: int, seed: int, rounds: int = 4
) -> int | IndexArray:
    """Return where `index` goes in the permutation of `0..max_index` that `seed` chooses.

    Args:
        index: one index, or an int64 array of indices, each in `0..max_index`.
        max_index: the largest index, inclusive; below 2**63.
        seed: chooses the permutation; `0 <= seed < 2**32`.
        rounds: rounds of mixing; even, from 4 to 1024.

    When `max_index` is 2**k with k even and at least 16, this function keeps the block that earlier
    releases of this API used, which is one bit short: `index` 0 and `max_index` then have the same
    result. `MapDataset.shuffle` has no such case: it is a permutation for every length.

    >>> sorted(index_shuffle(i, max_index=9, seed=42) for i in range(10))
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    max_index, seed, rounds = _checked_arguments(max_index, seed, rounds)
    if isinstance(index, np.ndarray):
        if index.size and (int(index.min()) < 0 or int(index.max()) > max_index):
            wrong = int(index.min()) if int(index.min()) < 0 else int(index.max())
            raise _outside(wrong, max_index)
        if _has_short_block(max_index):
            return permute(index % max_index, max_index - 1, seed, rounds)
        return permute(index, max_index, seed, rounds)
    if not hasattr(index, "__index__"):
        raise TypeError(
            f"index_shuffle: index must be an integer or an array of integers, got {index!r} of type "
            f"{type(index).__name__}."
        )
    if not 0 <= index <= max_index:
        raise _outside(index, max_index)
    if _has_short_block(max_index):
        return permute_one(int(index) % max_index, max_index - 1, seed, rounds)
    return permute_one(int(index), max_index, seed, rounds)


def _outside(index: int, max_index: int) -> ValueError:
    # Message kept from google/grain 0.2.18
    return ValueError(
        f"index must be in [0, max_index], but got index = {index} and max_index = {max_index}"
    )


def _has_short_block(max_index: int) -> bool:
    bits = max_index.bit_length()
    return bits > 16 and bits % 2 == 1 and max_index == 1 << (bits - 1)


def _checked_arguments(max_index: int, seed: int, rounds: int) -> tuple[int, int, int]:
    """Return the arguments as Python integers, or raise an error that names the wrong one."""
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
    if rounds % 2 or not 4 <= rounds <= 1024:
        # Message kept from google/grain 0.2.18
        raise ValueError(
            f"rounds must be an even integer between 4 and 1024, but got rounds = {rounds}"
        )
    return max_index, seed, rounds


def permute(indices: IndexArray, max_index: int, seed: int, rounds: int = 4) -> IndexArray:
    """Permute an array of indices that are known to lie in `0..max_index`.

    >>> permute(np.arange(6), max_index=5, seed=42).tolist()
    [4, 1, 2, 3, 0, 5]
    """
    if max_index == 0:
        return np.zeros_like(indices)
    if max_index < BLOCK_SIZE:
        return _short.permute(indices, max_index, seed, rounds)
    word = word_bits(max_index)
    keys = round_keys(seed, rounds)
    values = encrypt(indices, word, keys)
    # Compared without sign: a block of 64 bits reaches beyond what an int64 holds.
    outside = np.flatnonzero(values.view(np.uint64) > max_index)
    while outside.size > _FEW_INDICES:
        again = encrypt(values[outside], word, keys)
        values[outside] = again
        outside = outside[again.view(np.uint64) > max_index]
    if outside.size:
        unsigned = values.view(np.uint64)[outside].tolist()
        values[outside] = [
            encrypt_until_inside(value, max_index, seed, rounds) for value in unsigned
        ]
    return values


def permute_one(index: int, max_index: int, seed: int, rounds: int = 4) -> int:
    """Permute one index that is known to lie in `0..max_index`."""
    if max_index == 0:
        return 0
    if max_index < BLOCK_SIZE:
        return _short.permute_one(index, max_index, seed, rounds)
    return encrypt_until_inside(index, max_index, seed, rounds)


def permute_each(
    indices: IndexArray, max_indices: IndexArray, seeds: IndexArray, rounds: int = 4
) -> IndexArray:
    """Permute each index in its own range `0..max_index` with its own seed.

    The cost does not depend on the number of different ranges and seeds.

    >>> permute_each(np.array([0, 0, 1]), np.array([5, 5, 3]), np.array([42, 43, 1])).tolist()
    [4, 2, 2]
    """
    short = max_indices < BLOCK_SIZE
    single = max_indices == 0
    if short.all() and not single.any():
        return _short.permute_each(indices, max_indices, seeds, rounds)
    result = np.zeros_like(indices)
    short &= ~single
    if short.any():
        result[short] = _short.permute_each(
            indices[short], max_indices[short], seeds[short], rounds
        )
    long = np.flatnonzero(max_indices >= BLOCK_SIZE)
    words = np.array([word_bits(max_index) for max_index in max_indices[long].tolist()])
    for word in distinct(words).tolist():
        here = long[words == word]
        keys = expand_seeds(seeds[here], rounds)
        limits = max_indices[here].view(np.uint64)
        values = indices[here]
        while True:
            values = encrypt(values, word, keys)
            inside = values.view(np.uint64) <= limits
            result[here[inside]] = values[inside]
            outside = ~inside
            here, values, limits = here[outside], values[outside], limits[outside]
            if not here.size:
                break
            keys = [key[outside] for key in keys]
    return result


def shuffle_epochs(indices: IndexArray, length: int, seed: int) -> IndexArray:
    """Shuffle each epoch of a dataset of `length` by itself: epoch `e` uses seed `seed + e`.

    An index past the end belongs to a later epoch, and its result stays in that epoch.

    >>> shuffle_epochs(np.arange(8), length=4, seed=1).tolist()
    [1, 2, 3, 0, 4, 7, 5, 6]
    """
    if not indices.size:
        return indices
    first, last = int(indices[0]) // length, int(indices[-1]) // length
    if first == last:
        # Usually all indices are of one epoch; whether those in the middle are is checked cheaply.
        within = indices - first * length
        if int(within.min()) >= 0 and int(within.max()) < length:
            return permute(within, length - 1, (seed + first) % 2**32) + first * length
    epochs = indices // length
    starts = epochs * length
    within = indices - starts
    different = distinct(epochs) if length > BLOCK_SIZE else epochs
    if different.size > _FEW_EPOCHS or length <= BLOCK_SIZE:
        last_indices = np.full(indices.size, length - 1, np.int64)
        return permute_each(within, last_indices, (seed + epochs) % 2**32) + starts
    result = np.empty_like(indices)
    for epoch in different.tolist():
        here = epochs == epoch
        shuffled = permute(within[here], length - 1, (seed + epoch) % 2**32)
        result[here] = shuffled + epoch * length
    return result


def shuffle_each(indices: IndexArray, lengths: IndexArray, seeds: IndexArray) -> IndexArray:
    """Shuffle each index like `shuffle_epochs`, in a dataset of its own length with its own seed.

    >>> shuffle_each(np.array([0, 4, 1]), np.array([4, 4, 2]), np.array([1, 1, 1])).tolist()
    [1, 4, 0]
    """
    epochs = indices // lengths
    starts = epochs * lengths
    return permute_each(indices - starts, lengths - 1, (seeds + epochs) % 2**32) + starts


def shuffle_one(index: int, length: int, seed: int) -> int:
    """Return what `shuffle_epochs` makes of one index, without arrays.

    >>> [shuffle_one(index, length=4, seed=1) for index in range(8)]
    [1, 2, 3, 0, 4, 7, 5, 6]
    """
    epoch, within = divmod(index, length)
    return permute_one(within, length - 1, (seed + epoch) % 2**32) + epoch * length


def shuffle_windows(indices: IndexArray, length: int, window: int, seed: int) -> IndexArray:
    """Shuffle each window of consecutive indices inside itself: window `i` uses seed `seed + i`.

    Every epoch starts a new window, the last window of an epoch may be short, and windows are counted across
    epochs.

    >>> shuffle_windows(np.arange(8), length=4, window=2, seed=1).tolist()
    [1, 0, 2, 3, 4, 5, 7, 6]
    """
    per_epoch = -(-length // window)
    epochs = indices // length
    within = indices - epochs * length
    windows = within // window
    starts = windows * window
    max_indices = np.minimum(length - starts, window) - 1
    seeds = (seed + epochs * per_epoch + windows) % 2**32
    return permute_each(within - starts, max_indices, seeds) + (epochs * length + starts)


def shuffle_one_in_window(index: int, length: int, window: int, seed: int) -> int:
    """Return what `shuffle_windows` makes of one index, without arrays.

    >>> [shuffle_one_in_window(index, length=4, window=2, seed=1) for index in range(8)]
    [1, 0, 2, 3, 4, 5, 7, 6]
    """
    epoch, within = divmod(index, length)
    number, inside = divmod(within, window)
    start = number * window
    own_seed = (seed + epoch * -(-length // window) + number) % 2**32
    max_index = min(window, length - start) - 1
    return permute_one(inside, max_index, own_seed) + epoch * length + start
