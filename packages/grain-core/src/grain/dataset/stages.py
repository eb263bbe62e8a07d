"""Operations of an iter dataset that are functions of a stretch of elements: anybody may compute them."""

from __future__ import annotations

import abc
from typing import Any, TypeVar

from grain.dataset.base import DatasetIterator, IterDataset
from grain.dataset.context import current_context
from grain.dataset.iterator import Transformed

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
    def _apply_run(self, elements: list[Any], first: int) -> Transformed:
        """What becomes of consecutive elements, the first of which has `first` before it."""
