"""Sample elements of each node of a pipeline, read in this process within a limit of time."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from grain.dataset.map_dataset import MapDataset
from grain.dataset.node import ExecutionTrait
from grain.dataset.same_epoch import looking
from grain.observe.page.content import Sample
from grain.observe.page.preview import shortened, type_name

# Indices of a map dataset that are tried for each element, since a filter drops some.
_TRIES = 16


def without_workers(nodes: Sequence[Any]) -> dict[int, Any]:
    """Return a copy of each node of a pipeline, by its number, that starts no workers.

    A node that has the elements of its parent, as prefetching does, is replaced by its parent.

    Args:
        nodes: The nodes, each after its parents.
    """
    numbers = {id(node): number for number, node in enumerate(nodes)}
    found: dict[int, Any] = {}
    for number, node in enumerate(nodes):
        parents = tuple(found[numbers[id(parent)]] for parent in node.parents)
        if all(map(_same, parents, node.parents)):
            found[number] = node
        else:
            found[number] = copy.copy(node)
            found[number]._parents = parents
        trait = getattr(node, "execution_trait", None)
        if trait is ExecutionTrait.TRANSPARENT and len(parents) == 1:
            found[number] = parents[0]
    return found


def _same(a: Any, b: Any) -> bool:
    return a is b


def read_samples(
    nodes: Sequence[Any],
    count: int,
    max_seconds: float,
    shown: Collection[int] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[int, tuple[Sample, ...]]:
    """Return the first elements of each node.

    The output comes first, then the sources, so that these are shown if the time is over. A node whose
    function raises has the error in place of an element.

    Args:
        nodes: The nodes, each after its parents.
        count: The number of elements of each node.
        max_seconds: The time after which no further element is read.
        shown: The numbers of the nodes to read; None for all.
        clock: Returns the time in seconds.
    """
    if count < 1 or not nodes:
        return {}
    deadline = clock() + max_seconds
    local = without_workers(nodes)
    found: dict[int, tuple[Sample, ...]] = {}
    read: dict[int, tuple[Sample, ...]] = {}
    for number in [len(nodes) - 1, *range(len(nodes) - 1)]:
        if shown is not None and number not in shown:
            continue
        node = local[number]
        if id(node) not in read:
            read[id(node)] = tuple(_first_elements(node, count, lambda: clock() > deadline))
        if read[id(node)]:
            found[number] = read[id(node)]
    return found


def _first_elements(node: Any, count: int, is_over: Callable[[], bool]) -> list[Sample]:
    reader = _by_index if isinstance(node, MapDataset) else _in_order
    samples: list[Sample] = []
    if is_over():
        return samples
    try:
        with looking():
            reader(node, count, is_over, samples)
    except Exception as error:  # The functions of a user.
        samples.append(Sample(len(samples), error=_error_text(error)))
    return samples


def _by_index(node: Any, count: int, is_over: Callable[[], bool], samples: list[Sample]) -> None:
    for index in range(min(len(node), count * _TRIES)):
        try:
            element = node[index]
        except Exception as error:
            samples.append(Sample(index, error=_error_text(error)))
            return
        if element is not None:
            samples.append(Sample(index, element))
        if len(samples) == count or is_over():
            return


def _in_order(node: Any, count: int, is_over: Callable[[], bool], samples: list[Sample]) -> None:
    iterator = iter(node)
    try:
        for position in range(count):
            try:
                samples.append(Sample(position, next(iterator)))
            except StopIteration:
                return
            if is_over():
                return
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


def _error_text(error: BaseException) -> str:
    return shortened(f"{type_name(error)}: {error}", 300)
