"""Mixing: which component gives element k of a weighted mixture, and which of its elements it is.

A mixture is a chain: component 0 takes its share of all elements, component 1 takes its share of the elements
that are left, and so on. With `w` the weight of a component and `r` the weight of the components from it on,
element `k` of those left is taken if `k * (r - w) % r < w`; otherwise it is element `k * (r - w) // r` of the
elements left for the next component. So one element costs a step per component.

A range of consecutive elements costs less. The elements left of a range for the next component are a range
again, and the elements that a component takes of it have a closed form. Only their order has to be found:
`_interleave` merges components pairwise, in a logarithmic number of steps over arrays.

The mixture repeats with the sum of its weights, divided by their greatest common divisor. A short period is
tabulated page by page, as its elements are selected; of a long one, the last range is kept.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from grain.index.cipher import IndexArray, distinct

# Up to this length a period is tabulated.
_TABLE_LIMIT = 1 << 20
_SHORT_PERIOD = 1 << 15
# Elements that are selected together: twice the number of components, within these bounds.
_SMALLEST_PAGE, _LARGEST_PAGE = 1 << 9, 1 << 15
# Beyond, the products of array arithmetic would leave 64 bits, or the quotients 53.
_EXACT_PRODUCTS, _EXACT_QUOTIENTS = 1 << 31, 1 << 52

# Estimated cost in units of 10 ns: of one element of a page, of one step of the chain for one element by
# itself, and of one step of the chain for an array, of which so much does not depend on its size.
_PAGE_COST, _SCALAR_COST, _ARRAY_OVERHEAD = 150, 13, 700


def integer_weights(weights: Sequence[float], distinct: Set[float] | None = None) -> list[int]:
    """Scale weights to integers, keeping two digits beyond the smallest one.

    Args:
        weights: The weights.
        distinct: The different weights among them, if all are known to be of type int or float.

    >>> integer_weights([0.5, 0.25])
    [200, 100]
    """
    # Numbers of other types may have another precision.
    if distinct is None and set(map(type, weights)) <= {int, float}:
        distinct = set(weights)
    if distinct is None:
        scale = 100 / min(weights)
        return [int(weight * scale) for weight in weights]
    scale = 100 / min(distinct)
    if 4 * len(distinct) < len(weights):
        scaled_of = {weight: int(weight * scale) for weight in distinct}
        return list(map(scaled_of.__getitem__, weights))
    if max(distinct) * scale < 2**62:
        scaled: list[int] = (np.array(weights, dtype=np.float64) * scale).astype(np.int64).tolist()
        return scaled
    return [int(weight * scale) for weight in weights]


def mixed_length(lengths: Sequence[int], weights: Sequence[int]) -> int:
    """Return how many elements a mixture has before its first component is exhausted.

    >>> mixed_length([10, 3], weights=[1, 1])
    6
    """
    total = sum(weights)
    if lengths.count(lengths[0]) == len(lengths):
        pairs = {(lengths[0], max(weights))}  # The component that is read most is exhausted first.
    else:
        pairs = set(zip(lengths, weights, strict=True))
    return min(int(min(length / (weight / total) for length, weight in pairs)), sys.maxsize)


def count_taken(weights: Sequence[int], count: int) -> list[int]:
    """Return how many of the first `count` elements of a mixture each component gives.

    >>> count_taken([2, 1], 4)
    [3, 1]
    """
    remaining, left, taken = sum(weights), count, []
    for weight in weights:
        further = left * (remaining - weight) // remaining
        taken.append(left - further)
        remaining, left = remaining - weight, further
    return taken


class Mixture:
    """The selection of a weighted mixture.

    >>> mixture = Mixture([2, 1])
    >>> components, elements = mixture.select(np.arange(6))
    >>> components.tolist(), elements.tolist()
    ([0, 0, 1, 0, 0, 1], [0, 1, 0, 2, 3, 1])
    >>> mixture.select_one(4)
    (0, 3)
    """

    def __init__(self, weights: Sequence[int]):
        self.weights = tuple(weights)
        # Made when first needed; the last range is replaced as a whole, so threads may share a mixture.
        self._chain: list[tuple[int, int, int]] | None = None
        self._table: _Table | None = None
        self._last_range: tuple[int, IndexArray, IndexArray] = (0, _EMPTY, _EMPTY)
        self._last_index = -1
        # Cost of elements selected by themselves that pages would have held.
        self._spent = 0

    def __getstate__(self) -> tuple[int, ...]:
        return self.weights

    def __setstate__(self, weights: tuple[int, ...]) -> None:
        self.__init__(weights)  # type: ignore[misc]

    @property
    def tabulated(self) -> int:
        """How many elements are tabulated."""
        kept = 0 if self._table is None else int(self._table.filled.sum()) * self._page_size
        return min(kept, self.period) + self._last_range[1].size

    @functools.cached_property
    def _reduced(self) -> list[int]:
        divisor = math.gcd(*self.weights)
        return [weight // divisor for weight in self.weights]

    @functools.cached_property
    def period(self) -> int:
        """Number of elements after which the mixture repeats."""
        return sum(self._reduced)

    @functools.cached_property
    def _page_size(self) -> int:
        wanted = max(_SMALLEST_PAGE, 2 * len(self.weights))
        return min(self.period, _LARGEST_PAGE, wanted)

    def select(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        """Return the component of each element, and which of the component's elements it is."""
        if not indices.size:
            return _EMPTY, _EMPTY
        if self.period <= _TABLE_LIMIT:
            return self._select_in_table(indices)
        first = int(indices[0])
        if not _is_range(indices, first):
            return self._select_each(indices)
        start, components, elements = self._last_range
        begin, end = first - start, first - start + indices.size
        if begin < 0 or end > components.size:
            count = max(indices.size, self._page_size)
            components, elements = self._select_range(first, count)
            self._last_range = (first, components, elements)
            begin, end = 0, indices.size
        return components[begin:end], elements[begin:end]

    def select_one(self, index: int) -> tuple[int, int]:
        """Return the component of one element, and which of the component's elements it is."""
        start, components, elements = self._last_range
        if 0 <= index - start < components.size:
            return components.item(index - start), elements.item(index - start)
        epoch, position = divmod(index, self.period)
        previous, self._last_index = self._last_index, index
        if self.period <= _TABLE_LIMIT:
            table = self._table or self._make_table()
            page = position // self._page_size
            if not table.filled[page]:
                self._spent += len(self._reduced) * _SCALAR_COST
                if index != previous + 1 and self._spent < _PAGE_COST * self._page_size:
                    return self._walk_chain(epoch, position)
                self._spent = 0
                self._fill(table, [page])
            component = table.components.item(position)
            return component, table.elements.item(position) + epoch * self._reduced[component]
        if index == previous + 1 and index < 2**62:
            self._last_range = (index, *self._select_range(index, self._page_size))
            _, components, elements = self._last_range
            return components.item(0), elements.item(0)
        return self._walk_chain(epoch, position)

    def _steps(self) -> list[tuple[int, int, int]]:
        """Return (weight of the components after it, weight of those from it on, its weight) of each."""
        if self._chain is None:
            from_here = list(itertools.accumulate(reversed(self._reduced)))[::-1]
            self._chain = list(zip([*from_here[1:], 0], from_here, self._reduced, strict=True))
        return self._chain

    def _walk_chain(self, epoch: int, position: int) -> tuple[int, int]:
        left = position
        for component, (after, remaining, weight) in enumerate(self._steps()):
            passed, rest = divmod(left * after, remaining)
            if rest < weight:
                return component, left - passed + epoch * weight
            left = passed
        raise AssertionError(f"No component takes element {position} of {self.weights}.")

    def _select_in_table(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        epochs = indices // self.period
        positions = indices - epochs * self.period
        table = self._table or self._make_table()
        if not table.is_full:
            pages = distinct(positions // self._page_size)
            missing = pages[~table.filled[pages]].tolist()
            if missing:
                if not _is_range(indices, int(indices[0])):
                    self._spent += len(self._reduced) * (indices.size + _ARRAY_OVERHEAD)
                    if self._spent < _PAGE_COST * self._page_size * len(missing):
                        return self._select_each(indices)
                    self._spent = 0
                self._fill(table, missing)
        components = table.components.take(positions).astype(np.int64, copy=False)
        elements = table.elements.take(positions).astype(np.int64, copy=False)
        elements += epochs * table.weights.take(components)
        return components, elements

    def _make_table(self) -> _Table:
        self._table = _Table(self._reduced, self.period, -(-self.period // self._page_size))
        return self._table

    def _fill(self, table: _Table, pages: Sequence[int]) -> None:
        for page in pages:
            start = page * self._page_size
            end = min(start + self._page_size, self.period)
            table.components[start:end], table.elements[start:end] = self._select_range(
                start, end - start
            )
            table.filled[page] = True  # Not before its page is written: threads may share a table.
        table.is_full = bool(table.filled.all())

    def _select_range(self, first: int, count: int) -> tuple[IndexArray, IndexArray]:
        """Select `count` consecutive elements."""
        low, high = first, first + count
        taken: list[tuple[int, ...]] = []
        for component, (after, remaining, weight) in enumerate(self._steps()):
            next_low, next_high = low * after // remaining, high * after // remaining
            size = high - low - (next_high - next_low)
            if size:
                element = low - next_low
                offset, rest = divmod(element * remaining, weight)
                taken.append((component, element, size, offset - low, rest, remaining, weight))
                if next_low == next_high:
                    break
            low, high = next_low, next_high
        columns = list(zip(*taken, strict=True))
        components, elements, sizes, offsets = (np.array(c, np.int64) for c in columns[:4])
        owners = np.repeat(np.arange(sizes.size), sizes)
        inside = np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        # A component takes its element `i` at `i * remaining // weight` of the elements left for it.
        slots = offsets[owners]
        if count > sizes.size:
            slots += _scale(inside, owners, *columns[4:])
        order = _interleave(slots, sizes)
        owners = owners[order]
        return components[owners], elements[owners] + inside[order]

    def _select_each(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        """Select elements in any order."""
        epochs = indices // self.period
        left = indices - epochs * self.period
        if self.period >= _EXACT_QUOTIENTS:
            pairs = map(self._walk_chain, epochs.tolist(), left.tolist())
            both = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
            return both[:, 0].copy(), both[:, 1].copy()
        components = np.empty_like(indices)
        elements = np.empty_like(indices)
        active = np.arange(indices.size)
        for component, (after, remaining, weight) in enumerate(self._steps()):
            passed, rest = _divide_product(left, after, remaining)
            taken = rest < weight
            if taken.any():
                here = active[taken]
                components[here] = component
                elements[here] = left[taken] - passed[taken] + epochs[here] * weight
                others = ~taken
                active, passed = active[others], passed[others]
                if not active.size:
                    break
            left = passed
        return components, elements


_EMPTY: IndexArray = np.empty(0, np.int64)


class _Table:
    """The selection of one period of a mixture, filled page by page."""

    def __init__(self, weights: Sequence[int], period: int, pages: int):
        self.weights = np.array(weights, dtype=np.int64)
        # Half the memory for long periods; short ones are read without a conversion.
        kind: Any = np.int64 if period <= _SHORT_PERIOD else np.int32
        # Memory that is not written is not used.
        self.components: np.ndarray[Any, Any] = np.empty(period, kind)
        self.elements: np.ndarray[Any, Any] = np.empty(period, kind)
        self.filled = np.zeros(pages, dtype=bool)
        self.is_full = False


def _is_range(indices: IndexArray, first: int) -> bool:
    count = indices.size
    if int(indices[-1]) - first != count - 1:
        return False
    return count < 3 or bool((indices[1:] > indices[:-1]).all())


def _scale(
    numbers: IndexArray,
    owners: IndexArray,
    rests: tuple[int, ...],
    numerators: tuple[int, ...],
    denominators: tuple[int, ...],
) -> IndexArray:
    """Return `(rest + number * numerator) // denominator` of each number, with those of its owner."""
    largest = max(int(numbers.max()) * max(denominators), max(numerators))
    kind: Any = np.int64 if largest < 2**62 else object
    rest, numerator, denominator = (
        np.array(column, kind) for column in (rests, numerators, denominators)
    )
    whole, part = numerator // denominator, numerator % denominator
    scaled = (rest[owners] + numbers * part[owners]) // denominator[owners]
    result: IndexArray = (numbers * whole[owners] + scaled).astype(np.int64)
    return result


def _divide_product(
    values: IndexArray, numerator: int, denominator: int
) -> tuple[IndexArray, IndexArray]:
    """Return quotient and rest of `values * numerator` by a larger denominator."""
    if denominator < _EXACT_PRODUCTS:
        products = values * numerator
        quotients = products // denominator
        return quotients, products - quotients * denominator
    # The product wraps around, but the rest does not: an estimated quotient is off by one or two.
    quotients = (values * (numerator / denominator)).astype(np.int64)
    rests = values * numerator - quotients * denominator
    missing = rests // denominator
    return quotients + missing, rests - missing * denominator


def _interleave(slots: IndexArray, sizes: IndexArray) -> IndexArray:
    """Return the order of elements that take their slots one group after the other.

    Groups of `sizes` elements come one after the other in `slots`. An element takes the slot of this number
    among those that earlier groups have left free. Neighbouring groups are merged until one is left: an
    element of the second group moves by the number of elements of the first group that are before it.

    >>> _interleave(np.array([1, 3, 0, 1]), sizes=np.array([2, 2])).tolist()
    [2, 0, 3, 1]
    """
    count = slots.size
    positions = np.arange(count)
    order = positions
    while sizes.size > 1:
        if sizes.size % 2:
            sizes = np.append(sizes, 0)
        of_first, merged = sizes[0::2], sizes[0::2] + sizes[1::2]
        pairs = np.repeat(np.arange(merged.size), merged)
        starts = np.cumsum(merged) - merged
        is_second = positions - starts[pairs] >= of_first[pairs]
        first, second = np.flatnonzero(~is_second), np.flatnonzero(is_second)
        # What lies in different pairs is kept apart by a distance that no slot reaches.
        first_pairs, second_pairs = pairs[first], pairs[second]
        left_before = slots[first] - first + starts[first_pairs] + first_pairs * count
        wanted = slots[second] + second_pairs * count
        found = np.searchsorted(left_before, wanted, side="right")
        before = found - (np.cumsum(of_first) - of_first)[second_pairs]
        # Elements of the second group move up past those of the first group that come after them.
        targets = second - of_first[second_pairs] + before
        free = np.ones(count, dtype=bool)
        free[targets] = False
        new_slots, new_order = np.empty_like(slots), np.empty_like(order)
        new_slots[targets], new_order[targets] = slots[second] + before, order[second]
        new_slots[free], new_order[free] = slots[first], order[first]
        slots, order, sizes = new_slots, new_order, merged
    return order
