"""Statistics as a flat dictionary of numbers, for experiment trackers such as W&B and TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grain.observe.statistics import PipelineStatistics


def flat_metrics(stats: PipelineStatistics, *, prefix: str = "data/") -> dict[str, float]:
    """Return the figures of a pipeline as a flat dictionary of finite numbers.

    Args:
        stats: The statistics.
        prefix: Comes before every name.
    """
    wait = stats.wait
    total = sum(node.self_seconds for node in stats.nodes)
    found: dict[str, float | None] = {
        "elements": stats.elements,
        "bytes": stats.bytes,
        "epoch": stats.epoch,
        "throughput": stats.throughput,
        "wait_share": stats.wait_share,
        "wait_p50_ms": wait.p50 * 1e3,
        "wait_p95_ms": wait.p95 * 1e3,
        "wait_p99_ms": wait.p99 * 1e3,
        "setup_seconds": stats.setup_seconds,
        "elapsed_seconds": stats.elapsed_seconds,
        "headroom": stats.verdict.headroom,
    }
    for node in stats.nodes:
        name = f"node/{node.id}_{node.function or node.operation}"
        found[f"{name}/self_seconds"] = node.self_seconds
        found[f"{name}/self_share"] = node.self_seconds / total if total else 0.0
        found[f"{name}/elements"] = node.elements_out
        if node.dropped:
            found[f"{name}/dropped_share"] = node.dropped_share
        if node.queue is not None:
            found[f"{name}/queue_fill"] = node.queue.fill
    for worker in stats.workers:
        name = f"{worker.kind}/{worker.index}"
        busy = worker.busy_seconds + worker.idle_seconds
        found[f"{name}/busy_share"] = worker.busy_seconds / busy if busy else 0.0
        found[f"{name}/restarts"] = worker.restarts
    return {f"{prefix}{name}": float(value) for name, value in _finite(found).items()}


def _finite(values: Mapping[str, Any]) -> dict[str, Any]:
    limit = float("inf")
    return {
        name: value
        for name, value in values.items()
        if value is not None and -limit < float(value) < limit
    }
