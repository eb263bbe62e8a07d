"""A collector for the registry of `prometheus_client`, for programs that expose metrics with it already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grain.observe.exports.metric_families import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    SUMMARY,
    MetricFamily,
    metric_families,
)
from grain.observe.exports.prometheus_text import exposed_name
from grain.observe.exports.subjects import collector


class PrometheusCollector:
    """Collects the metrics of observed pipelines when a registry of `prometheus_client` is scraped.

    `prometheus_client.REGISTRY.register(PrometheusCollector())` is all a program needs.

    Args:
        subject: An observed iterator, or an observation; None for all observed pipelines of the process.
    """

    def __init__(self, subject: Any = None):
        self._collect = collector(subject)

    def describe(self) -> list[Any]:
        """Return nothing: the metrics depend on the pipelines that run."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the families of `prometheus_client`."""
        try:
            from prometheus_client import core
        except ImportError as error:
            raise ImportError(
                "PrometheusCollector needs prometheus_client: `pip install prometheus-client`. "
                "`grain.observe.exports.serve_prometheus()` needs no library."
            ) from error
        for family in metric_families(self._collect()):
            yield _client_family(core, family)


def _client_family(core: Any, family: MetricFamily) -> Any:
    made = core.Metric(exposed_name(family).removesuffix("_total"), family.description, family.kind)
    if family.kind == GAUGE:
        made.name = family.name
    for sample in family.samples:
        labels = dict(sample.labels)
        if family.kind == COUNTER:
            made.add_sample(exposed_name(family), labels, sample.value)
        elif family.kind == GAUGE:
            made.add_sample(family.name, labels, sample.value)
        else:
            if family.kind == SUMMARY:
                for quantile, value in sample.parts:
                    made.add_sample(family.name, labels | {"quantile": str(quantile)}, value)
            elif family.kind == HISTOGRAM:
                for bound, count in (*sample.parts, (float("inf"), float(sample.events))):
                    limit = "+Inf" if bound == float("inf") else repr(bound)
                    made.add_sample(f"{family.name}_bucket", labels | {"le": limit}, count)
            made.add_sample(f"{family.name}_sum", labels, sample.value)
            made.add_sample(f"{family.name}_count", labels, float(sample.events))
    return made
