"""The worker processes of one iterator: what they were told, and what they are asked to do."""

from __future__ import annotations

import collections
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from grain.execution import shared_sources
from grain.execution.processes.error_report import ErrorReport, rebuild
from grain.execution.processes.pool import (
    NotOutstanding,
    PoolClosed,
    PoolInterrupted,
    WorkerPool,
)
from grain.execution.processes.unpicklable import explain_unpicklable
from grain.execution.task_dispatcher import TaskDispatcher
from grain.execution.thread_shutdown import forget_this_thread

# What is raised here when not an element failed but the worker, or the way from there to here.
NOT_SENT = (Exception, SystemExit)


def sensible_worker_count() -> int:
    """As many workers as there are processors for this process, within reason."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(available or 1, 16))


def threads_are_enough() -> bool:
    """Whether threads run in parallel here, so that processes bring nothing."""
    enabled: Callable[[], bool] | None = getattr(sys, "_is_gil_enabled", None)
    return enabled is not None and not enabled()


class WorkerSession:
    """The worker processes of one iterator; started when the first thing is asked of them.

    Args:
      count: how many there are.
      init: called in each of them, with its index and their number.
      shared: what parts that are added later may hold; it is not sent again with them.
    """

    def __init__(
        self, count: int, init: Callable[[int, int], None] | None, shared: Sequence[Any] = ()
    ):
        self.count = count
        self._init = init
        self._shared = shared
        self._parts: dict[int, _RemoteObject] = {}
        self._next_number = 0
        self._pool: WorkerPool | None = None
        self._first_ticket = 1
        self._closed = False
        self._turn = 0
        # Tickets of definitions and releases whose results, which say nothing, are still to be taken.
        self._pending_acks: collections.deque[int] = collections.deque()

    def add(self, part: Any, worker: int | None = None) -> int:
        """Makes a part of the pipeline known to the workers, or to one of them; returns its number."""
        number = self._next_number
        self._next_number += 1
        self._parts[number] = _RemoteObject(part, worker, late=self._pool is not None)
        return number

    def release(self, number: int) -> None:
        """Lets the workers forget a part."""
        part = self._parts.pop(number, None)
        if part is None or self._pool is None or self._pool.closed:
            return
        pool = self._pool
        try:
            for worker in part.known if part.late else range(self.count):
                self._pending_acks.append(pool.submit((number, "release"), worker=worker))
        except PoolInterrupted:
            self._restart_pool(pool)

    def start(self) -> WorkerPool:
        """The pool, running."""
        if self._closed:
            raise ValueError("Trying to advance a closed iterator: its worker processes are gone.")
        if self._pool is None:
            self._pool = WorkerPool(
                TaskDispatcher({n: part.content for n, part in self._parts.items()}, self._shared),
                num_workers=self.count,
                worker_init_fn=self._init,
                name_owner=_name_owner,
                first_ticket=self._first_ticket,
            )
        return self._pool

    def _restart_pool(self, interrupted: WorkerPool) -> None:
        """Gives up workers that were interrupted in the middle of a message; others start when needed.

        They know all parts from the start. Whoever waits for a result of the old ones is told that it is
        not outstanding, and asks again.
        """
        if self._pool is not interrupted:
            return
        self._first_ticket = interrupted.next_ticket
        self._pending_acks.clear()
        for part in self._parts.values():
            part.late, part.known = False, set()
        self._pool = None
        interrupted.close()

    def submit(self, number: int, method: str, *arguments: Any) -> int:
        """Asks for something of a part; returns a ticket for the result."""
        pool = self.start()
        part = self._parts[number]
        worker = part.worker
        try:
            if part.late:
                # Only tasks for one named worker are sure to come after the definition.
                if worker is None:
                    worker = self._turn = (self._turn + 1) % self.count
                if worker not in part.known:
                    self._define(number, part, worker)
            return pool.submit((number, method, *arguments), worker=worker)
        except PoolInterrupted:
            self._restart_pool(pool)
            return self.submit(number, method, *arguments)
        except PoolClosed:
            self._wait_for_exit()
            raise

    def _define(self, number: int, part: _RemoteObject, worker: int) -> None:
        try:
            pickled = shared_sources.dumps(part.content, self._shared)
        except Exception as error:
            message = explain_unpicklable(part.content, "dataset", error, _name_owner)
            raise TypeError(message) from error
        self._pending_acks.append(self.start().submit((number, "define", pickled), worker=worker))
        part.known.add(worker)

    def result(self, ticket: int) -> Any:
        """Waits for a result."""
        made, told = self._wait(ticket)
        if told is not None:
            raise rebuild(ErrorReport(*told))
        return made

    def told(self, ticket: int) -> Any:
        """Waits for a result that carries its error as data."""
        made, told = self._wait(ticket)
        if told is not None:
            error = rebuild(ErrorReport(*told))
            made.error = error if isinstance(error, Exception) else RuntimeError(repr(error))
        return made

    def _wait(self, ticket: int) -> Any:
        pool = self.start()
        try:
            self._take_chores(pool)
            return pool.result(ticket)
        except KeyError:
            # Perhaps a worker does not know the part, since it could not take the definition.
            self._take_chores(pool)
            raise
        except PoolInterrupted:
            self._restart_pool(pool)
            raise NotOutstanding(f"Ticket {ticket} is one of workers that are gone.") from None
        except PoolClosed:
            self._wait_for_exit()
            raise

    def _wait_for_exit(self) -> None:
        """Keeps a daemon thread from complaining while the interpreter exits under it.

        The workers are ended then, though nobody has closed this iterator.
        """
        if not self._closed and threading.current_thread().daemon:
            forget_this_thread()
            threading.Event().wait()

    def _take_chores(self, pool: WorkerPool) -> None:
        while self._pending_acks and pool.ready(self._pending_acks[0]):
            pool.result(self._pending_acks.popleft())

    def forget(self, ticket: int) -> None:
        """A result that nobody wants any more."""
        if self._pool is not None and not self._pool.closed:
            self._pool.discard(ticket)

    def close(self) -> None:
        """Ends the workers."""
        self._closed = True
        if self._pool is not None:
            self._pool.close()


class _RemoteObject:
    """A part of the pipeline, and who knows of it.

    Attributes:
      content: what the workers get.
      worker: the one that is asked for it, if it is always the same.
      late: whether it was added when the workers were running already.
      known: the workers to which it was sent since.
    """

    __slots__ = ("content", "known", "late", "worker")

    def __init__(self, content: Any, worker: int | None, late: bool):
        self.content = content
        self.worker = worker
        self.late = late
        self.known: set[int] = set()


def _name_owner(value: Any) -> str | None:
    """Names the operation that holds something, for the message that it cannot be pickled."""
    is_operation = getattr(value, "_parents", None) is not None
    return str(value) if is_operation else None
