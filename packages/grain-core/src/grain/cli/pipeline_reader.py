"""`grain peek` for pipelines: the elements of any node, from any step on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grain.cli.command import CommandError, UsageError
from grain.cli.output import counted
from grain.cli.source_reader import reason
from grain.dataset.map_dataset import MapDataset
from grain.dataset.next_index import set_next_index
from grain.observe.page.page_graph import PageNode, graph_of, ordered_nodes
from grain.observe.page.samples import without_workers


@dataclass(frozen=True)
class PipelineReader:
    """A reader of one node of a pipeline, in this process.

    Attributes:
        text: The pipeline as named on the command line.
        nodes: The nodes of the pipeline.
        node: The node that is read.
        dataset: Its dataset, without workers.
    """

    text: str
    nodes: tuple[PageNode, ...]
    node: PageNode
    dataset: Any

    @property
    def extent(self) -> str:
        """The number of elements in words."""
        words = self.node.length.split()
        if not words:
            return "elements in sequence"
        if words and words[-1].isdecimal():
            return " ".join([*words[:-1], counted(int(words[-1]), "element")])
        return f"{self.node.length} elements".strip()

    def elements(self, step: int, count: int) -> Iterator[tuple[int, Any]]:
        """Yield elements with their steps; None stands for an element that a filter dropped."""
        numbered = self._by_index(step) if self._has_index else self._in_order(step)
        try:
            yield from itertools.islice(numbered, count)
        finally:
            numbered.close()

    @property
    def _has_index(self) -> bool:
        return isinstance(self.dataset, MapDataset)

    def _by_index(self, step: int) -> Any:
        length = len(self.dataset)
        first = max(0, length + step) if step < 0 else step
        if first >= length and first > 0:
            raise CommandError(
                f"--step {step} is out of range: {self.node.name} has {counted(length, 'element')}."
            )
        for index in range(first, length):
            yield index, self._checked(index, lambda index=index: self.dataset[index])

    def _in_order(self, step: int) -> Any:
        if step < 0:
            raise UsageError(
                f"--step {step} must not be negative: {self.node.name} is read in order."
            )
        iterator = iter(self.dataset)
        try:
            if step:
                iterator = self._moved(iterator, step)
            for number in itertools.count(step):
                found = self._checked(number, lambda: list(itertools.islice(iterator, 1)))
                if not found:
                    return
                yield number, found[0]
        finally:
            iterator.close()

    def _moved(self, iterator: Any, step: int) -> Any:
        """Return an iterator at a step: by arithmetic where that is possible, else by reading."""
        try:
            if not _keeps_count(self.dataset):
                raise NotImplementedError
            set_next_index(iterator, step)
        except Exception:  # The position depends on the elements; a class of a user has none.
            iterator.close()
            iterator = iter(self.dataset)
            for number in range(step):
                if not self._checked(number, lambda: list(itertools.islice(iterator, 1))):
                    raise CommandError(
                        f"--step {step} is out of range: {self.node.name} ended after"
                        f" {counted(number, 'element')}."
                    ) from None
        return iterator

    def _checked(self, number: int, read: Any) -> Any:
        try:
            return read()
        except Exception as error:  # A function of the user.
            raise CommandError(
                f"{self.text}: element {number} of {self.node.name} cannot be computed:"
                f" {type(error).__name__}: {reason(error)}"
            ) from error


def _keeps_count(dataset: Any) -> bool:
    """Return whether the step of an element follows from its index: no filter drops elements."""
    return not any(
        getattr(node, "is_sparse", False) or getattr(node, "drops_elements", False)
        for node in ordered_nodes(dataset)
    )


def pipeline_reader(text: str, dataset: Any, node: str | None) -> PipelineReader:
    """Return a reader of a node, by its number, its operation or its function; the last by default."""
    nodes = graph_of(dataset)
    found = nodes[-1] if node is None else _find(text, nodes, node)
    local = without_workers(ordered_nodes(dataset))
    return PipelineReader(text, nodes, found, local[found.id])


def _find(text: str, nodes: tuple[PageNode, ...], wanted: str) -> PageNode:
    if wanted.isdecimal() and int(wanted) < len(nodes):
        return nodes[int(wanted)]
    ranked = (
        [node for node in nodes if node.name == wanted],
        [node for node in nodes if node.name.partition("(")[2].rstrip(")") == wanted],
        [node for node in nodes if node.name.partition("(")[0] == wanted],
    )
    matching = next((each for each in ranked if each), [])
    if len(matching) == 1:
        return matching[0]
    problem = "names several nodes" if matching else "names no node"
    listed = ", ".join(f"{node.id}: {node.name}" for node in (matching or nodes)[:20])
    raise UsageError(f"--node {wanted} {problem} of {text}. Give a number: {listed}.")
