"""The text format of Prometheus, made from metric families."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grain.observe.exports.metric_families import (
    COUNTER,
    HISTOGRAM,
    SUMMARY,
    Labels,
    MetricFamily,
    MetricSample,
    metric_families,
)
from grain.observe.exports.subjects import collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def prometheus_text(families: Iterable[MetricFamily]) -> str:
    r"""Return families in the text format of Prometheus, version 0.0.4.

    >>> samples = (MetricSample((("pipeline", 'a "b"'),), 3.0),)
    >>> print(prometheus_text([MetricFamily("grain_elements", "counter", "Elements.", samples)]), end="")
    # HELP grain_elements_total Elements.
    # TYPE grain_elements_total counter
    grain_elements_total{pipeline="a \"b\""} 3.0
    """
    lines: list[str] = []
    for family in families:
        name = exposed_name(family)
        lines.append(f"# HELP {name} {_escaped(family.description)}")
        lines.append(f"# TYPE {name} {family.kind}")
        for sample in family.samples:
            lines += _lines(name, family.kind, sample)
    return "".join(f"{line}\n" for line in lines)


def scrape(subject: Any = None) -> str:
    """Return what Prometheus reads at an endpoint: all metrics in its text format.

    Args:
        subject: An observed iterator, or an observation; None for all observed pipelines of the process.

    >>> import grain
    >>> with grain.observing(name="train"):
    ...     iterator = iter(grain.MapDataset.range(3))
    >>> next(iterator)
    0
    >>> 'grain_elements_total{pipeline="train"} 1.0' in scrape(iterator)
    True
    """
    return prometheus_text(metric_families(collector(subject)()))


def exposed_name(family: MetricFamily) -> str:
    """Return the name with the suffix that Prometheus expects of counters."""
    if family.kind == COUNTER and not family.name.endswith("_total"):
        return f"{family.name}_total"
    return family.name


def _lines(name: str, kind: str, sample: MetricSample) -> list[str]:
    if kind not in (SUMMARY, HISTOGRAM):
        return [f"{name}{_label_text(sample.labels)} {_number(sample.value)}"]
    lines = []
    if kind == SUMMARY:
        for quantile, value in sample.parts:
            labels = (*sample.labels, ("quantile", _number(quantile)))
            lines.append(f"{name}{_label_text(labels)} {_number(value)}")
    else:
        for bound, count in (*sample.parts, (float("inf"), float(sample.events))):
            labels = (*sample.labels, ("le", _number(bound)))
            lines.append(f"{name}_bucket{_label_text(labels)} {_number(count)}")
    own = _label_text(sample.labels)
    lines.append(f"{name}_sum{own} {_number(sample.value)}")
    lines.append(f"{name}_count{own} {_number(sample.events)}")
    return lines


def _label_text(labels: Labels) -> str:
    if not labels:
        return ""
    shown = ",".join(f'{name}="{_escaped(value, quote=True)}"' for name, value in labels)
    return f"{{{shown}}}"


def _escaped(text: str, *, quote: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    # A carriage return ends a line for some parsers, and the format has no escape for it.
    text = text.replace("\r", " ")
    return text.replace('"', '\\"') if quote else text


def _number(value: float) -> str:
    value = float(value)
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if value != value else repr(value)
