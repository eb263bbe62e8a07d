"""The measurements of one pipeline, as frozen values that convert to JSON and back.

Durations are seconds of wall time unless a name says `cpu`. The time of a node is its own: the time of
its parents is not part of it. Sums are over all threads and workers, so they may exceed the elapsed time.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from grain.observe.flat_metrics import flat_metrics
from grain.observe.statistics_table import statistics_table
from grain.observe.verdict import Verdict, find_verdict

FORMAT_VERSION = 1


class Span(NamedTuple):
    """One piece of work on a timeline, recorded when tracing is on."""

    track: str
    """The thread or worker: `consumer`, `thread 0`, `worker 1`."""
    node: int
    """The id of the node that worked."""
    start: float
    """Seconds since `PipelineStatistics.started_at`."""
    duration: float
    """Seconds, with the work of its parents if that ran inside of it."""
    elements: int = 0
    """The number of elements that the work returned."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueueStatistics:
    """How full a queue of prefetched elements was when the consumer took from it.

    Attributes:
        capacity: The largest number of results that may be in flight or ready; None where unknown.
        mean_occupancy: The mean number of results that were ready.
        samples: The number of times that the queue was looked at.
    """

    capacity: int | None = None
    mean_occupancy: float = 0.0
    samples: int = 0

    @property
    def fill(self) -> float | None:
        """The mean occupancy as a share of the capacity."""
        return self.mean_occupancy / self.capacity if self.capacity and self.samples else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeStatistics:
    """The measurements of one dataset node.

    Attributes:
        id: Its number in the pipeline.
        operation: The operation: `source`, `map`, `filter`, `batch`, ...
        name: The operation as written: `map(decode)`.
        function: The name of the function of the user; None without one.
        parents: The ids of the nodes it reads.
        location: Where it runs: `consumer`, `threads`, `workers` or `stream` (one worker reads it all).
        spec: The shapes and types of its elements as text; None where unknown without reading.
        length: The number of its elements; None where unknown or unlimited.
        elements_in: The number of elements it received from its parents; 0 for a source, and where it was not
            counted.
        elements_out: The number of elements it returned.
        warm_up_elements: How many of these it returned in the consumer's thread during the warm-up.
        dropped: The number of elements it dropped.
        bytes_out: The bytes of the arrays it returned, extrapolated from a sample.
        self_seconds: The time of its own work.
        cpu_seconds: The processor time of its own work, extrapolated from a sample; None if not measured.
        wait_for_parent_seconds: The time it waited for threads, workers or its parents.
        wait_for_consumer_seconds: The time its finished results waited to be taken.
        queue: The queue of its prefetched results; None without one.
    """

    id: int
    operation: str
    name: str
    function: str | None = None
    parents: tuple[int, ...] = ()
    location: str = "consumer"
    spec: str | None = None
    length: int | None = None
    elements_in: int = 0
    elements_out: int = 0
    warm_up_elements: int = 0
    dropped: int = 0
    bytes_out: int = 0
    self_seconds: float = 0.0
    cpu_seconds: float | None = None
    wait_for_parent_seconds: float = 0.0
    wait_for_consumer_seconds: float = 0.0
    queue: QueueStatistics | None = None

    @property
    def dropped_share(self) -> float:
        """The share of its elements that it dropped."""
        return self.dropped / self.elements_in if self.elements_in else 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkerStatistics:
    """The measurements of one worker process or thread.

    Attributes:
        index: Its number among the workers of the same kind.
        kind: `process` or `thread`.
        tasks: The number of tasks it computed.
        elements: The number of elements it returned.
        bytes: The bytes it returned.
        busy_seconds: The time it computed tasks.
        idle_seconds: The time it waited for tasks.
        cpu_seconds: The processor time of its tasks; None if not measured.
        transport_seconds: The time to write results to shared memory or a socket, and to read them.
        restarts: How often it was replaced after it was lost.
        node_seconds: The own time of each node in this worker, by node id.
    """

    index: int
    kind: str = "process"
    tasks: int = 0
    elements: int = 0
    bytes: int = 0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    cpu_seconds: float | None = None
    transport_seconds: float = 0.0
    restarts: int = 0
    node_seconds: Mapping[int, float] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The track of this worker on a timeline: `worker 0` or `thread 0`."""
        return f"{'worker' if self.kind == 'process' else self.kind} {self.index}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class WaitStatistics:
    """How long `next()` made the consumer wait.

    Attributes:
        count: The number of elements, without those of the warm-up.
        total_seconds: The sum of their waits.
        p50: The median wait in seconds.
        p95: The wait that 95 % of the elements did not exceed.
        p99: The wait that 99 % of the elements did not exceed.
        longest: The longest wait.
        warm_up_count: The number of elements of the warm-up: the first after a start or `set_state`.
        warm_up_seconds: The sum of their waits.
        histogram: The numbers of waits of up to 1, 2, 4, 8, ... nanoseconds, each without those before it
            and with those of the warm-up; the last number is that of all longer waits.
    """

    count: int = 0
    total_seconds: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    longest: float = 0.0
    warm_up_count: int = 0
    warm_up_seconds: float = 0.0
    histogram: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class PipelineStatistics:
    """The measurements of one iterator, from its creation until now.

    `print(stats)` shows a table and the verdict.

    Attributes:
        nodes: The nodes of the pipeline: a node comes after its parents, the last is the output.
        workers: The worker processes and threads.
        wait: How long `next()` made the consumer wait.
        consumer_busy_seconds: The time between `next()` calls, after the warm-up.
        setup_seconds: The time from `iter()` to the first element.
        elapsed_seconds: The time from `iter()` until the last element so far.
        elements: The number of elements that the consumer received.
        bytes: Their bytes, extrapolated from a sample.
        executor: What computed it: `inline`, `threads`, `processes`, or the name of a plugin's executor.
        name: A name for this pipeline in exports.
        epoch: How many times the iterator reached its end.
        started_at: When `iter()` was called, in seconds since 1970.
        spans: The timeline, if tracing is on: the most recent spans of each track.
        process_cpu_seconds: The processor time of the consuming process during the elapsed time.
        processors: The number of processors that the consuming process may use.
        load_average: The mean number of threads on this machine that ran or waited for a processor during
            the last minute; None where the system does not count them.
    """

    nodes: tuple[NodeStatistics, ...] = ()
    workers: tuple[WorkerStatistics, ...] = ()
    wait: WaitStatistics = WaitStatistics()
    consumer_busy_seconds: float = 0.0
    setup_seconds: float = 0.0
    elapsed_seconds: float = 0.0
    elements: int = 0
    bytes: int = 0
    executor: str = "inline"
    name: str = "pipeline"
    epoch: int = 0
    started_at: float = 0.0
    spans: tuple[Span, ...] = ()
    process_cpu_seconds: float | None = None
    processors: int | None = None
    load_average: float | None = None

    @property
    def wait_share(self) -> float:
        """The share of the consumer's time that it waited in `next()`, after the warm-up."""
        total = self.wait.total_seconds + self.consumer_busy_seconds
        return self.wait.total_seconds / total if total > 0 else 0.0

    @property
    def throughput(self) -> float:
        """Elements per second, after the warm-up."""
        total = self.wait.total_seconds + self.consumer_busy_seconds
        return self.wait.count / total if total > 0 else 0.0

    @property
    def potential_throughput(self) -> float:
        """Elements per second that a consumer without work of its own would receive, at most."""
        return self.wait.count / self.wait.total_seconds if self.wait.total_seconds > 0 else 0.0

    @property
    def verdict(self) -> Verdict:
        """What limits the throughput, and the change that would help."""
        return find_verdict(self)

    def node(self, number: int) -> NodeStatistics:
        """Return the node with an id."""
        for node in self.nodes:
            if node.id == number:
                return node
        raise KeyError(
            f"There is no node {number!r} in this pipeline; its nodes are "
            f"{', '.join(f'{node.id}: {node.name}' for node in self.nodes)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers, with the verdict and the derived figures."""
        plain: dict[str, Any] = _plain(self)
        return {
            "version": FORMAT_VERSION,
            **plain,
            "wait_share": self.wait_share,
            "throughput": self.throughput,
            "verdict": dataclasses.asdict(self.verdict),
        }

    def to_metrics(self, *, prefix: str = "data/") -> dict[str, float]:
        """Return a flat dictionary of numbers for an experiment tracker, such as W&B or TensorBoard.

        Args:
            prefix: Comes before every name.

        >>> PipelineStatistics(elements=3).to_metrics(prefix="train/")["train/elements"]
        3.0
        """
        return flat_metrics(self, prefix=prefix)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the statistics as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the statistics that `to_dict` returned; derived figures are computed again."""
        version = values.get("version", FORMAT_VERSION)
        if version != FORMAT_VERSION:
            raise ValueError(
                f"These statistics have format version {version!r}; this version of grain reads "
                f"version {FORMAT_VERSION}. Read them with the version of grain that wrote them."
            )
        fields = _known_fields(cls, values)
        fields["nodes"] = tuple(_node(node) for node in values.get("nodes", ()))
        fields["workers"] = tuple(_worker(worker) for worker in values.get("workers", ()))
        waits = _known_fields(WaitStatistics, values.get("wait", {}))
        fields["wait"] = WaitStatistics(**waits | {"histogram": tuple(waits.get("histogram", ()))})
        fields["spans"] = tuple(Span(*span) for span in values.get("spans", ()))
        return cls(**fields)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the statistics that `to_json` wrote."""
        return cls.from_dict(json.loads(text))

    def __repr__(self) -> str:
        """Return one line; `print(stats)` shows all of it.

        >>> PipelineStatistics(elements=3, elapsed_seconds=1.5)
        <PipelineStatistics of 'pipeline': 3 elements in 1.5 s, 0 nodes; print() shows them>
        """
        return (
            f"<PipelineStatistics of {self.name!r}: {self.elements:,} elements in "
            f"{self.elapsed_seconds:.3g} s, {len(self.nodes)} nodes; print() shows them>"
        )

    def __str__(self) -> str:
        return statistics_table(self)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _known_fields(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a dataclass; those that a later minor version added are left out."""
    names = {field.name for field in dataclasses.fields(kind)}
    return {name: value for name, value in values.items() if name in names}


def _node(values: Mapping[str, Any]) -> NodeStatistics:
    fields = _known_fields(NodeStatistics, values)
    fields["parents"] = tuple(fields.get("parents", ()))
    if fields.get("queue") is not None:
        fields["queue"] = QueueStatistics(**_known_fields(QueueStatistics, fields["queue"]))
    return NodeStatistics(**fields)


def _worker(values: Mapping[str, Any]) -> WorkerStatistics:
    fields = _known_fields(WorkerStatistics, values)
    fields["node_seconds"] = {
        int(number): seconds for number, seconds in fields.get("node_seconds", {}).items()
    }
    return WorkerStatistics(**fields)
