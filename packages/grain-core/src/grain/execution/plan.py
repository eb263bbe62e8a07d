"""Plans: which part of a pipeline is computed where.

`plan(dataset)` is a pure function of the dataset graph and returns a frozen tree of plan nodes; `build`
makes iterators of it. Streams of elements and states do not depend on the plan.

>>> import grain
>>> ds = grain.MapDataset.range(9).map(abs).to_iter_dataset().map(str)
>>> print(plan(ds.batch(2).map(len)))
fused: PrefetchIterDataset > MapIterDataset > BatchIterDataset > MapIterDataset
>>> print(plan(grain.experimental.WindowShuffleIterDataset(ds, window_size=4, seed=1).map(len)))
offload: MapIterDataset
  consumer: WindowShuffleIterDataset
    fused: PrefetchIterDataset > MapIterDataset
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from grain.dataset.base import IterDataset, MapDataset
from grain.dataset.node import ExecutionTrait
from grain.dataset.stages import STAGES, StageIterDataset

_DIVISIBLE = (ExecutionTrait.BOUNDARY, ExecutionTrait.INTERLEAVED)


@dataclasses.dataclass(frozen=True)
class Plan:
    """How the elements of one node of a pipeline are computed; a frozen tree that prints as an outline."""

    @property
    def parents(self) -> tuple[Plan, ...]:
        """Plans of the nodes below."""
        return ()

    @property
    def nodes(self) -> tuple[Any, ...]:
        """The dataset nodes computed by this part of the plan, lowest first."""
        return ()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the outline."""
        kind = type(self).__name__.removesuffix("Plan").lower()
        yield f"{kind}: {' > '.join(type(node).__name__ for node in self.nodes)}"
        for parent in self.parents:
            yield from (f"  {line}" for line in parent.lines())

    def __str__(self) -> str:
        return "\n".join(self.lines())


@dataclasses.dataclass(frozen=True)
class FusedPlan(Plan):
    """A map dataset and the stages above it: workers compute blocks of it in any order.

    Attributes:
        boundary: Reads the map dataset in order.
        stages: Stages above the boundary, lowest first.
    """

    boundary: Any
    stages: tuple[StageIterDataset[Any], ...]

    @property
    def nodes(self) -> tuple[Any, ...]:
        return (self.boundary, *self.stages)

    def without_counting(self) -> Plan:
        """Return the plan to use when elements are missing although a stage counts them."""
        first = next(n for n, stage in enumerate(self.stages) if stage.counts_elements)
        return _above(FusedPlan(self.boundary, self.stages[:first]), self.stages[first:])


@dataclasses.dataclass(frozen=True)
class OffloadPlan(Plan):
    """Functions of single elements above an ordered operation: sent to workers where that is faster.

    Attributes:
        parent: Plan of the operation below.
        stages: The functions, lowest first.
    """

    parent: Plan
    stages: tuple[StageIterDataset[Any], ...]

    @property
    def parents(self) -> tuple[Plan, ...]:
        return (self.parent,)

    @property
    def nodes(self) -> tuple[Any, ...]:
        return self.stages


@dataclasses.dataclass(frozen=True)
class ConsumerPlan(Plan):
    """A node computed in the consumer's process, over iterators of its parents.

    Attributes:
        node: The dataset node.
        inputs: Plans of its parents.
    """

    node: Any
    inputs: tuple[Plan, ...] = ()

    @property
    def parents(self) -> tuple[Plan, ...]:
        return self.inputs

    @property
    def nodes(self) -> tuple[Any, ...]:
        return (self.node,)


@dataclasses.dataclass(frozen=True)
class OpaquePlan(ConsumerPlan):
    """A class that has only an `__iter__`, computed in the consumer's process.

    It may open its parents any number of times; `inputs` is the plan of each opening.
    """


@dataclasses.dataclass(frozen=True)
class InterleavedPlan(ConsumerPlan):
    """A node that opens further datasets, which are planned by `plan_nested` when they are opened."""


@dataclasses.dataclass(frozen=True)
class StreamPlan(Plan):
    """A dataset that cannot be divided: one worker reads it from start to end."""

    dataset: IterDataset[Any]

    @property
    def nodes(self) -> tuple[Any, ...]:
        return (self.dataset,)


def plan(dataset: IterDataset[Any]) -> Plan:
    """Return the plan of a pipeline: in parts if it reads map datasets or interleaves, else one stream."""
    return plan_node(dataset) if _is_divisible(dataset) else StreamPlan(dataset)


def plan_nested(dataset: IterDataset[Any] | MapDataset[Any]) -> Plan:
    """Return the plan of a dataset that an interleaved node opens."""
    if isinstance(dataset, MapDataset):
        return plan_node(dataset.to_iter_dataset())
    return plan_node(dataset) if _reads_map_dataset(dataset) else StreamPlan(dataset)


def plan_node(dataset: IterDataset[Any]) -> Plan:
    """Return the plan of a node and all nodes below it, without streams."""
    stages: list[StageIterDataset[Any]] = []
    base: Any = dataset
    while base.execution_trait in STAGES:
        stages.insert(0, base)
        base = base.parents[0]
    if base.execution_trait is ExecutionTrait.BOUNDARY:
        count = _fusible(base, stages)
        return _above(FusedPlan(base, tuple(stages[:count])), stages[count:])
    if base.execution_trait is ExecutionTrait.OPAQUE:
        parents = (parent for parent in base.parents if isinstance(parent, IterDataset))
        inputs = tuple(map(plan_node, parents))
        return _above(OpaquePlan(base, inputs), stages)
    inputs = tuple(map(_plan_parent, base.parents))
    if base.execution_trait is ExecutionTrait.INTERLEAVED:
        return _above(InterleavedPlan(base, inputs), stages)
    return _above(ConsumerPlan(base, inputs), stages)


def _plan_parent(parent: IterDataset[Any] | MapDataset[Any]) -> Plan:
    """Return the plan of a parent; a map dataset is read in order."""
    return plan_node(parent.to_iter_dataset() if isinstance(parent, MapDataset) else parent)


def _above(below: Plan, stages: Sequence[StageIterDataset[Any]]) -> Plan:
    """Return the plan of stages above a plan: runs of functions are offloaded, the rest stays."""
    remaining = list(stages)
    while remaining:
        functions = tuple(itertools.takewhile(_is_function, remaining))
        del remaining[: len(functions)]
        if functions:
            below = OffloadPlan(below, functions)
        if remaining:
            below = ConsumerPlan(remaining.pop(0), (below,))
    return below


def _is_function(stage: StageIterDataset[Any]) -> bool:
    """Return whether a stage makes each element of one element and its number alone."""
    return stage.execution_trait is ExecutionTrait.ELEMENTWISE and not stage.drops_elements


def _fusible(boundary: Any, stages: Sequence[StageIterDataset[Any]]) -> int:
    """Return how many stages a worker can compute for a block without other blocks.

    A stage that counts elements needs all of them: none may be dropped below it.
    """
    dense = boundary.allow_nones or not boundary.parents[0].is_sparse
    for number, stage in enumerate(stages):
        if stage.counts_elements and not dense:
            return number
        if stage.drops_elements:
            if any(lower.counts_elements for lower in stages[:number]):
                return number
            dense = False
    return len(stages)


def _is_divisible(dataset: Any) -> bool:
    """Return whether a dataset reads a map dataset through a boundary, or interleaves datasets."""
    if getattr(dataset, "execution_trait", None) in _DIVISIBLE:
        return True
    return any(map(_is_divisible, dataset.parents))


def _reads_map_dataset(dataset: Any) -> bool:
    return isinstance(dataset, MapDataset) or any(map(_reads_map_dataset, dataset.parents))
