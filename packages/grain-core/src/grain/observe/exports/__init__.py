"""Exports of statistics: Prometheus, OpenTelemetry, traces, experiment trackers, logs.

Each export reads an observed iterator, an observation of `grain.observing()`, or, without an argument, all
observed pipelines of the process. None of them needs a library that is not installed with grain-core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain._lazy import lazy_names

if TYPE_CHECKING:
    from grain.observe.exports.opentelemetry import instrument_meter
    from grain.observe.exports.prometheus_collector import PrometheusCollector
    from grain.observe.exports.prometheus_server import PrometheusServer, serve_prometheus
    from grain.observe.exports.prometheus_text import scrape
    from grain.observe.exports.summary_table import execution_summary
    from grain.observe.exports.trace_file import trace_events, write_trace

__all__ = [
    "PrometheusCollector",
    "PrometheusServer",
    "execution_summary",
    "instrument_meter",
    "scrape",
    "serve_prometheus",
    "trace_events",
    "write_trace",
]

if not TYPE_CHECKING:  # With it, a type checker would accept every name.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "grain.observe.exports.summary_table": ["execution_summary"],
            "grain.observe.exports.opentelemetry": ["instrument_meter"],
            "grain.observe.exports.prometheus_collector": ["PrometheusCollector"],
            "grain.observe.exports.prometheus_server": ["PrometheusServer", "serve_prometheus"],
            "grain.observe.exports.prometheus_text": ["scrape"],
            "grain.observe.exports.trace_file": ["trace_events", "write_trace"],
        },
    )
