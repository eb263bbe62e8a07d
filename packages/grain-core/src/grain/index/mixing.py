"""Mixing: which component gives element k of a weighted mixture, and which of its elements it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from grain.index.permutation import IndexArray

# A mixture repeats with the sum of its weights; up to this size one period is tabulated.
_TABLE_LIMIT = 1 << 20


def integer_weights(weights: Sequence[float]) -> list[int]:
    """Scales weights to whole numbers: two digits beyond the smallest one are kept.

    >>> integer_weights([0.5, 0.25])
    [200, 100]
    """
    scale = 100 / min(weights)
    return [int(weight * scale) for weight in weights]


def mixed_length(lengths: Sequence[int], weights: Sequence[int]) -> int:
    """How many elements a mixture gives before its first component has no more.

    >>> mixed_length([10, 3], weights=[1, 1])
    6
    """
    total = sum(weights)
    pairs = zip(lengths, weights, strict=True)
    return min(int(min(length / (weight / total) for length, weight in pairs)), sys.maxsize)


def select_one(k: int, weights: Sequence[int]) -> tuple[int, int]:
    """Returns (component, element of that component) for element `k`.

    >>> [select_one(k, [2, 1]) for k in range(4)]
    [(0, 0), (0, 1), (1, 0), (0, 2)]
    """
    remaining = sum(weights)
    low, high = k, k + 1
    for component, weight in enumerate(weights):
        next_low = low * (remaining - weight) // remaining if remaining else 0
        next_high = high * (remaining - weight) // remaining if remaining else 0
        if low - next_low != high - next_high:
            return component, high - next_high - 1
        remaining -= weight
        low, high = next_low, next_high
    raise AssertionError(f"No component takes element {k} of a mixture with weights {weights}.")


class Mixture:
    """The selection of a weighted mixture, for whole arrays of elements at a time.

    >>> components, elements = Mixture([2, 1]).select(np.arange(6))
    >>> components.tolist(), elements.tolist()
    ([0, 0, 1, 0, 0, 1], [0, 1, 0, 2, 3, 1])
    """

    def __init__(self, weights: Sequence[int]):
        self.weights = tuple(weights)
        self.period = sum(weights)
        self._table: tuple[IndexArray, IndexArray] | None = None

    def __getstate__(self) -> tuple[int, ...]:
        return self.weights

    def __setstate__(self, weights: tuple[int, ...]) -> None:
        self.__init__(weights)  # type: ignore[misc]

    def select(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        """Returns the component of each element, and which of the component's elements it is.

        A mixture repeats: element `k + period` is the element `k` of the same component, its weight
        further on. So one period says everything.
        """
        if self.period > _TABLE_LIMIT:
            return self._select_directly(indices)
        if self._table is None:
            self._table = self._select_directly(np.arange(self.period, dtype=np.int64))
        components, elements = self._table
        rounds = indices // self.period
        places = indices - rounds * self.period
        chosen = components[places]
        weights = np.asarray(self.weights, dtype=np.int64)
        return chosen, elements[places] + rounds * weights[chosen]

    def _select_directly(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        if self.period >= 2**31:  # Products would leave 64 bits.
            pairs = [select_one(k, self.weights) for k in indices.tolist()]
            both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            return both[:, 0].copy(), both[:, 1].copy()
        components = np.full_like(indices, -1)
        elements = np.zeros_like(indices)
        open_ = np.arange(indices.size)
        low, high = indices, indices + 1
        remaining = self.period
        for component, weight in enumerate(self.weights):
            next_low = _scale(low, remaining - weight, remaining)
            next_high = _scale(high, remaining - weight, remaining)
            taken = (low - next_low) != (high - next_high)
            here = open_[taken]
            components[here] = component
            elements[here] = (high - next_high)[taken] - 1
            rest = ~taken
            open_, low, high = open_[rest], next_low[rest], next_high[rest]
            remaining -= weight
            if not remaining:
                break
        return components, elements


def _scale(values: IndexArray, numerator: int, denominator: int) -> IndexArray:
    """`values * numerator // denominator` without leaving 64 bits on the way."""
    whole = values // denominator
    part = values - whole * denominator
    return whole * numerator + part * numerator // denominator
