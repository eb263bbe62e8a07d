"""The nodes of a pipeline as a page shows them, and their order in it; nothing is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from grain.dataset import written_form
from grain.observe.statistics import PipelineStatistics

# Of longer pipelines, so many nodes at each end.
_MOST_DESCRIBED = 250
_ITERATION = "to_iter_dataset()"


@dataclass(frozen=True, kw_only=True)
class PageNode:
    """One operation of a pipeline.

    Attributes:
        id: Its number: a node comes after its parents.
        name: The operation as one would write it.
        parents: The ids of the nodes it reads.
        labels: The names of its parents, where it was given a dictionary of them.
        spec: The shapes and types of its elements; empty if unknown.
        length: The number of its elements as text; empty if unknown.
    """

    id: int
    name: str
    parents: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    spec: str = ""
    length: str = ""


def ordered_nodes(dataset: Any) -> list[Any]:
    """Return the nodes of a pipeline, each once, and after its parents; the dataset is the last."""
    ordered: list[Any] = []
    seen: set[int] = set()
    stack: list[tuple[Any, bool]] = [(dataset, False)]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            ordered.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((parent, False) for parent in reversed(node.parents))
    return ordered


def graph_of(dataset: Any) -> tuple[PageNode, ...]:
    """Return the nodes of a pipeline, from what is known without reading.

    >>> import grain
    >>> for node in graph_of(grain.MapDataset.range(9).shuffle(seed=1).batch(4)):
    ...     print(node.id, node.name, node.parents, node.length, node.spec)
    0 range(9) () 9 int64
    1 shuffle(seed=1) (0,) 9 int64
    2 batch(4) (1,) 3 int64[?]
    """
    ordered = ordered_nodes(dataset)
    numbers = {id(node): number for number, node in enumerate(ordered)}
    described = _described(len(ordered))
    return tuple(
        PageNode(
            id=number,
            name=_name(node),
            parents=tuple(numbers[id(parent)] for parent in node.parents),
            labels=_labels(node),
            spec=written_form.element_text(node) if number in described else "",
            length=written_form.length_text(node) if number in described else "",
        )
        for number, node in enumerate(ordered)
    )


def _described(count: int) -> Collection[int]:
    """Return the numbers of the nodes whose length and spec are looked up, which takes time by depth."""
    if count <= 2 * _MOST_DESCRIBED:
        return range(count)
    return {*range(_MOST_DESCRIBED), *range(count - _MOST_DESCRIBED, count)}


def _name(node: Any) -> str:
    text = written_form.call_of(node)
    if text.startswith("pipe(") and text.endswith(")"):
        return text[len("pipe(") : -1]
    return text.removeprefix("MapDataset.").removeprefix("IterDataset.")


def _labels(node: Any) -> tuple[str, ...]:
    try:
        return tuple(map(str, node.written_names()))
    except Exception:  # A user's class; the page shows the rest.
        return ()


def graph_of_statistics(stats: PipelineStatistics) -> tuple[PageNode, ...]:
    """Return the nodes of a pipeline of which only the statistics are at hand."""
    return tuple(
        PageNode(
            id=node.id,
            name=node.name,
            parents=node.parents,
            spec=node.spec or "",
            length="" if node.length is None else f"{node.length}",
        )
        for node in stats.nodes
    )


def merged_graph(
    graph: tuple[PageNode, ...], stats: PipelineStatistics, *, keep_iteration: bool = False
) -> tuple[PageNode, ...]:
    """Return the nodes that were measured, with what is known of them from the dataset.

    Measurements also have the nodes of datasets that a node opens while it runs. The iterator of a map
    dataset adds a node at the end, which is left out unless it limits the throughput: the page shows what
    was written.

    Args:
        graph: The nodes of the dataset.
        stats: The statistics of its iterator.
        keep_iteration: Whether that node is kept in any case, as the verdict of a running pipeline
            changes.
    """
    if not stats.nodes:
        return graph
    known = {node.id: node for node in graph}
    nodes = [
        dataclasses.replace(known[node.id], parents=node.parents)
        if node.id in known and known[node.id].name == node.name
        else node
        for node in graph_of_statistics(stats)
    ]
    last = nodes[-1]
    output = graph[-1].id
    if last.id not in known and last.name == _ITERATION and last.parents == (output,):
        if keep_iteration or stats.verdict.node == last.id:
            return tuple(nodes)
        nodes.remove(last)
    # The output is the last, also if it opens datasets with larger numbers.
    nodes.sort(key=lambda node: node.id == output)
    return tuple(nodes)
