"""Statistics of pipelines with one planted bottleneck; nothing is measured."""

from __future__ import annotations

import dataclasses
from typing import Any

from grain.observe.statistics import (
    NodeStatistics,
    PipelineStatistics,
    WaitStatistics,
    WorkerStatistics,
)

MODES = ("inline", "threads", "workers")
_ORDERED = ("pack", "device_put", "mp_prefetch")


@dataclasses.dataclass(frozen=True)
class Node:
    """A node of a planted pipeline: its seconds in all, and where it must run."""

    operation: str
    seconds: float
    function: str | None = None
    parents: tuple[int, ...] | None = None
    elements: int = 1000
    dropped: int = 0
    cpu: float = 0.05


def planted_statistics(
    nodes: list[Node],
    mode: str,
    *,
    consumer_seconds: float = 0.1,
    transport_seconds: float = 0.0,
    skew: tuple[float, float] = (1.0, 1.0),
    **changes: Any,
) -> PipelineStatistics:
    """Return the statistics of a pipeline in which each node takes some seconds.

    Args:
        nodes: The nodes, in a chain unless they name their parents.
        mode: `inline`; `threads` or `workers`, of which there are two that share the work.
        consumer_seconds: The time that the consumer is busy.
        transport_seconds: The time that each worker spends on sending.
        skew: How much longer each worker takes per element.
        changes: Fields of the statistics to replace.
    """
    units = 1 if mode == "inline" else 2
    found, seconds_elsewhere, seconds_here = [], {}, {}
    for number, node in enumerate(nodes):
        is_here = mode == "inline" or node.operation in _ORDERED
        (seconds_here if is_here else seconds_elsewhere)[number] = node.seconds
        parents = ((number - 1,) if number else ()) if node.parents is None else node.parents
        found.append(
            NodeStatistics(
                id=number,
                operation=node.operation,
                name=f"{node.operation}({node.function or ''})",
                function=node.function,
                parents=parents,
                location="consumer" if is_here else mode,
                elements_in=node.elements + node.dropped,
                elements_out=node.elements,
                dropped=node.dropped,
                self_seconds=node.seconds,
                cpu_seconds=node.seconds * node.cpu,
            )
        )
    busy = sum(seconds_elsewhere.values()) / units
    elapsed = max(busy + transport_seconds, sum(seconds_here.values()) + consumer_seconds)
    workers = ()
    if mode != "inline":
        workers = tuple(
            WorkerStatistics(
                index=index,
                kind="process" if mode == "workers" else "thread",
                tasks=50,
                elements=int(1000 / skew[index]),
                busy_seconds=busy,
                idle_seconds=max(0.0, elapsed - busy - transport_seconds),
                cpu_seconds=sum(
                    seconds * nodes[number].cpu for number, seconds in seconds_elsewhere.items()
                )
                / units,
                transport_seconds=transport_seconds,
                node_seconds={
                    number: seconds / units for number, seconds in seconds_elsewhere.items()
                },
            )
            for index in range(units)
        )
    waiting = elapsed - consumer_seconds
    stats = PipelineStatistics(
        nodes=tuple(found),
        workers=workers,
        wait=WaitStatistics(count=999, total_seconds=waiting, warm_up_count=1),
        consumer_busy_seconds=consumer_seconds,
        elapsed_seconds=elapsed,
        elements=1000,
        bytes=5_000_000_000,
        executor={"workers": "processes"}.get(mode, mode),
        processors=8,
        load_average=1.0,
    )
    return dataclasses.replace(stats, **changes)
