"""The search for the bin of a sequence: first fit, best fit, or as a subclass chooses.

A set of bins has at most 64 of them in most programs, so numbers in lists are faster than arrays. A search
depends on the number of bins only in rare cases: bins lose room and never gain any, so bins that were too
full for sequences of some size stay so.
"""

from __future__ import annotations

import abc
import bisect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grain.index.permutation import IndexArray

Flags = np.ndarray[Any, np.dtype[np.bool_]]
ChooseBin = Callable[[Flags, IndexArray], int]

_CLOSED = -1


class BinSearch(abc.ABC):
    """The room of the bins of one set, and the rule that chooses among them.

    Args:
        lengths: Cells of each feature in an empty bin.
        most: Number of bins of the set.

    Attributes:
        rooms: For each feature, the free cells of each bin: of the bins in use, and of one empty bin if the
            set has one left. A closed bin has less than none.
    """

    def __init__(self, lengths: Sequence[int], most: int):
        self._lengths = lengths
        self._most = most
        self.rooms: list[list[int]] = [[length] for length in lengths]

    @abc.abstractmethod
    def find(self, sizes: Sequence[int]) -> int:
        """Return the bin for sequences of these sizes, one of each feature; -1 if they fit into none."""

    def take(self, number: int, sizes: Sequence[int]) -> None:
        """Reduce the room of a bin."""
        rooms = self.rooms
        for room, size in zip(rooms, sizes, strict=True):
            room[number] -= size
        used = len(rooms[0])
        if number == used - 1 and used < self._most:
            for room, length in zip(rooms, self._lengths, strict=True):
                room.append(length)

    def close(self, number: int) -> None:
        """Take no more sequences into a bin."""
        self.rooms[0][number] = _CLOSED


class FirstFitSearch(BinSearch):
    """The first bin with enough room.

    >>> search = FirstFitSearch([4], 3)
    >>> search.find([3])
    0
    >>> search.take(0, [3])
    >>> search.find([2]), search.find([1]), search.find([5])
    (1, 0, -1)
    """

    def __init__(self, lengths: Sequence[int], most: int):
        super().__init__(lengths, most)
        # By the number of bits of a size: the first bin that may have room for sizes of as many bits.
        self._first: dict[int, int] = {}

    def find(self, sizes: Sequence[int]) -> int:
        size, room = sizes[0], self.rooms[0]
        bits = size.bit_length()
        number, count = self._first.get(bits, 0), len(room)
        least = 1 << bits >> 1
        while number < count and room[number] < least:
            number += 1
        self._first[bits] = number
        several = len(sizes) > 1
        while number < count:
            if room[number] >= size and (not several or self._has_room(number, sizes)):
                return number
            number += 1
        return -1

    def _has_room(self, number: int, sizes: Sequence[int]) -> bool:
        for room, size in zip(self.rooms, sizes, strict=True):  # noqa: SIM110 - faster than `all`
            if room[number] < size:
                return False
        return True


class BestFitSearch(BinSearch):
    """The fullest bin with enough room; of equally full ones, the first.

    >>> search = BestFitSearch([4], 3)
    >>> search.take(0, [1])
    >>> search.take(1, [2])
    >>> search.find([2]), search.find([3]), search.find([4])
    (1, 0, 2)
    """

    def __init__(self, lengths: Sequence[int], most: int):
        super().__init__(lengths, most)
        self._several = len(lengths) > 1
        # The room of all features together and the number of each open bin, fullest first.
        self._total = sum(lengths)
        self._order = [(self._total, 0)]

    def find(self, sizes: Sequence[int]) -> int:
        order, rooms = self._order, self.rooms
        first = bisect.bisect_left(order, (sum(sizes), -1))
        if not self._several:
            return order[first][1] if first < len(order) else -1
        for _, number in order[first:]:
            if all(room[number] >= size for room, size in zip(rooms, sizes, strict=True)):
                return number
        return -1

    def take(self, number: int, sizes: Sequence[int]) -> None:
        before = sum([room[number] for room in self.rooms])
        count = len(self.rooms[0])
        super().take(number, sizes)
        del self._order[bisect.bisect_left(self._order, (before, number))]
        bisect.insort(self._order, (before - sum(sizes), number))
        if len(self.rooms[0]) > count:
            bisect.insort(self._order, (self._total, count))

    def close(self, number: int) -> None:
        self._order = [entry for entry in self._order if entry[1] != number]


class ChosenBinSearch(BinSearch):
    """The bin that a function chooses, given which bins have room and how full they are."""

    def __init__(self, lengths: Sequence[int], most: int, choose: ChooseBin):
        super().__init__(lengths, most)
        self._choose = choose
        self._total = sum(lengths)
        self._closed: set[int] = set()

    def find(self, sizes: Sequence[int]) -> int:
        rooms = np.array(self.rooms)
        fits: Flags = np.all(rooms >= np.array(sizes)[:, None], axis=0)
        fits[list(self._closed)] = False
        number = self._choose(fits, self._total - rooms.sum(axis=0))
        return number if fits[number] else -1

    def close(self, number: int) -> None:
        self._closed.add(number)
