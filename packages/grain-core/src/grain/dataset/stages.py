"""Operations of an iter dataset that are functions of a stretch of elements: anybody may compute them."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeVar

from grain.dataset.base import DatasetIterator, IterDataset
from grain.dataset.context import current_context
from grain.dataset.iterator import Transformed, state_field

T = TypeVar("T")


def iterate(dataset: IterDataset[T]) -> DatasetIterator[T] | None:
    """The iterator that the executor in force makes of a dataset, if it takes it on."""
    executor = current_context().executor
    return None if executor is None else executor.iterate(dataset)


class StageIterDataset(IterDataset[T]):
    """An operation that makes something of each stretch of its parent's elements.

    Attributes:
      _aligned: whether what it makes depends on how many elements came before.
      _drops: whether it leaves elements out.
      _counter_name: the name of the count in the state, where the state has one.
    """

    _aligned = False
    _drops = False
    _counter_name: str | None = None

    def __iter__(self) -> DatasetIterator[T]:
        iterator = iterate(self)
        return self._iterator_over(self._parent.__iter__()) if iterator is None else iterator

    @abc.abstractmethod
    def _iterator_over(self, parent: DatasetIterator[Any]) -> DatasetIterator[T]:
        """The iterator over another one."""

    @abc.abstractmethod
    def apply_chunk(self, elements: list[Any], first: int) -> Transformed:
        """What becomes of consecutive elements, the first of which has `first` before it."""


def with_counts(stages: Sequence[StageIterDataset[Any]], counts: Sequence[int], state: Any) -> Any:
    """The state of operations, lowest first, over a state of what is below them."""
    for stage, count in zip(stages, counts, strict=True):
        if stage._counter_name is not None:
            state = {"parent": state, stage._counter_name: count}
    return state


def without_counts(
    stages: Sequence[StageIterDataset[Any]], state: Any, owner: Any
) -> tuple[list[int], Any]:
    """The counts in such a state, 0 where there is none, and the state of what is below."""
    counts = [0] * len(stages)
    for number in range(len(counts) - 1, -1, -1):
        name = stages[number]._counter_name
        if name is not None:
            counts[number] = int(state_field(state, name, owner))
            state = state_field(state, "parent", owner)
    return counts, state
