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
    if not chosen.size:
        return []
    groups = _groups(chosen)
    if len(groups) == 1:
        elements: list[Any] = parents[groups[0][0]].read_many(parent_indices)
        return elements
    out: list[Any] = [None] * chosen.size
    end = chosen.size
    failure: Exception | None = None
    for number, here in groups:
        if failure is not None:
            here = here[here < end]
            if not here.size:
                continue
        elements = parents[number].read_many(parent_indices[here])
        targets = here.tolist()
        for target, element in zip(targets, elements, strict=False):
            out[target] = element
        if isinstance(elements, PartialRead):
            end, failure = targets[len(elements)], elements.error
    return out if failure is None else PartialRead(out[:end], failure)


def _groups(chosen: IndexArray) -> list[tuple[int, IndexArray]]:
    """Return each parent that is chosen, with the positions where it is."""
    if (chosen == chosen[0]).all():
        return [(int(chosen[0]), np.arange(chosen.size))]
    order = np.argsort(chosen, kind="stable")
    in_order = chosen[order]
    ends = np.append(np.flatnonzero(in_order[1:] != in_order[:-1]) + 1, chosen.size)
    numbers = in_order[ends - 1].tolist()
    starts = [0, *ends[:-1].tolist()]
    bounds = zip(numbers, starts, ends.tolist(), strict=True)
    return [(number, order[start:end]) for number, start, end in bounds]


def gather_columns(parents: Sequence[Any], chosen: IndexArray, parent_indices: IndexArray) -> Any:
    """Return the same elements as stacked columns, or None when the parents' columns do not fit."""
    parts = []
    for number, here in _groups(chosen):
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
