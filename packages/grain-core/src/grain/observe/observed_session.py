"""The worker session of an observed pipeline: it absorbs reports of workers and measures its own waits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from grain.execution.costs import Costs
from grain.execution.executor import Executor, Job, TaskPool
from grain.execution.task_scheduler import SessionCall
from grain.execution.worker_session import WorkerSession
from grain.observe.recording import WAIT, WORK, Recorders
from grain.observe.worker_telemetry import (
    REPORT,
    ObservedPart,
    TaskReport,
    WorkerIdentity,
    process_identity,
)

# How many tasks are ready is looked up once for so many results.
_READY_EVERY = 4


class ReportSink(Protocol):
    """Receives the reports of workers."""

    recorders: Recorders

    def absorb(self, report: TaskReport, node: int) -> None:
        """Add a report, of a task for a node."""

    def observed_part(self, part: Any) -> Any:
        """Return a part whose nodes are observed."""

    def note_stream(self, dataset: Any) -> None:
        """Note that one worker reads a dataset from start to end."""


class ObservedSession(WorkerSession):
    """A worker session whose parts are measured.

    Args:
        sink: Receives the reports.
        node: The node that the workers compute for.
        executor: Opens the pool.
        buffer_size: Elements that each worker may compute ahead.
        shared: Objects that parts may refer to.
        worker_init_fn: Called in each worker.
    """

    def __init__(
        self,
        sink: ReportSink,
        node: int,
        executor: Executor,
        buffer_size: int = 1,
        shared: Sequence[Any] = (),
        worker_init_fn: Callable[[int, int], None] | None = None,
    ):
        super().__init__(
            _ObservedExecutor(executor, sink.recorders, node),
            buffer_size,
            shared,
            worker_init_fn=WorkerIdentity(worker_init_fn),
        )
        self._sink = sink
        self._node = node

    def add(self, part: Any, *, is_stream: bool = False) -> int:
        recorders = self._sink.recorders
        if is_stream:
            self._sink.note_stream(part.dataset)
        observed = ObservedPart(
            self._sink.observed_part(part), recorders.key, recorders.max_spans, process_identity()
        )
        return super().add(observed, is_stream=is_stream)

    def result(self, call: SessionCall) -> Any:
        return self._absorbed(super().result(call))

    def result_or_error(self, call: SessionCall) -> Any:
        return self._absorbed(super().result_or_error(call))

    def _absorbed(self, value: Any) -> Any:
        report = getattr(value, "__dict__", {}).pop(REPORT, None)
        if report is not None:
            self._sink.absorb(report, self._node)
        return value


class _ObservedExecutor:
    """An executor whose pools are measured."""

    def __init__(self, executor: Executor, recorders: Recorders, node: int):
        self._executor = executor
        self._recorders = recorders
        self._node = node

    @property
    def capacity(self) -> int:
        return self._executor.capacity

    def open(self, job: Job, *, name_owner: Callable[[Any], str | None]) -> TaskPool:
        recorder = self._recorders.current()
        frame = recorder.open(self._node)
        try:
            pool = self._executor.open(job, name_owner=name_owner)
        finally:
            recorder.close(frame, 0, WAIT)
        return _ObservedPool(pool, self._recorders, self._node)


class _ObservedPool:
    """A pool whose waits are recorded, and whose receiving of results is work of a node."""

    def __init__(self, pool: TaskPool, recorders: Recorders, node: int):
        self._pool = pool
        self._recorders = recorders
        self._node = node
        self._outstanding: set[int] = set()
        self._taken = 0
        self.define = pool.define
        self.release = pool.release
        self.ready = pool.ready

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)  # What a pool has besides the protocol.

    @property
    def capacity(self) -> int:
        return self._pool.capacity

    @property
    def costs(self) -> Costs:
        return self._pool.costs

    @property
    def closed(self) -> bool:
        return self._pool.closed

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        ticket = self._pool.submit(task, affinity=affinity)
        self._outstanding.add(ticket)
        return ticket

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        recorder = self._recorders.current()
        frame = recorder.open(self._node)
        try:
            return self._pool.wait(tickets, timeout)
        finally:
            recorder.close(frame, 0, WAIT)

    def result(self, ticket: int) -> Any:
        recorder = self._recorders.current()
        self._sample_ready(recorder)
        frame = recorder.open(self._node)
        try:
            return self._pool.result(ticket)
        finally:
            recorder.close(frame, 0, WORK)
            self._outstanding.discard(ticket)

    def _sample_ready(self, recorder: Any) -> None:
        self._taken += 1
        counters = recorder.counters.get(self._node)
        if self._taken % _READY_EVERY or counters is None or self._pool.closed:
            return
        ready = sum(map(self._pool.ready, list(self._outstanding)))
        counters.queue_samples += 1
        counters.queue_filled += ready
        capacities = self._recorders.capacities
        known = capacities.get(self._node, 0)
        capacities[self._node] = max(known, len(self._outstanding))

    def discard(self, ticket: int) -> None:
        self._pool.discard(ticket)
        self._outstanding.discard(ticket)

    def close(self) -> None:
        self._pool.close()
