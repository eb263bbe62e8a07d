"""`live()`: a page of the pipelines that run inside of a block of code, kept up to date."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from grain.observe.page.content import PageContent
from grain.observe.page.live_server import LiveServer
from grain.observe.page.page_graph import PageNode, graph_of, merged_graph
from grain.observe.switch import observing

# Pipelines that are shown: the last ones.
MOST_PIPELINES = 8


@contextlib.contextmanager
def live(
    *, port: int = 0, name: str | None = None, trace: bool = True, announce: bool = True
) -> Iterator[LiveServer]:
    """Serve a page of the pipelines that are iterated inside of a `with` block, on this machine only.

    The page shows graph, timings and bottleneck of each iterator that is created in the block, and is
    updated every second. Elements, their order and states do not change. The server ends with the block.

    Args:
        port: The port; 0 for any that is free. To look at it from another machine, forward the port:
            `ssh -L 8008:127.0.0.1:8008 host`.
        name: A name for the pipelines.
        trace: Whether to show a timeline of threads and workers.
        announce: Whether to print the address to stderr.

    >>> import grain
    >>> with grain.observe.live(announce=False) as server:
    ...     total = sum(grain.MapDataset.range(10))
    ...     print(total, server.url.partition(":")[0])
    45 http
    """
    with (
        observing(name=name, trace=trace) as block,
        LiveServer(lambda: live_pages(block.recorders), port=port) as server,
    ):
        if announce:
            print(f"grain: live page of this pipeline: {server.url}", file=sys.stderr, flush=True)
        yield server


# The graph of each pipeline, which does not change while it runs.
_graphs: weakref.WeakKeyDictionary[Any, tuple[PageNode, ...]] = weakref.WeakKeyDictionary()


def live_pages(recorders: Sequence[Any]) -> list[PageContent]:
    """Return what the pages of the last pipelines show now."""
    return [_live_page(recorder) for recorder in recorders[-MOST_PIPELINES:]]


def _live_page(recorder: Any) -> PageContent:
    if recorder not in _graphs:
        _graphs[recorder] = graph_of(recorder.dataset)
    stats = recorder.statistics()
    nodes = merged_graph(_graphs[recorder], stats, keep_iteration=True)
    return PageContent(nodes=nodes, title=stats.name, statistics=stats)
