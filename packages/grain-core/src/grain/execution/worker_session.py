"""Client side of a worker pool: the parts of a pipeline that workers hold, and calls on them.

A part of a pipeline (a fused stage, functions to offload, a remote stream) has a number. Parts added before
the pool opens are in its job; later ones are defined when they are first called. The pool opens with the
first call. `submit` returns a call and never raises for the pool: errors are raised by `result`, when the
turn of the call has come. Only `result`, `result_or_error` and `close` block.

Calls survive the loss of workers and of pools (see `task_scheduler`). If Ctrl-C interrupts the pool in the
middle of a message, the session opens another pool and submits outstanding calls to it. A warning reports
each worker that was lost. Methods may be called from several threads; one lock guards the scheduler and is
never held while a thread waits for workers.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from grain._exceptions import mark_worker_failure
from grain._policy import Policy, current_policy
from grain.execution import shared_sources
from grain.execution.costs import Costs
from grain.execution.executor import Executor, PoolClosed, PoolInterrupted, TaskLost, TaskPool
from grain.execution.processes.error_report import ErrorReport, rebuild
from grain.execution.processes.unpicklable import explain_unpicklable
from grain.execution.task_dispatcher import TaskDispatcher
from grain.execution.task_scheduler import (
    TASK_ERRORS,
    SessionCall,
    SessionCounts,
    TaskScheduler,
)
from grain.execution.thread_shutdown import park_this_thread


class WorkerSession:
    """The workers of one iterator, and the pipeline parts they hold.

    Args:
        executor: Opens the pool.
        buffer_size: Elements that each worker may compute ahead.
        shared: Objects that parts may refer to; they are sent once, with the job.
        policy: Tuning constants, also of the workers; those of the process by default.
        worker_init_fn: Called in each worker with its index and the number of workers, by the job.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        executor: Executor,
        buffer_size: int = 1,
        shared: Sequence[Any] = (),
        policy: Policy | None = None,
        worker_init_fn: Callable[[int, int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.buffer_size = buffer_size
        self.policy = policy or current_policy()
        self._executor = executor
        self._shared = shared
        self._worker_init_fn = worker_init_fn
        self._scheduler = TaskScheduler(self.policy, clock, _seconds_of)
        self._parts: dict[int, _RemotePart] = {}
        self._next_number = 0
        self._closed = False
        # Reentrant: garbage collection may close an iterator of this session while it is held.
        self._lock = threading.RLock()
        self._reported: set[tuple[int, str]] = set()

    @property
    def capacity(self) -> int:
        """Number of workers that compute at the same time; 1 while all of them are being replaced."""
        pool = self._scheduler.pool
        return self._executor.capacity if pool is None else max(1, pool.capacity)

    @property
    def counts(self) -> SessionCounts:
        """Events so far: calls, losses, resubmissions, hedges."""
        return self._scheduler.counts

    @property
    def closed(self) -> bool:
        """Whether the workers have ended, so that nothing is computed any more."""
        return self._closed

    @property
    def costs(self) -> Costs:
        """The cost model of the pool, which this opens."""
        with self._lock:
            return self._open_pool().costs

    def has_room(self, nbytes: int) -> bool:
        """Return whether a further result of `nbytes` is within the byte budget."""
        with self._lock:
            return self._scheduler.pool is None or self._scheduler.has_room(nbytes)

    def add(self, part: Any, *, is_stream: bool = False) -> int:
        """Add a part of the pipeline; return its number.

        Args:
            part: The object that workers receive.
            is_stream: Whether all calls on the part are for one worker, in order.
        """
        with self._lock:
            number = self._next_number
            self._next_number += 1
            late = self._scheduler.pool is not None
            self._parts[number] = _RemotePart(part, is_stream, late)
        return number

    def release(self, number: int) -> None:
        """Remove a part from the workers."""
        with self._lock:
            part = self._parts.pop(number, None)
            pool = self._scheduler.pool
            if part is None or pool is None or pool.closed:
                return
            try:
                if not part.is_late or part.is_defined:
                    pool.release(number)
            except PoolInterrupted:
                self._drop_pool(pool)

    def submit(
        self,
        number: int,
        method: str,
        *arguments: Any,
        nbytes: int = 0,
        losses: tuple[TaskLost, ...] = (),
    ) -> SessionCall:
        """Call a method of a part.

        Args:
            number: Number of the part.
            method: Name of the method.
            *arguments: Arguments of the method.
            nbytes: Expected size of the result, for the byte budget.
            losses: Losses that a larger call which contained this one has caused.
        """
        while True:
            with self._lock:
                pool = None
                try:
                    part = self._parts[number]
                    pool = self._open_pool()
                    if part.is_late and not part.is_defined:
                        self._define(pool, number, part)
                    return self._scheduler.submit(
                        (number, method, *arguments),
                        affinity=number if part.is_stream else None,
                        nbytes=nbytes,
                        losses=losses,
                    )
                except PoolInterrupted:
                    assert pool is not None
                    self._drop_pool(pool)
                except PoolClosed as error:
                    if not self._must_wait_for_exit():
                        return self._scheduler.fail(error)
                except TASK_ERRORS as error:
                    return self._scheduler.fail(error)
            if self._must_wait_for_exit():
                park_this_thread()

    def result(self, call: SessionCall) -> Any:
        """Wait for the result of a call, or raise its error."""
        value, report = self._wait(call)
        if report is not None:
            raise rebuild(ErrorReport(*report))
        return value

    def result_or_error(self, call: SessionCall) -> Any:
        """Wait for a result that carries the error of its computation as `error`."""
        value, report = self._wait(call)
        if report is not None:
            error = rebuild(ErrorReport(*report))
            value.error = error if isinstance(error, Exception) else RuntimeError(repr(error))
        return value

    def cancel(self, call: SessionCall) -> None:
        """Discard the result of a call."""
        with self._lock:
            self._scheduler.cancel(call)

    def close(self) -> None:
        """End the workers."""
        self._closed = True
        pool = self._scheduler.pool
        if pool is not None:
            pool.close()

    def _wait(self, call: SessionCall) -> Any:
        ready = None
        while True:
            pool = None
            try:
                with self._lock:
                    if not call.done:
                        pool = self._open_pool()
                    wait = self._scheduler.step(call, ready)
                if wait is None:
                    break
                assert pool is not None
                ready = pool.wait(wait.tickets, wait.timeout)
            except PoolInterrupted:
                assert pool is not None
                with self._lock:
                    self._drop_pool(pool)
                ready = None
            except PoolClosed:
                if self._must_wait_for_exit():
                    park_this_thread()
                raise
        self._warn_of_losses()
        with self._lock:
            return self._scheduler.take(call)

    def _open_pool(self) -> TaskPool:
        if self._closed:
            raise ValueError("Trying to advance a closed iterator: its workers have ended.")
        pool = self._scheduler.pool
        if pool is None:
            parts = {number: part.content for number, part in self._parts.items()}
            job = TaskDispatcher(parts, self._shared, self.policy, self._worker_init_fn)
            try:
                pool = self._executor.open(job, name_owner=_name_owner)
            except OSError as error:  # No element is to blame.
                mark_worker_failure(error)
                raise
            for part in self._parts.values():
                part.is_late = part.is_defined = False
            self._scheduler.attach(pool)
        return pool

    def _drop_pool(self, interrupted: TaskPool) -> None:
        """Close a pool that was interrupted mid-message; the next call opens another one."""
        if self._scheduler.pool is interrupted:
            self._scheduler.detach()
            interrupted.close()

    def _define(self, pool: TaskPool, number: int, part: _RemotePart) -> None:
        try:
            pickled = shared_sources.dumps(part.content, self._shared)
        except Exception as error:
            message = explain_unpicklable(part.content, "dataset", error, _name_owner)
            raise TypeError(message) from error
        pool.define(number, pickled, affinity=number if part.is_stream else None)
        part.is_defined = True

    def _must_wait_for_exit(self) -> bool:
        """Return whether the pool was closed by the exit of the interpreter, seen from a daemon thread.

        Then the thread waits instead of raising an error: exit also ends the workers of open iterators.
        """
        pool = self._scheduler.pool
        closed = pool is not None and pool.closed
        return closed and not self._closed and threading.current_thread().daemon

    def _warn_of_losses(self) -> None:
        with self._lock:
            losses, self._scheduler.new_losses = self._scheduler.new_losses, []
        for loss in losses:
            key = (loss.worker, str(loss.cause))
            if key not in self._reported:
                self._reported.add(key)
                warnings.warn(
                    f"Worker {loss.worker} was lost: {loss.cause}. Its tasks are computed again by other "
                    "workers; elements and states do not change.",
                    RuntimeWarning,
                    stacklevel=2,
                )


class _RemotePart:
    """A part of the pipeline that workers hold.

    Attributes:
        content: The object that workers receive.
        is_stream: Whether all calls on it are for one worker, in order.
        is_late: Whether it was added after the pool was opened.
        is_defined: Whether the pool has received it since then.
    """

    __slots__ = ("content", "is_defined", "is_late", "is_stream")

    def __init__(self, content: Any, is_stream: bool, is_late: bool):
        self.content = content
        self.is_stream = is_stream
        self.is_late = is_late
        self.is_defined = False


def _seconds_of(value: Any) -> float | None:
    """Return how long a worker took for a result."""
    return getattr(value[0], "seconds", None)


def _name_owner(value: Any) -> str | None:
    """Return the name of a dataset node, for the message that it cannot be pickled."""
    return str(value) if getattr(value, "_parents", None) is not None else None
