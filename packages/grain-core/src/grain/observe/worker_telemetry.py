"""Measurements in workers: parts of a pipeline that return their measurements with each result.

The session adds parts through `ObservedPart`, and each worker calls `WorkerIdentity` before its first task.
A result carries a `TaskReport`. The time between two tasks is divided by the processor clock: a worker that
waits for a task uses no processor, and one that packs and sends a result does.
"""

from __future__ import annotations

import copy
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from grain import tree
from grain.observe.recording import RecordedSpan, recorders_for

REPORT = "_grain_task_report"
# Sizes of elements are measured in one of so many tasks.
_SIZE_EVERY = 8

# The number of the worker that this thread is, and the measurements at the end of its last task.
_this_worker = threading.local()


class TaskReport(NamedTuple):
    """The measurements of one task; durations are nanoseconds.

    Attributes:
        worker: The number of the worker.
        process: Identifies the process of the worker: another one has replaced a lost worker.
        busy: The duration of the task.
        cpu: Its processor time.
        idle: The time since the task before, without `transport`.
        transport: The processor time since the task before: results were packed and sent.
        elements: The number of elements returned.
        nbytes: The size of an element; 0 if it was not measured.
        finished: When the task ended, in nanoseconds since 1970.
        is_local: Whether the worker is a thread of the consuming process, which has its counters.
        growth: The growth of the counters of the nodes.
        spans: Spans of the timeline, each with the number of its thread.
        clock_offset: Nanoseconds to add to the times of spans for times since 1970.
        metrics: The growth of metrics that the program has defined.
    """

    worker: int
    process: int
    busy: int
    cpu: int
    idle: int
    transport: int
    elements: int
    nbytes: int
    finished: int
    is_local: bool
    growth: dict[int, tuple[int, ...]]
    spans: list[tuple[int, RecordedSpan]]
    clock_offset: int
    metrics: list[Any] = []


class WorkerIdentity:
    """Notes the number of a worker in its thread, then calls the function of the user.

    Args:
        worker_init_fn: The function of the user, called with the number and the count of workers.
    """

    def __init__(self, worker_init_fn: Callable[[int, int], None] | None):
        self._worker_init_fn = worker_init_fn

    def __call__(self, index: int, count: int) -> None:
        """Start a worker."""
        _this_worker.index = index
        _this_worker.ended = None
        if self._worker_init_fn is not None:
            self._worker_init_fn(index, count)


class ObservedPart:
    """A part of a pipeline whose results carry a report.

    Args:
        part: The part.
        key: Identifies the pipeline.
        max_spans: The number of spans to keep per thread; 0 records none.
        home: The process that consumes the pipeline.
    """

    def __init__(self, part: Any, key: str, max_spans: int, home: str):
        self._part = part
        self._key = key
        self._max_spans = max_spans
        self._home = home
        self._tasks = 0

    def __copy__(self) -> ObservedPart:
        # Workers of one process share nothing that changes.
        return ObservedPart(copy.copy(self._part), self._key, self._max_spans, self._home)

    def __str__(self) -> str:
        return str(self._part)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_part":
            raise AttributeError(name)
        method = getattr(self._part, name)
        if name != "compute":
            return method

        def compute(*arguments: Any) -> Any:
            return self._measured(method, arguments)

        return compute

    def _measured(self, method: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        recorders = recorders_for(self._key, self._max_spans)
        started, cpu_started = time.perf_counter_ns(), time.thread_time_ns()
        before = getattr(_this_worker, "ended", None)
        idle = transport = 0
        if before is not None:
            transport = cpu_started - before[1]
            idle = max(0, started - before[0] - transport)
        result = method(*arguments)
        ended, cpu_ended = time.perf_counter_ns(), time.thread_time_ns()
        if not hasattr(result, "__dict__"):
            return result
        elements = getattr(result, "elements", ())
        nbytes = 0
        if elements and not self._tasks % _SIZE_EVERY:
            nbytes = tree.nbytes(elements[len(elements) // 2])
        self._tasks += 1
        is_local = self._home == process_identity()
        now = time.time_ns()
        result.__dict__[REPORT] = TaskReport(
            worker=getattr(_this_worker, "index", 0),
            process=os.getpid(),
            busy=ended - started,
            cpu=cpu_ended - cpu_started,
            idle=idle,
            transport=transport,
            elements=len(elements),
            nbytes=nbytes,
            finished=now,
            is_local=is_local,
            growth={} if is_local else recorders.growth(),
            spans=[] if is_local else recorders.take_spans(),
            clock_offset=now - time.perf_counter_ns(),
            metrics=[] if is_local else _program_metrics(),
        )
        _this_worker.ended = time.perf_counter_ns(), time.thread_time_ns()
        return result


def _program_metrics() -> list[Any]:
    """Return the growth of the program's metrics in this process, if it has any."""
    monitoring: Any = sys.modules.get("grain.monitoring")
    return [] if monitoring is None else monitoring.take_growth()


# Processes on other hosts may have the same id.
_identity = (0, "")


def process_identity() -> str:
    """Return a text that no other process has."""
    global _identity
    if _identity[0] != os.getpid():
        _identity = os.getpid(), os.urandom(8).hex()
    return _identity[1]
