"""The recorder of one observed iterator: it makes the observed copy of a pipeline and sums measurements."""

from __future__ import annotations

import collections
import copy
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from grain import monitoring
from grain.dataset import same_epoch
from grain.dataset.base import DatasetIterator, IterDataset
from grain.dataset.context import current_context, iteration_context
from grain.dataset.iterator import ChunkIterator
from grain.dataset.prefetch import ProcessPrefetchIterDataset
from grain.execution.fused_stage import FusedStage
from grain.observe.consumer_clock import ConsumerClock, attach_clock, untaken_elements
from grain.observe.instrumentation import Probe, is_observed, node_numbers, observed_copy
from grain.observe.observed_graph import GraphNode, drops_elements, in_order, is_sparse, shape_of
from grain.observe.observed_session import ObservedSession
from grain.observe.recording import NodeCounters, RecordedSpan, recorders_for
from grain.observe.statistics import PipelineStatistics, Span
from grain.observe.summary import Measured, WorkerTotals, node_statistics, worker_statistics
from grain.observe.worker_telemetry import TaskReport, process_identity
from grain.options import ObservationOptions

# The most recent spans that are kept of each thread and worker.
MAX_SPANS = 4096
# Datasets of different shapes that one node opens get nodes of their own up to this number.
_MOST_SHAPES = 16

_names = collections.Counter[str]()


class PipelineRecorder:
    """Measurements of one iterator.

    Args:
        dataset: The dataset that is iterated.
        options: A name and whether to record a timeline.
    """

    def __init__(self, dataset: Any, options: ObservationOptions):
        self.name = options.name or "pipeline"
        self.started_at = time.time()
        self._cpu_started = time.process_time()
        _names["pipeline"] += 1
        key = f"{process_identity()}-{_names['pipeline']}"
        self.recorders = recorders_for(key, MAX_SPANS if options.trace else 0)
        self.executor = "inline"
        self._nodes: list[GraphNode] = []
        self._shapes: dict[Any, list[int]] = {}
        self._workers: dict[int, WorkerTotals] = {}
        # Nanoseconds that results waited for the consumer, by the node that received them.
        self._waited_for_consumer = collections.Counter[int]()
        # Nodes of datasets that one worker reads from start to end.
        self._streams: set[int] = set()
        self._worker_spans: dict[str, collections.deque[Span]] = {}
        self._lock = threading.Lock()
        self._iterator: weakref.ref[Any] | None = None
        self.clock = ConsumerClock()
        self._dataset = dataset

    @property
    def dataset(self) -> Any:
        """The dataset that is iterated."""
        return self._dataset

    # Observed copies

    def open(self) -> Any:
        """Return the observed iterator of the dataset; another object if it cannot be observed."""
        if same_epoch.is_watching:  # Copies are opened instead of these.
            for node in in_order(self._dataset):
                if node is not self._dataset and isinstance(node, IterDataset):
                    same_epoch.open_watched(node, type)
        context = current_context()._replace(observation=self)
        with iteration_context(context):
            iterator = self.observed(self._dataset).__iter__()
        if isinstance(iterator, DatasetIterator):
            if recorder_of(iterator) is None and attach_clock(iterator, self.clock, self):
                self._iterator = weakref.ref(iterator)
            iterator.remember_dataset(self._dataset)
        return iterator

    def observed(self, dataset: Any, owner: int | None = None) -> Any:
        """Return an observed copy of a dataset.

        Args:
            dataset: The dataset.
            owner: The node that opens it, if it is not the whole pipeline; the last node is then one of
                the parents of the owner.
        """
        nodes = list(in_order(dataset))
        shape = shape_of(dataset)
        with self._lock:
            numbers = self._shapes.get(shape)
            if numbers is None:
                if owner is not None and len(self._shapes) > _MOST_SHAPES:
                    return dataset  # Its time is part of the node that opens it.
                numbers = self._shapes[shape] = self._add_nodes(nodes, owner)
        copies: dict[int, Any] = {}
        for node, number in zip(nodes, numbers, strict=True):
            if is_observed(node):
                copies[id(node)] = node
                continue
            probe = Probe(self.recorders, number, is_sparse(node), drops_elements(node))
            try:
                copies[id(node)] = observed_copy(node, copies, probe)
            except Exception:  # A class that refuses to be copied or extended.
                copies[id(node)] = node
        return copies[id(dataset)]

    def _add_nodes(self, nodes: list[Any], owner: int | None) -> list[int]:
        first = len(self._nodes)
        numbers = {id(node): first + position for position, node in enumerate(nodes)}
        for node in nodes:
            parents = tuple(numbers[id(parent)] for parent in node.parents)
            self._nodes.append(GraphNode(numbers[id(node)], node, parents, drops_elements(node)))
        if owner is not None:
            found = self._nodes[owner]
            parents = (*found.parents, numbers[id(nodes[-1])])
            self._nodes[owner] = GraphNode(owner, found.node, parents, found.drops)
        return list(numbers.values())

    def observed_nested(self, dataset: Any) -> Any:
        """Return an observed copy of a dataset that a node opens while it is read."""
        return self.observed(dataset, self._opening_node())

    def _opening_node(self) -> int:
        node = self.recorders.current().node
        if node is not None:
            return node
        # A thread opens it ahead: the topmost node that opens datasets.
        for found in reversed(self._nodes):
            if hasattr(found.node, "interleaved_datasets"):
                return found.number
        return len(self._nodes) - 1

    # Workers

    def open_session(self, executor: Any, *arguments: Any, **options: Any) -> ObservedSession:
        """Return a session of workers that report to this recorder."""
        self.executor = _executor_name(executor)
        node = self.recorders.current().node
        return ObservedSession(
            self,
            self._prefetching_node() if node is None else node,
            executor,
            *arguments,
            **options,
        )

    def _prefetching_node(self) -> int:
        for found in reversed(self._nodes):
            if isinstance(found.node, ProcessPrefetchIterDataset):
                return found.number
        return len(self._nodes) - 1

    def observed_part(self, part: Any) -> Any:
        """Return a part for workers whose nodes are observed."""
        if not isinstance(part, FusedStage) or is_observed(part.boundary):
            return part
        # A dataset that an interleave opens.
        top = part.stages[-1] if part.stages else part.boundary
        found = self.observed_nested(top)
        stages: list[Any] = []
        for _ in part.stages:
            stages.insert(0, found)
            found = found.parents[0]
        return FusedStage(found, stages)

    def note_stream(self, dataset: Any) -> None:
        """Note that one worker reads a dataset from start to end."""
        self._streams.update(node_numbers(in_order(dataset)))

    def absorb(self, report: TaskReport, node: int) -> None:
        """Add the report of a task."""
        arrived = time.time_ns()
        with self._lock:
            worker = self._workers.setdefault(report.worker, WorkerTotals(report.is_local))
            worker.add(report)
            self._waited_for_consumer[node] += max(0, arrived - report.finished)
            if report.spans:
                self._keep_spans(report)
        if report.metrics:
            monitoring.add_growth(report.metrics)

    def _keep_spans(self, report: TaskReport) -> None:
        for thread, span in report.spans:
            track = f"worker {report.worker}" + (f" thread {thread}" if thread else "")
            spans = self._worker_spans.setdefault(track, collections.deque(maxlen=MAX_SPANS))
            spans.append(self._span(track, span, report.clock_offset))

    def _span(self, track: str, span: RecordedSpan, clock_offset: int) -> Span:
        start = (span.start + clock_offset) / 1e9 - self.started_at
        return Span(track, span.node, start, span.duration / 1e9, span.elements)

    # Results

    def add_listener(
        self,
        callback: Callable[[PipelineStatistics], None],
        *,
        seconds: float | None = None,
        elements: int | None = None,
        at_end: bool = False,
    ) -> None:
        """Call a function with the statistics while the consumer iterates.

        It is called in `next()`, by the thread of the consumer. A function that raises is not called again.

        Args:
            callback: The function.
            seconds: The least time between two calls.
            elements: The number of elements between two calls.
            at_end: Whether to call it when the end is reached.
        """
        if seconds is None and elements is None and not at_end:
            raise ValueError(
                "add_listener needs `seconds`, `elements` or `at_end`: when to call the function."
            )
        owner = weakref.ref(self)

        def call() -> None:
            found = owner()
            if found is not None:
                callback(found.statistics())

        self.clock.add_listener(call, seconds, elements, at_end)

    def _remote_counters(self) -> dict[int, NodeCounters]:
        """Return the counters of all workers by node."""
        found: dict[int, NodeCounters] = {}
        for worker in self._workers.values():
            for node, counters in worker.counters.items():
                found.setdefault(node, NodeCounters()).add(counters.values())
        for node, waited in self._waited_for_consumer.items():
            found.setdefault(node, NodeCounters()).waited_for_consumer += waited
        return found

    def statistics(self) -> PipelineStatistics:
        """Return the measurements so far."""
        iterator = None if self._iterator is None else self._iterator()
        untaken = untaken_elements(iterator) if isinstance(iterator, ChunkIterator) else 0
        readings = self.clock.readings(untaken)
        with self._lock:
            local = self.recorders.totals()
            measured = Measured(
                nodes=tuple(self._nodes),
                threads=tuple(self.recorders.threads),
                workers=copy.deepcopy(self._workers),
                local=local,
                remote=self._remote_counters(),
                capacities=dict(self.recorders.capacities),
                streams=frozenset(self._streams),
                elapsed_seconds=readings.elapsed_seconds,
            )
            spans = [span for found in self._worker_spans.values() for span in found]
        nodes = node_statistics(measured)
        output = next(node for node in nodes if node.id == self._output)
        mean = output.bytes_out / output.elements_out if output.elements_out else 0.0
        return PipelineStatistics(
            nodes=nodes,
            workers=worker_statistics(measured),
            wait=readings.wait,
            consumer_busy_seconds=readings.busy_seconds,
            setup_seconds=readings.setup_seconds,
            elapsed_seconds=readings.elapsed_seconds,
            elements=readings.delivered,
            bytes=int(mean * readings.delivered),
            executor=self._executor_used(),
            name=self.name,
            epoch=readings.epochs,
            started_at=self.started_at,
            spans=tuple(sorted([*spans, *self._local_spans()], key=lambda span: span.start)),
            process_cpu_seconds=time.process_time() - self._cpu_started,
            processors=_processors(),
            load_average=_load_average(),
        )

    @property
    def _output(self) -> int:
        """The number of the node that the consumer reads; datasets opened later have larger numbers."""
        return next(found.number for found in self._nodes if found.node is self._dataset)

    def _executor_used(self) -> str:
        if self.executor != "inline":
            return self.executor
        return "threads" if any(not t.is_consumer for t in self.recorders.threads) else "inline"

    def _local_spans(self) -> list[Span]:
        offset = time.time_ns() - time.perf_counter_ns()
        spans: list[Span] = []
        number = 0
        for recorder in list(self.recorders.threads):
            track = "consumer" if recorder.is_consumer else f"thread {number}"
            number += not recorder.is_consumer
            spans += [self._span(track, span, offset) for span in list(recorder.spans or ())]
        return spans


def _processors() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _load_average() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def _executor_name(executor: Any) -> str:
    """Return the name of an executor: that of its class, without the word itself."""
    name = type(executor).__name__.removesuffix("Executor").lower()
    return {"process": "processes", "thread": "threads"}.get(name, name or "executor")


def recorder_of(iterator: Any) -> PipelineRecorder | None:
    """Return the recorder of an observed iterator."""
    found: PipelineRecorder | None = getattr(iterator, "_grain_pipeline", None)
    return found
