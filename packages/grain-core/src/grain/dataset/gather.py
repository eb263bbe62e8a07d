"""Reading elements from several parents, in the requested order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from grain.dataset.chunk import PartialRead
from grain.index.permutation import IndexArray
from grain.memory.allocation import allocate


def gather(parents: Sequence[Any], chosen: IndexArray, parent_indices: IndexArray) -> list[Any]:
    """Read element `parent_indices[i]` of parent `chosen[i]` for each i.

    An error in one parent ends the result before the element that failed, as if the elements had
    been read one by one.
    """
    out: list[Any] = [None] * chosen.size
    end = chosen.size
    failure: Exception | None = None
    for number in np.unique(chosen).tolist():
        here = np.flatnonzero(chosen[:end] == number)
        elements = parents[number].read_many(parent_indices[here])
        targets = here.tolist()
        for target, element in zip(targets, elements, strict=False):
            out[target] = element
        if isinstance(elements, PartialRead):
            end, failure = targets[len(elements)], elements.error
    return out if failure is None else PartialRead(out[:end], failure)


def gather_columns(parents: Sequence[Any], chosen: IndexArray, parent_indices: IndexArray) -> Any:
    """Return the same elements as stacked columns, or None when the parents' columns do not fit."""
    parts = []
    for number in np.unique(chosen).tolist():
        here = np.flatnonzero(chosen == number)
        columns = parents[number].read_columns(parent_indices[here])
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
