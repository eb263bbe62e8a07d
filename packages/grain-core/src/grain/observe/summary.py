"""Statistics of nodes and workers from counters: sums over threads and processes."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping
from operator import add
from typing import Any

from grain.observe.observed_graph import GraphNode
from grain.observe.recording import NodeCounters, ThreadRecorder
from grain.observe.statistics import NodeStatistics, QueueStatistics, WorkerStatistics

# After so many tasks, the time of the first is left out.
_WARMED_UP = 4


class WorkerTotals:
    """Sums of one worker; durations are nanoseconds.

    Args:
        is_local: Whether the worker is a thread of the consuming process.
    """

    def __init__(self, is_local: bool):
        self.is_local = is_local
        self.tasks = self.elements = 0
        self.busy = self.cpu = self.idle = self.transport = 0
        self.sampled_elements = self.sampled_bytes = 0
        self.processes: set[int] = set()
        self._first_busy = 0
        self._growth: dict[int, tuple[int, ...]] = {}

    @property
    def counters(self) -> dict[int, NodeCounters]:
        """The counters of the worker's processes by node."""
        found: dict[int, NodeCounters] = {}
        for node, values in list(self._growth.items()):
            found[node] = NodeCounters()
            found[node].add(values)
        return found

    def add(self, report: Any) -> None:
        """Add the report of a task."""
        self.tasks += 1
        if self.tasks == 1:
            self._first_busy = report.busy
        elif self.tasks == _WARMED_UP:  # The first task imports modules and opens files.
            self.busy -= self._first_busy
        self.elements += report.elements
        self.busy += report.busy
        self.cpu += report.cpu
        self.idle += report.idle
        self.transport += report.transport
        if report.nbytes:
            self.sampled_elements += 1
            self.sampled_bytes += report.nbytes
        self.processes.add(report.process)
        for node, values in report.growth.items():
            before = self._growth.get(node)
            self._growth[node] = values if before is None else tuple(map(add, before, values))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """All measurements of a pipeline at one time.

    Attributes:
        nodes: The nodes.
        threads: The recorders of the consuming process.
        workers: Sums of workers by their number.
        local: Counters of the consuming process by node.
        remote: Counters of worker processes by node.
        capacities: Capacities of queues by node.
        elapsed_seconds: The time since the iterator was made.
        streams: Nodes of datasets that one worker reads from start to end.
    """

    nodes: tuple[GraphNode, ...]
    threads: tuple[ThreadRecorder, ...]
    workers: Mapping[int, WorkerTotals]
    local: Mapping[int, NodeCounters]
    remote: Mapping[int, NodeCounters]
    capacities: Mapping[int, int]
    elapsed_seconds: float
    streams: frozenset[int] = frozenset()


def node_statistics(measured: Measured) -> tuple[NodeStatistics, ...]:
    """Return the statistics of all nodes."""
    found: list[NodeStatistics] = []
    returned: dict[int, int] = {}
    nbytes: dict[int, int] = {}
    places: dict[int, str] = {}
    readers = collections.Counter(parent for node in measured.nodes for parent in node.parents)
    for node in _in_order(measured.nodes):
        counters = NodeCounters()
        for source in (measured.local, measured.remote):
            if node.number in source:
                counters.add(source[node.number].values())
        inputs = sum(returned.get(parent, 0) for parent in node.parents)
        place = places[node.number] = _place(node, measured, places)
        received = counters.received or inputs
        if any(places[parent] != place for parent in node.parents):
            # Frames count what was read in the same thread; the rest came from other units. What a node
            # with several readers returned is not counted for each of them.
            is_shared = any(readers[parent] > 1 for parent in node.parents)
            received = 0 if is_shared else max(received, inputs)
        # The library reads some nodes, such as `to_iter_dataset`, without calling them.
        out = counters.returned if counters.calls and counters.returned else None
        if out is None:
            out = 0 if _had_result(counters) else inputs
        returned[node.number] = out
        mean = (
            counters.sampled_bytes / counters.sampled_elements if counters.sampled_elements else 0
        )
        size = int(mean * out)
        if not size and len(node.parents) == 1 and out == inputs:
            size = nbytes.get(node.parents[0], 0)
        nbytes[node.number] = size
        samples = counters.queue_samples
        found.append(
            NodeStatistics(
                id=node.number,
                operation=node.operation,
                name=node.name,
                function=node.function,
                parents=node.parents,
                location=place,
                spec=node.spec,
                length=node.length,
                elements_in=received if node.parents else 0,
                elements_out=out,
                warm_up_elements=min(out, counters.returned_in_warm_up),
                dropped=max(0, counters.dropped),
                bytes_out=size,
                self_seconds=counters.working / 1e9,
                cpu_seconds=_cpu_seconds(counters),
                wait_for_parent_seconds=counters.waiting / 1e9,
                wait_for_consumer_seconds=counters.waited_for_consumer / 1e9,
                queue=QueueStatistics(
                    capacity=measured.capacities.get(node.number) or None,
                    mean_occupancy=counters.queue_filled / samples,
                    samples=samples,
                )
                if samples
                else None,
            )
        )
    return tuple(found)


def _cpu_seconds(counters: NodeCounters) -> float | None:
    if not counters.cpu_sampled:
        return None
    return counters.working * min(1.0, counters.cpu / counters.cpu_sampled) / 1e9


def _had_result(counters: NodeCounters) -> bool:
    """Return whether a node was called for elements and returned none."""
    return bool(counters.calls and counters.received)


def _in_order(nodes: tuple[GraphNode, ...]) -> list[GraphNode]:
    """Return the nodes, each after its parents: datasets that a node opened late have larger numbers."""
    by_number = {node.number: node for node in nodes}
    ordered: list[GraphNode] = []
    done: set[int] = set()
    for first in _outputs_last(nodes):
        pending = [(first.number, False)]
        while pending:
            number, has_parents = pending.pop()
            if number in done:
                continue
            if has_parents:
                done.add(number)
                ordered.append(by_number[number])
                continue
            pending.append((number, True))
            pending.extend((parent, False) for parent in reversed(by_number[number].parents))
    return ordered


def _outputs_last(nodes: tuple[GraphNode, ...]) -> list[GraphNode]:
    """Return the nodes with those last that no other node reads."""
    read = {parent for node in nodes for parent in node.parents}
    return sorted(nodes, key=lambda node: node.number not in read)


def _place(node: GraphNode, measured: Measured, places: Mapping[int, str]) -> str:
    """Return where a node runs: where most of its time was measured, or else where its parents run."""
    times = {"workers": 0, "threads": 0, "consumer": 0}
    if node.number in measured.remote:
        remote = measured.remote[node.number]
        times["workers"] = remote.working + remote.calls
    for recorder in measured.threads:
        counters = recorder.counters.get(node.number)
        if counters is not None:
            kind = "consumer" if recorder.is_consumer else "threads"
            times[kind] += counters.working + counters.waiting + counters.calls
    place = max(times, key=times.__getitem__)
    if times[place]:
        if place == "workers" and node.number in measured.streams:
            return "stream"
        return place
    return next((places[parent] for parent in node.parents if parent in places), "consumer")


def worker_statistics(measured: Measured) -> tuple[WorkerStatistics, ...]:
    """Return the statistics of worker processes, then of threads."""
    found = [
        _process_statistics(index, totals)
        for index, totals in sorted(measured.workers.items())
        if not totals.is_local
    ]
    threads = [recorder for recorder in measured.threads if not recorder.is_consumer]
    found += [_thread_statistics(index, recorder) for index, recorder in enumerate(threads)]
    return tuple(found)


def _process_statistics(index: int, totals: WorkerTotals) -> WorkerStatistics:
    mean = totals.sampled_bytes / totals.sampled_elements if totals.sampled_elements else 0
    return WorkerStatistics(
        index=index,
        kind="process",
        tasks=totals.tasks,
        elements=totals.elements,
        bytes=int(mean * totals.elements),
        busy_seconds=totals.busy / 1e9,
        idle_seconds=totals.idle / 1e9,
        cpu_seconds=totals.cpu / 1e9,
        transport_seconds=totals.transport / 1e9,
        restarts=len(totals.processes) - 1,
        node_seconds={
            node: counters.working / 1e9 for node, counters in sorted(totals.counters.items())
        },
    )


def _thread_statistics(index: int, recorder: ThreadRecorder) -> WorkerStatistics:
    lifetime = recorder.last - recorder.first
    counters = dict(recorder.counters)
    return WorkerStatistics(
        index=index,
        kind="thread",
        tasks=recorder.tasks,
        elements=max((found.returned for found in counters.values()), default=0),
        busy_seconds=recorder.busy / 1e9,
        idle_seconds=max(0, lifetime - recorder.busy) / 1e9,
        cpu_seconds=recorder.cpu / 1e9,
        node_seconds={node: found.working / 1e9 for node, found in sorted(counters.items())},
    )
