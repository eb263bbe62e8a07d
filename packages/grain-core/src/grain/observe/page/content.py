"""What a page shows: the nodes of a pipeline, their statistics, and sample elements."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from grain.observe.page.page_graph import PageNode
from grain.observe.statistics import NodeStatistics, PipelineStatistics
from grain.observe.verdict import Verdict


@dataclass(frozen=True)
class Sample:
    """One element of a node, or the error that took its place.

    Attributes:
        position: The index or the step of the element.
        element: The element.
        error: The error in one line; empty if there was none.
    """

    position: int
    element: Any = None
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class PageContent:
    """What a page shows.

    Attributes:
        nodes: The nodes, each after its parents; the last is the output.
        title: The name of the pipeline.
        statistics: The measurements; None if nothing was measured.
        samples: Some elements of nodes, by id.
        note: How the measurements and samples were made, in a sentence.
    """

    nodes: tuple[PageNode, ...]
    title: str = "pipeline"
    statistics: PipelineStatistics | None = None
    samples: Mapping[int, tuple[Sample, ...]] = field(default_factory=dict)
    note: str = ""

    @functools.cached_property
    def bottleneck(self) -> int | None:
        """The id of the node that limits the throughput; None if there is none."""
        if self.statistics is None:
            return None
        return self.verdict.node if self.verdict.kind not in ("consumer", "unknown") else None

    @functools.cached_property
    def verdict(self) -> Verdict:
        """What limits the throughput."""
        return (self.statistics or PipelineStatistics()).verdict

    @property
    def has_timings(self) -> bool:
        """Whether there are measurements of nodes."""
        return bool(self._measured)

    def measured(self, number: int) -> NodeStatistics | None:
        """Return the measurements of a node; None if there are none."""
        return self._measured.get(number)

    def share(self, number: int) -> float:
        """Return the share of the pipeline's own time that a node takes."""
        node = self.measured(number)
        return node.self_seconds / self._total if node is not None and self._total > 0 else 0.0

    @functools.cached_property
    def _measured(self) -> dict[int, NodeStatistics]:
        nodes = self.statistics.nodes if self.statistics is not None else ()
        return {node.id: node for node in nodes}

    @functools.cached_property
    def _total(self) -> float:
        return sum(node.self_seconds for node in self._measured.values())
