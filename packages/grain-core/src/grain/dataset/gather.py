"""Reading from several parents: which parent each element comes from, and putting them in order again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grain.dataset.chunk import PartialRead
from grain.index.permutation import IndexArray
from grain.memory.allocation import allocate


def gather(parents: Sequence[Any], chosen: IndexArray, places: IndexArray) -> list[Any]:
    """Reads element `places[i]` of parent `chosen[i]` for each i.

    An error in one parent cuts the result before the element that failed, as if the elements had
    been read one after the other.
    """
    out: list[Any] = [None] * chosen.size
    end = chosen.size
    failure: Exception | None = None
    for number in np.unique(chosen).tolist():
        here = np.flatnonzero(chosen[:end] == number)
        elements = parents[number].read_many(places[here])
        targets = here.tolist()
        for target, element in zip(targets, elements, strict=False):
            out[target] = element
        if isinstance(elements, PartialRead):
            end, failure = targets[len(elements)], elements.error
    return out if failure is None else PartialRead(out[:end], failure)


def gather_columns(parents: Sequence[Any], chosen: IndexArray, places: IndexArray) -> Any:
    """The same as stacked columns, or None when the parents' columns do not fit together."""
    parts = []
    for number in np.unique(chosen).tolist():
        here = np.flatnonzero(chosen == number)
        columns = parents[number].read_columns(places[here])
        if columns is None:
            return None
        parts.append((here, columns))
    if len(parts) == 1:
        return parts[0][1]
    first = parts[0][1]
    if type(first) is not np.ndarray or any(
        type(columns) is not np.ndarray
        or columns.dtype != first.dtype
        or columns.shape[1:] != first.shape[1:]
        for _, columns in parts
    ):
        return None
    out = allocate((chosen.size, *first.shape[1:]), first.dtype)
    for here, columns in parts:
        out[here] = columns
    return out
