"""Metrics of pipelines and of the program, in the form that monitoring systems share.

A family has a name, a kind, a description and samples with labels, as in Prometheus and OpenTelemetry. The
names that start with `grain_python_` are google/grain's, with its meanings and units; they exist here only
while a pipeline is observed.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from grain import monitoring
from grain.observe.statistics import NodeStatistics, PipelineStatistics, WorkerStatistics

Labels = tuple[tuple[str, str], ...]

COUNTER, GAUGE, SUMMARY, HISTOGRAM = "counter", "gauge", "summary", "histogram"

_NANOSECONDS = 1e9


class MetricSample(NamedTuple):
    """One value of a family.

    For a summary, `parts` has its quantiles, and for a histogram the cumulative counts by upper limit;
    `events` is the number of values, and `value` their sum.
    """

    labels: Labels
    value: float
    events: int = 0
    parts: tuple[tuple[float, float], ...] = ()


class MetricFamily(NamedTuple):
    """The samples of one metric, and what it means."""

    name: str
    kind: str
    description: str
    samples: tuple[MetricSample, ...]


def metric_families(pipelines: Iterable[PipelineStatistics]) -> list[MetricFamily]:
    """Return the metrics of pipelines, and those that the program has defined in `grain.monitoring`."""
    labelled = list(_with_labels(pipelines))
    by_name: dict[str, MetricFamily] = {}
    for family in (
        *_own_families(labelled),
        *_reference_families(labelled),
        *_program_families(),
    ):
        if family.samples:
            by_name.setdefault(family.name, family)
    return list(by_name.values())


def known_families() -> list[MetricFamily]:
    """Return the families of pipelines without samples, except for those of google/grain."""
    return list(_own_families(()))


def _own_families(pipelines: _Labelled) -> Iterator[MetricFamily]:
    yield from _pipeline_families(pipelines)
    yield from _node_families(pipelines)
    yield from _worker_families(pipelines)


def _with_labels(
    pipelines: Iterable[PipelineStatistics],
) -> Iterator[tuple[Labels, PipelineStatistics]]:
    """Yield each pipeline with a label that no other one has."""
    used: dict[str, int] = {}
    for stats in pipelines:
        number = used[stats.name] = used.get(stats.name, 0) + 1
        name = stats.name if number == 1 else f"{stats.name} ({number})"
        yield (("pipeline", name),), stats


_Labelled = Sequence[tuple[Labels, PipelineStatistics]]

# Name, kind, description, and how the value is read.
_OF_PIPELINE: Sequence[tuple[str, str, str, Any]] = (
    ("elements", COUNTER, "Elements that the consumer received.", lambda s: s.elements),
    ("bytes", COUNTER, "Bytes that the consumer received.", lambda s: s.bytes),
    ("epochs", COUNTER, "How many times the end was reached.", lambda s: s.epoch),
    (
        "consumer_busy_seconds",
        COUNTER,
        "Seconds between next() calls, after the warm-up.",
        lambda s: s.consumer_busy_seconds,
    ),
    (
        "setup_seconds",
        GAUGE,
        "Seconds from iter() to the first element.",
        lambda s: s.setup_seconds,
    ),
    (
        "wait_share",
        GAUGE,
        "Share of the consumer's time that it waited in next(), after the warm-up.",
        lambda s: s.wait_share,
    ),
    (
        "throughput_elements_per_second",
        GAUGE,
        "Elements per second, after the warm-up.",
        lambda s: s.throughput,
    ),
)

_OF_NODE: Sequence[tuple[str, str, str, Any]] = (
    ("elements", COUNTER, "Elements that a node returned.", lambda n: n.elements_out),
    ("dropped_elements", COUNTER, "Elements that a node dropped.", lambda n: n.dropped),
    ("bytes", COUNTER, "Bytes that a node returned.", lambda n: n.bytes_out),
    ("self_seconds", COUNTER, "Seconds of a node's own work.", lambda n: n.self_seconds),
    (
        "wait_for_parent_seconds",
        COUNTER,
        "Seconds that a node waited for threads, workers or its parents.",
        lambda n: n.wait_for_parent_seconds,
    ),
    (
        "wait_for_consumer_seconds",
        COUNTER,
        "Seconds that the results of a node waited to be taken.",
        lambda n: n.wait_for_consumer_seconds,
    ),
    (
        "queue_capacity",
        GAUGE,
        "The most prefetched results of a node.",
        lambda n: n.queue and n.queue.capacity,
    ),
    (
        "queue_mean_occupancy",
        GAUGE,
        "The mean number of prefetched results that were ready.",
        lambda n: n.queue and n.queue.mean_occupancy,
    ),
)

_OF_WORKER: Sequence[tuple[str, str, str, Any]] = (
    ("tasks", COUNTER, "Tasks that a worker computed.", lambda w: w.tasks),
    ("elements", COUNTER, "Elements that a worker returned.", lambda w: w.elements),
    ("bytes", COUNTER, "Bytes that a worker returned.", lambda w: w.bytes),
    ("busy_seconds", COUNTER, "Seconds that a worker computed.", lambda w: w.busy_seconds),
    ("idle_seconds", COUNTER, "Seconds that a worker waited for tasks.", lambda w: w.idle_seconds),
    (
        "transport_seconds",
        COUNTER,
        "Seconds to send and receive the results of a worker.",
        lambda w: w.transport_seconds,
    ),
    ("restarts", COUNTER, "How often a worker was replaced.", lambda w: w.restarts),
)


def _pipeline_families(pipelines: _Labelled) -> Iterator[MetricFamily]:
    for name, kind, description, read in _OF_PIPELINE:
        samples = tuple(MetricSample(labels, float(read(stats))) for labels, stats in pipelines)
        yield MetricFamily(f"grain_{name}", kind, description, samples)
    yield MetricFamily(
        "grain_consumer_wait_seconds",
        SUMMARY,
        "Seconds that next() made the consumer wait, after the warm-up.",
        tuple(
            MetricSample(
                labels,
                stats.wait.total_seconds,
                stats.wait.count,
                ((0.5, stats.wait.p50), (0.95, stats.wait.p95), (0.99, stats.wait.p99)),
            )
            for labels, stats in pipelines
        ),
    )
    yield MetricFamily(
        "grain_bottleneck",
        GAUGE,
        "1 for what limits the throughput: its kind, and the node if it is one.",
        tuple(
            MetricSample(
                (*labels, ("kind", stats.verdict.kind), ("node", _limiting_node(stats))), 1.0
            )
            for labels, stats in pipelines
        ),
    )


def _limiting_node(stats: PipelineStatistics) -> str:
    number = stats.verdict.node
    return "" if number is None else stats.node(number).name


def _node_families(pipelines: _Labelled) -> Iterator[MetricFamily]:
    for name, kind, description, read in _OF_NODE:
        samples = tuple(
            MetricSample(_node_labels(labels, node), float(read(node)))
            for labels, stats in pipelines
            for node in stats.nodes
            if read(node) is not None
        )
        yield MetricFamily(f"grain_node_{name}", kind, description, samples)


def _node_labels(labels: Labels, node: NodeStatistics) -> Labels:
    return (*labels, ("node", str(node.id)), ("name", node.name), ("location", node.location))


def _worker_families(pipelines: _Labelled) -> Iterator[MetricFamily]:
    for name, kind, description, read in _OF_WORKER:
        samples = tuple(
            MetricSample(_worker_labels(labels, worker), float(read(worker)))
            for labels, stats in pipelines
            for worker in stats.workers
        )
        yield MetricFamily(f"grain_worker_{name}", kind, description, samples)


def _worker_labels(labels: Labels, worker: WorkerStatistics) -> Labels:
    return (*labels, ("worker", worker.name))


def _reference_families(pipelines: _Labelled) -> Iterator[MetricFamily]:
    """Yield the metrics of google/grain 0.2.18; histograms have no limits where only sums are known."""
    yield MetricFamily(
        "grain_python_dataset_next_duration_ns",
        HISTOGRAM,
        "Durations of next() on the output iterator in nanoseconds.",
        tuple(_next_durations(labels, stats) for labels, stats in pipelines),
    )
    sources = [
        ((*labels, ("source", node.name), ("node", str(node.id))), node)
        for labels, stats in pipelines
        for node in stats.nodes
        if not node.parents
    ]
    yield MetricFamily(
        "grain_python_dataset_source_read_time_ns",
        HISTOGRAM,
        "Time to read elements from sources in nanoseconds.",
        tuple(
            MetricSample(labels, node.self_seconds * _NANOSECONDS, node.elements_out)
            for labels, node in sources
        ),
    )
    yield MetricFamily(
        "grain_python_data_sources_bytes_read",
        COUNTER,
        "Bytes read from sources.",
        tuple(MetricSample(labels, float(node.bytes_out)) for labels, node in sources),
    )
    yield MetricFamily(
        "grain_python_dataset_prefetch_buffer_ready_count",
        HISTOGRAM,
        "Prefetched results that were ready when one was taken; low values mean slow reads.",
        tuple(
            MetricSample(
                _node_labels(labels, node),
                node.queue.mean_occupancy * node.queue.samples,
                node.queue.samples,
            )
            for labels, stats in pipelines
            for node in stats.nodes
            if node.queue is not None
        ),
    )


def _next_durations(labels: Labels, stats: PipelineStatistics) -> MetricSample:
    wait = stats.wait
    seconds = wait.total_seconds + wait.warm_up_seconds
    limits = [2.0**power for power in range(len(wait.histogram) - 1)]
    # The counts before the last one, which has no limit.
    cumulative = itertools.accumulate(map(float, wait.histogram[:-1]))
    return MetricSample(
        labels,
        seconds * _NANOSECONDS,
        sum(wait.histogram) or wait.count + wait.warm_up_count,
        tuple(zip(limits, cumulative, strict=True)),
    )


# Metrics that the program has defined

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_:]")


def metric_name(name: str) -> str:
    """Return a name in the form that monitoring systems accept.

    >>> metric_name("/my/files read"), metric_name("9 lives")
    ('my_files_read', '_9_lives')
    """
    name = _NOT_IN_NAMES.sub("_", name.strip("/")) or "_"
    return f"_{name}" if name[0].isdigit() else name


def _label_name(name: str) -> str:
    name = metric_name(name).replace(":", "_")
    return f"{name}_" if name in ("le", "quantile") or name.startswith("__") else name


def _program_families() -> Iterator[MetricFamily]:
    kinds = {monitoring.Counter: COUNTER, monitoring.EventMetric: HISTOGRAM}
    for metric in monitoring.all_metrics():
        kind = kinds.get(type(metric), GAUGE)
        description = metric.metadata.description if metric.metadata else ""
        samples = []
        for key, value in metric.values().items():
            labels = _program_labels(metric.fields, key)
            if isinstance(value, monitoring.EventDistribution):
                samples.append(MetricSample(labels, value.total, value.count, _cumulative(value)))
            elif isinstance(value, bool | int | float):
                samples.append(MetricSample(labels, float(value)))
        yield MetricFamily(metric_name(metric.name), kind, description, tuple(samples))


def _program_labels(fields: Sequence[str], key: tuple[Any, ...]) -> Labels:
    labels: dict[str, str] = {}
    for number, value in enumerate(key):
        if number < len(fields):
            labels[_label_name(fields[number])] = str(value)
        elif isinstance(value, tuple):  # A name that is not a field.
            labels[_label_name(str(value[0]))] = str(value[1])
        else:
            labels[f"field_{number}"] = str(value)
    return tuple(labels.items())


def _cumulative(value: monitoring.EventDistribution) -> tuple[tuple[float, float], ...]:
    parts, below = [], 0
    for bound, count in zip(value.bounds, value.counts, strict=False):
        below += count
        parts.append((bound, float(below)))
    return tuple(parts)
