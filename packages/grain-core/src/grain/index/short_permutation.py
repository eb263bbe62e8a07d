"""Permutations of short ranges: walks through the smallest block, and a cache of whole permutations.

The smallest block has 2**16 values, so an index of a range of n is encrypted 2**16 / n times on average
before it lies inside again. Two rounds of the cipher are one lookup in a fixed table of the block, with keys
that are only XORed between lookups; so a step is cheap, and indices of different ranges and seeds are walked
as one array.

A range that is used often gets a table of its whole permutation, which costs about as much as `_TABLE_STEPS`
steps of walks. The table is made when the range has cost that many steps, so the cost is at most about twice
that of the better choice, whatever the number of ranges and their lengths. Tables lie one after the other in
one array of fixed size, which starts again from empty when it is full.
"""

from __future__ import annotations

import array
import functools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from grain.index.cipher import IndexArray, encrypt, expand_seeds, round_keys

# Ranges of at most this many elements use the smallest block.
BLOCK_SIZE = 1 << 16
_TABLE_STEPS = 1 << 13
# Entries of 2 bytes: room for 32 of the largest tables, or for 20,000 of 100 elements.
_CAPACITY = 1 << 21
# Ranges that have no table yet and whose uses are counted.
_COUNTED = 1 << 14
# Fewer walks than this are faster one after the other than side by side.
_SIDE_BY_SIDE = 64
# From this many distinct seeds on, round keys are computed as arrays.
_MANY_SEEDS = 16
# How much smaller each nested range is when a table is made.
_SHRINK = 4

BlockArray = np.ndarray[Any, np.dtype[np.uint16]]


@functools.cache
def _two_rounds() -> BlockArray:
    """Return two rounds without keys of every value of the block."""
    return encrypt(np.arange(BLOCK_SIZE, dtype=np.int64), 8, (0, 0)).astype(np.uint16)


@functools.cache
def _two_rounds_for_ints() -> array.array[int]:
    return array.array("H", _two_rounds().tobytes())


def _block_keys(keys: Sequence[Any]) -> list[Any]:
    """Combine round keys to what is XORed before, between and after lookups of two rounds."""
    keys = [key & 0xFF for key in keys]
    inner = [low | high << 8 for low, high in zip(keys[1:-1:2], keys[2::2], strict=True)]
    return [keys[0] << 8, *inner, keys[-1]]


def _walk_one(index: int, max_index: int, keys: Sequence[int]) -> int:
    """Encrypt one index until it lies in `0..max_index`."""
    first: int
    first, *inner, last = _block_keys(keys)
    # The last key of a step and the first one of the next are one XOR.
    between: list[int] = [*inner, last ^ first]
    lookup = _two_rounds_for_ints()
    value = index ^ first
    if len(between) == 2:
        middle, outer = between
        while True:
            value = lookup[lookup[value] ^ middle] ^ outer
            if value ^ first <= max_index:
                return value ^ first
    while True:
        for key in between:
            value = lookup[value] ^ key
        if value ^ first <= max_index:
            return value ^ first


def _walk(indices: IndexArray, max_indices: IndexArray, keys: list[IndexArray]) -> IndexArray:
    """Encrypt each index with its keys until it lies in its range."""
    first, *inner, last = (key.astype(np.uint16) for key in _block_keys(keys))
    between = [*inner, last ^ first]
    limits = max_indices.astype(np.uint16)
    values = indices.astype(np.uint16) ^ first
    result = np.empty(indices.size, np.int64)
    active = np.arange(indices.size)
    lookup = _two_rounds()
    while active.size > _SIDE_BY_SIDE:
        for key in between:
            values = lookup.take(values)
            values ^= key
        found = values ^ first
        outside = found > limits
        if outside.all():
            continue
        inside = ~outside
        result[active[inside]] = found[inside]
        active, values, first, limits = (a[outside] for a in (active, values, first, limits))
        between = [key[outside] for key in between]
    for target, index in enumerate(active.tolist()):
        own = [int(key[index]) for key in keys]
        value = int(values[target] ^ first[target])
        result[index] = _walk_one(value, int(max_indices[index]), own)
    return result


def _make_table(max_index: int, keys: Sequence[int]) -> BlockArray:
    """Return the whole permutation of `0..max_index`.

    The cipher permutes the block. From a permutation of `0..m` follows the one of a shorter range: leave out
    what lies beyond it. Ranges shrink by a constant factor, so the work is that of the first one, times a
    constant.
    """
    first, *rest = _block_keys(keys)
    lookup = _two_rounds()
    rows = np.arange(256) ^ (first >> 8)
    steps: BlockArray = lookup.reshape(256, 256).take(rows, axis=0).ravel()
    for key in rest[:-1]:
        steps ^= np.uint16(key)
        steps = lookup.take(steps)
    steps ^= np.uint16(rest[-1])
    size, length = BLOCK_SIZE, max_index + 1
    while size > length:
        size = max(length, size // _SHRINK)
        ends = steps[:size].copy()
        active = np.flatnonzero(ends >= size)
        values = ends.take(active)
        while active.size > _SIDE_BY_SIDE:
            values = steps.take(values)
            ends[active] = values
            outside = np.flatnonzero(values >= size)
            active, values = active.take(outside), values.take(outside)
        item = steps.item
        for target, value in zip(active.tolist(), values.tolist(), strict=True):
            while value >= size:
                value = item(value)
            ends[target] = value
        steps = ends
    return steps


class _Tables:
    """Tables of whole permutations, one after the other in one array, by (max_index, seed, rounds)."""

    def __init__(self) -> None:
        # Memory that is not written is not used.
        self.entries: BlockArray = np.empty(_CAPACITY, np.uint16)
        self.starts: dict[tuple[int, int, int], int] = {}
        self.end = 0

    def add(self, key: tuple[int, int, int], table: BlockArray) -> bool:
        """Store a table, or return False if there is no room for it."""
        start, end = self.end, self.end + table.size
        if end > _CAPACITY:
            return False
        self.entries[start:end] = table
        self.end = end
        self.starts[key] = start
        return True


class ShortPermutations:
    """Permutations of short ranges, with a table for those that are used often.

    Threads share it: tables are replaced as a whole, and are written under a lock.
    """

    def __init__(self) -> None:
        self._tables = _Tables()
        self._uses: dict[tuple[int, int, int], int] = {}
        self._lock = threading.Lock()
        self.tables_made = 0

    def permute_one(self, index: int, max_index: int, seed: int, rounds: int) -> int:
        """Return where one index goes."""
        key = (max_index, seed, rounds)
        tables = self._tables
        start = tables.starts.get(key)
        if start is not None:
            return tables.entries.item(start + index)
        if self._pays(key, 1):
            return int(self._table(key)[index])
        return _walk_one(index, max_index, round_keys(seed, rounds))

    def permute(self, indices: IndexArray, max_index: int, seed: int, rounds: int) -> IndexArray:
        """Return where each index of one range goes."""
        key = (max_index, seed, rounds)
        tables = self._tables
        start = tables.starts.get(key)
        if start is not None:
            table = tables.entries[start : start + max_index + 1]
        elif self._pays(key, indices.size):
            table = self._table(key)
        else:
            keys = round_keys(seed, rounds)
            if indices.size <= _SIDE_BY_SIDE:
                walked = [_walk_one(index, max_index, keys) for index in indices.tolist()]
                return np.array(walked, np.int64)
            each = [np.full(indices.size, key) for key in keys]
            return _walk(indices, np.full(indices.size, max_index), each)
        return table.take(indices).astype(np.int64)

    def permute_each(
        self, indices: IndexArray, max_indices: IndexArray, seeds: IndexArray, rounds: int
    ) -> IndexArray:
        """Return where each index goes in its own range with its own seed."""
        if not indices.size:
            return indices
        ranges = max_indices << 32 | seeds
        order = np.argsort(ranges, kind="stable")
        in_order = ranges[order]
        ends = np.append(np.flatnonzero(in_order[1:] != in_order[:-1]) + 1, indices.size)
        counts = np.diff(ends, prepend=0)
        pairs = in_order[ends - 1]
        inverse = np.empty_like(order)
        inverse[order] = np.repeat(np.arange(ends.size), counts)
        tables = self._tables
        starts = []
        fresh: dict[int, BlockArray] = {}
        for number, (pair, count) in enumerate(zip(pairs.tolist(), counts.tolist(), strict=True)):
            key = (pair >> 32, pair & 0xFFFFFFFF, rounds)
            start = tables.starts.get(key)
            if start is None and self._pays(key, count):
                fresh[number] = self._table(key)
            starts.append(-1 if start is None else start)
        first = np.array(starts, np.int64)[inverse]
        # Entries of the ranges without a table are replaced below.
        result = tables.entries.take(np.maximum(first, 0) + indices).astype(np.int64)
        for number, table in fresh.items():
            here = order[ends[number] - counts[number] : ends[number]]
            result[here] = table.take(indices[here])
            first[here] = 0
        walking = np.flatnonzero(first < 0)
        if walking.size:
            own_seeds = seeds[walking]
            if walking.size < _MANY_SEEDS:
                each = [round_keys(seed, rounds) for seed in own_seeds.tolist()]
                keys = [np.array(column, np.int64) for column in zip(*each, strict=True)]
            else:
                keys = expand_seeds(own_seeds, rounds)
            result[walking] = _walk(indices[walking], max_indices[walking], keys)
        return result

    def _pays(self, key: tuple[int, int, int], uses: int) -> bool:
        """Count uses of a range without a table; return whether a table would have been cheaper."""
        uses += self._uses.get(key, 0)
        if uses * BLOCK_SIZE >= _TABLE_STEPS * (key[0] + 1):
            self._uses.pop(key, None)
            return True
        if len(self._uses) >= _COUNTED:
            self._uses = {}
        self._uses[key] = uses
        return False

    def _table(self, key: tuple[int, int, int]) -> BlockArray:
        """Make the table of a range, and keep it."""
        max_index, seed, rounds = key
        table = _make_table(max_index, round_keys(seed, rounds))
        with self._lock:
            self.tables_made += 1
            if key not in self._tables.starts and not self._tables.add(key, table):
                self._tables = _Tables()
                self._tables.add(key, table)
        return table
