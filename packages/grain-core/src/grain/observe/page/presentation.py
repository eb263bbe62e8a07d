"""What datasets show of themselves: `ds.visualize()`, and the graph that a notebook shows.

Datasets reach this module through a hook, since it is above them.
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from grain.observe.page.content import PageContent, Sample
from grain.observe.page.document import document, fragment
from grain.observe.page.lanes import lay_out
from grain.observe.page.measured_run import measured
from grain.observe.page.page_graph import (
    PageNode,
    graph_of,
    graph_of_statistics,
    merged_graph,
    ordered_nodes,
)
from grain.observe.page.pipeline_page import PipelinePage
from grain.observe.page.preview import counted, structure_text
from grain.observe.page.samples import read_samples
from grain.observe.statistics import PipelineStatistics
from grain.observe.statistics_table import seconds_text
from grain.options import checked_int


def notebook_view(dataset: Any) -> str | None:
    """Return the graph of a dataset as HTML; None if it cannot be drawn, so that its repr is shown."""
    try:
        return fragment(PageContent(nodes=graph_of(dataset)))
    except Exception:  # A notebook shows every value; it must not fail.
        return None


def visualize(
    dataset: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    samples: int = 3,
    measure: bool = True,
    max_seconds: float = 3.0,
    statistics: PipelineStatistics | None = None,
    title: str | None = None,
) -> PipelinePage:
    """Return the page of a dataset; see `MapDataset.visualize`."""
    checked_int("samples", samples, least=0)
    if isinstance(max_seconds, bool) or not isinstance(max_seconds, (int, float)):
        raise TypeError(f"max_seconds must be a number of seconds, got {max_seconds!r}.")
    if not max_seconds > 0:
        raise ValueError(f"max_seconds must be positive, got {max_seconds!r}.")
    if statistics is not None and not isinstance(statistics, PipelineStatistics):
        raise TypeError(
            "statistics must be what `iterator.stats()` returned, got "
            f"{type(statistics).__name__}. Leave it out to measure a sample."
        )
    content = page_content(
        dataset,
        samples=samples,
        measure=measure,
        max_seconds=float(max_seconds),
        statistics=statistics,
        title=title,
    )
    page = PipelinePage(content)
    return page if path is None else page.write(path)


def page_content(
    dataset: Any,
    *,
    samples: int,
    measure: bool,
    max_seconds: float,
    statistics: PipelineStatistics | None = None,
    title: str | None = None,
) -> PageContent:
    """Return what the page of a dataset shows, measured and sampled as requested."""
    nodes = ordered_nodes(dataset)
    graph = graph_of(dataset)
    notes = []
    if statistics is None and measure:
        statistics, problem = measured(dataset, max_seconds, title)
        if problem:
            notes.append(f"The measurement ended with an error: {problem}.")
    if statistics is not None:
        notes.append(
            f"Measured: {counted(statistics.elements, 'element')} in "
            f"{seconds_text(statistics.elapsed_seconds)}."
        )
        graph = merged_graph(graph, statistics)
    content = PageContent(
        nodes=graph,
        title=title or (statistics.name if statistics is not None else "pipeline"),
        statistics=statistics,
        note=" ".join(notes),
    )
    rows = lay_out(graph, content.bottleneck)
    shown = {row.node for row in rows if not row.left_out}
    found = read_samples(nodes, samples, max_seconds, shown)
    if graph[-1].id not in found and (last := found.get(len(nodes) - 1)) is not None:
        found[graph[-1].id] = last  # The iteration over a map dataset has the same elements.
    return dataclasses.replace(
        content,
        nodes=tuple(_with_spec(node, found.get(node.id, ())) for node in graph),
        samples=found,
    )


def page_of_statistics(statistics: PipelineStatistics) -> PageContent:
    """Return what the page of a pipeline shows of which only the statistics are at hand."""
    nodes = graph_of_statistics(statistics)
    return PageContent(nodes=nodes, title=statistics.name, statistics=statistics)


def page_of_json(text: str) -> PipelinePage:
    """Return the page of statistics that `PipelineStatistics.to_json` wrote."""
    values = json.loads(text)
    if not isinstance(values, dict) or "nodes" not in values:
        raise ValueError("expected statistics that `stats.to_json()` wrote")
    try:
        page = PipelinePage(page_of_statistics(PipelineStatistics.from_dict(values)))
        document(page.content)  # Values of other types fail here.
        return page
    except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise ValueError(f"expected statistics that `stats.to_json()` wrote: {error}") from error


def _with_spec(node: PageNode, samples: tuple[Sample, ...]) -> PageNode:
    """Return a node whose spec, if it is unknown without reading, is that of its first element."""
    if node.spec or not samples or samples[0].error:
        return node
    return dataclasses.replace(node, spec=structure_text(samples[0].element))
