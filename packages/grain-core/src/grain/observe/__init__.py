"""Telemetry: measure a running pipeline, name what limits it, and export the figures.

`grain.observe` is this package. Its public entry points:

- `with grain.observing() as observation:` observes every iterator that is created in the block;
  `observation.pipelines` has one `PipelineStatistics` per iterator.
- `iterator.stats()` returns the `PipelineStatistics` of one observed iterator, at any time.
- `grain.diagnose(ds)` runs a bounded sample and returns its statistics; `.verdict` is the sentence.
- `ds.visualize()` returns a page of a pipeline, and `with grain.observe.live():` serves one while it runs.
- `GRAIN_OBSERVE=1`, or `grain.config.update("observe", True)`, observes every iterator of the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain._lazy import lazy_names

if TYPE_CHECKING:
    from grain.observe.diagnose import diagnose
    from grain.observe.page.live import live
    from grain.observe.page.live_server import LiveServer
    from grain.observe.page.pipeline_page import PipelinePage
    from grain.observe.statistics import (
        NodeStatistics,
        PipelineStatistics,
        QueueStatistics,
        Span,
        WaitStatistics,
        WorkerStatistics,
    )
    from grain.observe.switch import ObservedBlock, observing
    from grain.observe.verdict import Verdict

__all__ = [
    "LiveServer",
    "NodeStatistics",
    "ObservedBlock",
    "PipelinePage",
    "PipelineStatistics",
    "QueueStatistics",
    "Span",
    "Verdict",
    "WaitStatistics",
    "WorkerStatistics",
    "diagnose",
    "live",
    "observing",
]

if not TYPE_CHECKING:  # With it, a type checker would accept every name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "grain.observe.diagnose": ["diagnose"],
            "grain.observe.page.live": ["live"],
            "grain.observe.page.live_server": ["LiveServer"],
            "grain.observe.page.pipeline_page": ["PipelinePage"],
            "grain.observe.statistics": [
                "NodeStatistics",
                "PipelineStatistics",
                "QueueStatistics",
                "Span",
                "WaitStatistics",
                "WorkerStatistics",
            ],
            "grain.observe.switch": ["ObservedBlock", "observing"],
            "grain.observe.verdict": ["Verdict"],
        },
    )
