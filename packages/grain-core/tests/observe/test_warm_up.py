"""A sample whose elements were mostly computed in the warm-up is said to be too small."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import grain
from grain.observe.page.content import PageContent
from grain.observe.page.document import document
from grain.observe.page.page_graph import graph_of_statistics
from grain.observe.page.text_view import text_view
from grain.observe.statistics import PipelineStatistics, WaitStatistics
from grain.observe.warm_up import is_mostly_warm_up

from ..helpers.pipelines import INLINE
from .planted import Node, planted_statistics


def packed(read: int, read_in_warm_up: int, **wait: Any) -> PipelineStatistics:
    """Return the statistics of a pipeline that packs, of 20 elements."""
    waits = {
        "count": 19,
        "total_seconds": 1e-4,
        "warm_up_count": 1,
        "warm_up_seconds": 0.015,
        **wait,
    }
    nodes = [Node("source", 0.001, elements=read), Node("pack", 0.015, elements=20)]
    stats = planted_statistics(
        nodes, "inline", elements=20, wait=WaitStatistics(**waits), consumer_seconds=1e-5
    )
    source = dataclasses.replace(stats.nodes[0], warm_up_elements=read_in_warm_up)
    return dataclasses.replace(stats, nodes=(source, stats.nodes[1]))


def test_elements_that_were_computed_with_the_first_tell_no_limit():
    stats = packed(1600, 1600)
    assert is_mostly_warm_up(stats)
    verdict = stats.verdict
    assert verdict.kind == "unknown"
    assert "the sample is too small to tell" in verdict.sentence
    assert verdict.sentence.endswith("Read more elements.")


@pytest.mark.parametrize(
    "stats",
    [
        packed(3200, 1600),
        packed(1619, 1600),  # A buffer that stays full: each element reads one.
        packed(1600, 1600, total_seconds=0.02),
        packed(20, 1),
    ],
)
def test_elements_that_were_computed_later_tell_a_limit(stats):
    assert stats.verdict.kind == "packing"


def test_a_rate_that_cannot_be_known_is_not_shown():
    stats = packed(1600, 1600)
    assert "per second" not in str(stats)
    assert "too few to tell the rate" in str(stats)
    content = PageContent(nodes=graph_of_statistics(stats), statistics=stats)
    assert "too few to tell the rate" in text_view(content)
    assert "too few elements" in document(content)
    assert "per second after the first" in str(packed(20, 1))


def length_of(x: int) -> dict[str, Any]:
    import numpy as np

    return {"t": np.arange(20 + x % 30)}


@pytest.mark.parametrize("opens", ["iterator", "state"])
def test_what_the_warm_up_returned_is_counted(opens):
    documents = grain.MapDataset.range(4000).map(length_of).to_iter_dataset(INLINE)
    ds = grain.experimental.FirstFitPackIterDataset(
        documents, length_struct={"t": 256}, num_packing_bins=100
    )
    with iter(ds.observe()) as iterator:
        start = iterator.get_state()
        next(iterator)
        first = iterator.stats()
        # All that the first element needed was read for it.
        assert all(node.warm_up_elements == node.elements_out > 0 for node in first.nodes[:2])
        if opens == "state":
            iterator.set_state(start)
        for _ in range(300):
            next(iterator)
        later = iterator.stats()
    read = later.nodes[0]
    more = read.warm_up_elements - first.nodes[0].warm_up_elements
    assert (more > 0) == (opens == "state")
    assert read.warm_up_elements < read.elements_out
