"""Client side of a worker pool: which pipeline parts each worker has received, and calls on them.

A part of a pipeline (a fused stage, functions to offload, a remote stream) becomes a *remote object* with
a number. Parts added before the pool opens are in its job; later ones are defined in each worker before
the first call there. Calls for one worker are computed in order, so a definition always precedes the
calls that need it.

The pool opens with the first call. `result` and `result_or_error` block, other methods do not. If Ctrl-C
interrupts the pool in the middle of a message, the session replaces the pool: tickets of the old one
raise `NotOutstanding`, and the iterators submit their calls again. The loss of a worker ends the session
with `WorkerDied`.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Sequence
from typing import Any

from grain._exceptions import mark_worker_failure
from grain._policy import Policy, current_policy
from grain.execution import shared_sources
from grain.execution.executor import Executor, TaskPool
from grain.execution.processes.error_report import ErrorReport, rebuild
from grain.execution.processes.pool import NotOutstanding, PoolClosed, PoolInterrupted
from grain.execution.processes.unpicklable import explain_unpicklable
from grain.execution.task_dispatcher import TaskDispatcher
from grain.execution.thread_shutdown import forget_this_thread

# Raised where not an element failed but its worker, or its transfer.
TRANSFER_ERRORS = (Exception, SystemExit)


class WorkerSession:
    """The workers of one iterator, and the pipeline parts they hold.

    Args:
        executor: Opens the pool.
        buffer_size: Elements that each worker may compute ahead.
        shared: Objects that parts may refer to; they are sent once, with the job.
        policy: Tuning constants, also of the workers; those of the process by default.
    """

    def __init__(
        self,
        executor: Executor,
        buffer_size: int = 1,
        shared: Sequence[Any] = (),
        policy: Policy | None = None,
    ):
        self.buffer_size = buffer_size
        self.policy = policy or current_policy()
        self._executor = executor
        self._shared = shared
        self._objects: dict[int, _RemoteObject] = {}
        self._next_number = 0
        self._pool: TaskPool | None = None
        self._first_ticket = 1
        self._closed = False
        self._last_worker = 0
        self._next_stream = 0
        # Tickets of define/release calls whose acknowledgements are outstanding.
        self._pending_acks: collections.deque[int] = collections.deque()

    @property
    def capacity(self) -> int:
        """Number of workers that can compute at the same time."""
        return self._executor.capacity if self._pool is None else self._pool.capacity

    def next_stream_worker(self) -> int:
        """Return the worker of the next stream; streams are assigned round robin."""
        worker = self._next_stream % self.capacity
        self._next_stream += 1
        return worker

    def add(self, part: Any, worker: int | None = None) -> int:
        """Add a part of the pipeline, for all workers or one of them; return its number."""
        number = self._next_number
        self._next_number += 1
        self._objects[number] = _RemoteObject(part, worker, late=self._pool is not None)
        return number

    def release(self, number: int) -> None:
        """Remove a part from the workers."""
        part = self._objects.pop(number, None)
        if part is None or self._pool is None or self._pool.closed:
            return
        pool = self._pool
        try:
            for worker in part.workers if part.late else range(pool.capacity):
                self._pending_acks.append(pool.submit((number, "release"), worker=worker))
        except PoolInterrupted:
            self._restart_pool(pool)

    def _open_pool(self) -> TaskPool:
        if self._closed:
            raise ValueError("Trying to advance a closed iterator: its workers have ended.")
        if self._pool is None:
            parts = {number: part.content for number, part in self._objects.items()}
            try:
                self._pool = self._executor.open(
                    TaskDispatcher(parts, self._shared, self.policy),
                    name_owner=_name_owner,
                    first_ticket=self._first_ticket,
                )
            except OSError as error:  # No element is to blame.
                mark_worker_failure(error)
                raise
        return self._pool

    def _restart_pool(self, interrupted: TaskPool) -> None:
        """Close a pool that was interrupted mid-message; the next call opens another one."""
        if self._pool is not interrupted:
            return
        self._first_ticket = interrupted.next_ticket
        self._pending_acks.clear()
        for part in self._objects.values():
            part.late, part.workers = False, set()  # The next job contains it.
        self._pool = None
        interrupted.close()

    def submit(self, number: int, method: str, *arguments: Any) -> int:
        """Call a method of a part; return the ticket of the result."""
        pool = self._open_pool()
        part = self._objects[number]
        worker = part.worker
        try:
            if part.late:
                # Only calls for one named worker are certain to follow the definition.
                if worker is None:
                    worker = self._last_worker = (self._last_worker + 1) % pool.capacity
                if worker not in part.workers:
                    self._define(pool, number, part, worker)
            return pool.submit((number, method, *arguments), worker=worker)
        except PoolInterrupted:
            self._restart_pool(pool)
            return self.submit(number, method, *arguments)
        except PoolClosed:
            self._wait_for_exit()
            raise

    def _define(self, pool: TaskPool, number: int, part: _RemoteObject, worker: int) -> None:
        try:
            pickled = shared_sources.dumps(part.content, self._shared)
        except Exception as error:
            message = explain_unpicklable(part.content, "dataset", error, _name_owner)
            raise TypeError(message) from error
        self._pending_acks.append(pool.submit((number, "define", pickled), worker=worker))
        part.workers.add(worker)

    def result(self, ticket: int) -> Any:
        """Wait for the result of a call, or raise its error."""
        value, report = self._wait(ticket)
        if report is not None:
            raise rebuild(ErrorReport(*report))
        return value

    def result_or_error(self, ticket: int) -> Any:
        """Wait for a result that carries the error of its computation as `error`."""
        value, report = self._wait(ticket)
        if report is not None:
            error = rebuild(ErrorReport(*report))
            value.error = error if isinstance(error, Exception) else RuntimeError(repr(error))
        return value

    def _wait(self, ticket: int) -> Any:
        pool = self._open_pool()
        try:
            self._take_acks(pool)
            return pool.result(ticket)
        except KeyError:
            # The worker may lack the part because its definition failed: raise that error instead.
            self._take_acks(pool)
            raise
        except PoolInterrupted:
            self._restart_pool(pool)
            raise NotOutstanding(f"Ticket {ticket} belongs to a pool that was replaced.") from None
        except PoolClosed:
            self._wait_for_exit()
            raise

    def _wait_for_exit(self) -> None:
        """Block a daemon thread for ever if the interpreter is exiting, instead of raising an error there.

        Exit ends the workers of iterators that were not closed.
        """
        if not self._closed and threading.current_thread().daemon:
            forget_this_thread()
            threading.Event().wait()

    def _take_acks(self, pool: TaskPool) -> None:
        while self._pending_acks and pool.ready(self._pending_acks[0]):
            pool.result(self._pending_acks.popleft())

    def cancel(self, ticket: int) -> None:
        """Discard the result of a call."""
        if self._pool is not None and not self._pool.closed:
            self._pool.discard(ticket)

    def close(self) -> None:
        """End the workers."""
        self._closed = True
        if self._pool is not None:
            self._pool.close()


class _RemoteObject:
    """A part of the pipeline that workers hold.

    Attributes:
        content: The object that workers receive.
        worker: The only worker that holds it, if there is one.
        late: Whether it was added after the pool was opened.
        workers: The workers that have received it since then.
    """

    __slots__ = ("content", "late", "worker", "workers")

    def __init__(self, content: Any, worker: int | None, late: bool):
        self.content = content
        self.worker = worker
        self.late = late
        self.workers: set[int] = set()


def _name_owner(value: Any) -> str | None:
    """Return the name of a dataset node, for the message that it cannot be pickled."""
    return str(value) if getattr(value, "_parents", None) is not None else None
