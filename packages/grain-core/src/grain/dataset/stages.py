"""Stages: iter operations that are functions of a chunk of elements, so any worker can compute them."""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

from grain.dataset.chunk import Chunk
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import (
    DatasetIterator,
    ElementwiseIterator,
    Transformed,
    state_field,
)
from grain.dataset.node import ExecutionTrait

T = TypeVar("T")


STAGES = (ExecutionTrait.ELEMENTWISE, ExecutionTrait.BATCHING)


class StageIterDataset(IterDataset[T]):
    """An operation that makes its elements of each contiguous chunk of its parent's elements.

    A subclass writes `apply_chunk`. One that writes `make_iterator` as well declares its
    `execution_trait` again.

    Attributes:
        counts_elements: Whether the result depends on how many elements came before.
        drops_elements: Whether it leaves elements out.
        counter_name: The name of the count in the state, where the state has one.
        group_size: How many elements of the parent make one element.
        drop_remainder: Whether a last group with fewer elements is left out.
    """

    counts_elements = False
    drops_elements = False
    counter_name: str | None = None
    group_size: int = 1
    drop_remainder: bool = False

    @abc.abstractmethod
    def apply_chunk(self, elements: list[Any], first: int) -> Transformed:
        """Return the result of consecutive elements, the first of which has `first` before it."""

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return StageIterator(parents[0], self)

    execution_trait = ExecutionTrait.ELEMENTWISE

    def without_parents(self) -> Self:
        """Return a copy that computes chunks in a worker: it has the names of its sources, but no parents."""
        stage = copy.copy(self)
        stage._parents = (_Origin(self.describe_sources()),)
        return stage

    def first_input(self, index: int) -> int:
        """Return the parent's index of the first element that makes the element at `index`."""
        first = index * self.group_size
        if self.group_size == 1:
            return first
        length: int | None = self._parent.known_length()
        if length is not None and first - self.group_size < length:
            return min(first, length)  # The last group may be short.
        return first


class _Origin(NamedTuple):
    """Stands for the nodes below a stage where only their names are needed."""

    sources: str

    def describe_sources(self) -> str:
        return self.sources


def stage_iterator_name(stage: StageIterDataset[Any]) -> str:
    """Return the name of a stage's iterator in messages."""
    return str(stage).replace("IterDataset", "DatasetIterator", 1)


class StageIterator(ElementwiseIterator[T]):
    """The iterator of an elementwise stage; it counts elements where the stage's state has a count."""

    def __init__(self, parent: DatasetIterator[Any], stage: StageIterDataset[T]):
        super().__init__(parent)
        self._stage = stage
        self._counter_name = stage.counter_name
        self._count = 0

    def __str__(self) -> str:
        return stage_iterator_name(self._stage)

    def _transform(self, elements: list[Any]) -> Transformed:
        return self._stage.apply_chunk(elements, self._count)

    def _wrap(self, chunk: Chunk, processed: int) -> Chunk:
        name = self._counter_name
        if name is None:
            return chunk
        first, state_after = self._count + 1, chunk.state_after
        self._count += processed
        return Chunk(
            chunk.elements,
            lambda offset: {"parent": state_after(offset), name: first + offset},
            chunk.live,
        )

    def _own_state(self, parent_state: Any) -> Any:
        if self._counter_name is None:
            return parent_state
        return {"parent": parent_state, self._counter_name: self._count}

    def _live_state_function(self) -> Callable[[], Any]:
        below = None if self._failed is not None else self._parent.state_function()
        if below is None:
            return super()._live_state_function()
        name = self._counter_name
        return below if name is None else partial(_counted, below, name, self._count)

    def _restore(self, state: Any) -> None:
        if self._counter_name is None:
            super()._restore(state)
            return
        count = state_field(state, self._counter_name, self)
        super()._restore(state_field(state, "parent", self))
        self._count = int(count)

    def index_from_state(self, state: Any) -> int:
        if self._stage.drops_elements:
            return super().index_from_state(state)
        if self._counter_name is None:
            return self._parent.index_from_state(state)
        return int(state_field(state, self._counter_name, self))

    def state_from_index(self, index: int) -> Any:
        if self._stage.drops_elements:
            return super().state_from_index(index)
        state = self._parent.state_from_index(index)
        return state if self._counter_name is None else {"parent": state, self._counter_name: index}


def _counted(below: Callable[[], Any], name: str, count: int) -> Any:
    return {"parent": below(), name: count}


def with_counts(stages: Sequence[StageIterDataset[Any]], counts: Sequence[int], state: Any) -> Any:
    """Return the state of stages, lowest first, over the state of the iterator below them."""
    for stage, count in zip(stages, counts, strict=True):
        if stage.counter_name is not None:
            state = {"parent": state, stage.counter_name: count}
    return state


def without_counts(
    stages: Sequence[StageIterDataset[Any]], state: Any, owner: Any
) -> tuple[list[int], Any]:
    """Return the counts in a state of `with_counts`, 0 where there is none, and the state below."""
    counts = [0] * len(stages)
    for number in range(len(counts) - 1, -1, -1):
        name = stages[number].counter_name
        if name is not None:
            counts[number] = int(state_field(state, name, owner))
            state = state_field(state, "parent", owner)
    return counts, state
