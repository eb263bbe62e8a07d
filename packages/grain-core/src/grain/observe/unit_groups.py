"""The units that compute a pipeline, in groups that compute the same nodes; see `verdict.py`."""

from __future__ import annotations

import dataclasses
import statistics as means
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grain.observe.statistics import NodeStatistics, PipelineStatistics, WorkerStatistics

# An element that takes longer is not limited by the overhead of handing it out.
_HANDING_OUT_SECONDS = 100e-6
MOST_HEADROOM = 100.0
# A load above this many times the processors says no more.
_MOST_CONTENTION = 2.0

BATCHING = ("batch", "rebatch", "shard_batches", "unbatch")
BOUNDARY = ("to_iter_dataset",)
LOADER_RECORDS = ("DataLoader.records",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnitGroup:
    """Units that compute the same nodes.

    Attributes:
        place: `consumer`, `threads` or `workers`.
        units: Their number.
        seconds: The mean time that a unit was busy.
        node_seconds: The own time of nodes, summed over the units.
        transport_seconds: The time to send results, summed over the units.
        cpu_seconds: The processor time of all units.
    """

    place: str
    units: int
    seconds: float
    node_seconds: Mapping[int, float]
    transport_seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def largest(self) -> tuple[int, float]:
        """The node with the most time, and that time."""
        if not self.node_seconds:
            return -1, 0.0
        node = max(self.node_seconds, key=self.node_seconds.__getitem__)
        return node, self.node_seconds[node]

    def share(self, seconds: float) -> float:
        """Return a time as a share of the time of all units."""
        total = max(self.seconds * self.units, sum(self.node_seconds.values()), 1e-12)
        return min(1.0, seconds / total)


def unit_groups(stats: PipelineStatistics) -> list[UnitGroup]:
    """Return the groups of units that computed anything."""
    elsewhere: dict[int, float] = {}
    for worker in stats.workers:
        for node, seconds in worker.node_seconds.items():
            elsewhere[node] = elsewhere.get(node, 0.0) + seconds
    inline = {
        node.id: max(0.0, node.self_seconds - elsewhere.get(node.id, 0.0)) for node in stats.nodes
    }
    if not stats.workers:
        inline = {node.id: node.self_seconds for node in stats.nodes}
    if total_seconds(stats) > _HANDING_OUT_SECONDS * stats.wait.count:
        inline = {n: t for n, t in inline.items() if stats.node(n).operation not in BOUNDARY}
    groups = [
        UnitGroup(place="consumer", units=1, seconds=sum(inline.values()), node_seconds=inline)
    ]
    processes = [worker for worker in stats.workers if worker.kind == "process"]
    if processes:
        groups.append(_group_of("workers", processes))
    by_node: dict[int, list[WorkerStatistics]] = {}
    for worker in stats.workers:
        if worker.kind != "process" and worker.node_seconds and worker.busy_seconds:
            largest = max(worker.node_seconds, key=worker.node_seconds.__getitem__)
            by_node.setdefault(largest, []).append(worker)
    groups += [_group_of("threads", threads) for threads in by_node.values()]
    return [group for group in groups if group.seconds > 0]


def measured_part(stats: PipelineStatistics, group: UnitGroup) -> UnitGroup:
    """Return a group without the work of the warm-up, in proportion to its work.

    The measured time starts after the warm-up, and starts again after `set_state`. The consumer's thread
    computes while the consumer waits, and other units compute while the measured time passes.
    """
    most = stats.wait.total_seconds if group.place == "consumer" else total_seconds(stats)
    if group.seconds <= most:
        return group
    part = most / group.seconds
    return dataclasses.replace(
        group,
        seconds=most,
        node_seconds={node: seconds * part for node, seconds in group.node_seconds.items()},
        transport_seconds=group.transport_seconds * part,
        cpu_seconds=group.cpu_seconds * part,
    )


def _group_of(place: str, workers: Sequence[WorkerStatistics]) -> UnitGroup:
    node_seconds: dict[int, float] = {}
    for worker in workers:
        for node, seconds in worker.node_seconds.items():
            node_seconds[node] = node_seconds.get(node, 0.0) + seconds
    transport = sum(worker.transport_seconds for worker in workers)
    busy = [worker.busy_seconds + worker.transport_seconds for worker in workers]
    return UnitGroup(
        place=place,
        units=len(workers),
        seconds=means.fmean(busy),
        node_seconds=node_seconds,
        transport_seconds=transport,
        cpu_seconds=sum(worker.cpu_seconds or 0.0 for worker in workers),
    )


def with_preemption(stats: PipelineStatistics, group: UnitGroup) -> UnitGroup:
    """Return a group whose nodes bear the time that workers waited for a processor between nodes.

    A worker that competes for a processor may lose it in any line, and most lines that compute are those of
    nodes.
    """
    work = sum(group.node_seconds.values())
    if group.place != "workers" or not work:
        return group
    cpu_of_nodes = sum(
        seconds * (node.cpu_seconds or 0.0) / node.self_seconds
        for number, seconds in group.node_seconds.items()
        if (node := stats.node(number)).self_seconds
    )
    outside = group.seconds * group.units - group.transport_seconds - work
    waiting = outside - max(0.0, group.cpu_seconds - cpu_of_nodes)
    if not cpu_of_nodes or waiting <= 0:
        return group
    part = 1 + waiting / work
    node_seconds = {number: seconds * part for number, seconds in group.node_seconds.items()}
    return dataclasses.replace(group, node_seconds=node_seconds)


def total_seconds(stats: PipelineStatistics) -> float:
    """Return the time that was measured: the waits and the work of the consumer."""
    return stats.wait.total_seconds + stats.consumer_busy_seconds


def contention(stats: PipelineStatistics) -> float:
    """Return how many threads share a processor: where programs compete, computing also means waiting."""
    load = (stats.load_average or 0.0) / (stats.processors or 1)
    return min(max(1.0, load), _MOST_CONTENTION)


def called(node: NodeStatistics) -> str:
    """Return how sentences call a node."""
    return f"`{node.function or node.name}`"


def bounded(factor: float) -> float:
    """Return a factor of throughput within the limits of its estimate."""
    return min(max(factor, 1.0), MOST_HEADROOM)
