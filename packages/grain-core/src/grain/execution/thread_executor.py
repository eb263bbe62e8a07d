"""The thread executor: tasks are computed by threads of this process.

Threads share the datasets, and tasks run in parallel as far as the functions of the pipeline release the
interpreter lock. Elements are passed without pickling; arguments of a task are copied, since a function may
change them and the task may be computed twice.
"""

from __future__ import annotations

import collections
import copy
import os
import queue
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from grain._policy import current_policy
from grain.execution.costs import Costs
from grain.execution.executor import Job, NotOutstanding, PoolClosed, PoolInterrupted
from grain.execution.thread_shutdown import BackgroundThread, StopSignal


class ThreadExecutor:
    """Executor of tasks in threads of this process.

    Args:
        capacity: Number of threads.

    >>> import grain
    >>> options = grain.MultiprocessingOptions(num_workers=2, executor="threads")
    >>> list(grain.MapDataset.range(3).to_iter_dataset().mp_prefetch(options))
    [0, 1, 2]
    """

    def __init__(self, capacity: int):
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {capacity}.")
        self.capacity = capacity

    def open(
        self, job: Job, *, name_owner: Callable[[Any], str | None] | None = None
    ) -> TaskThreads:
        """Start threads."""
        del name_owner
        return TaskThreads(job, self.capacity)


class TaskThreads:
    """A pool of threads.

    Threads hold no reference to this object: dropping it ends them. A fork of the process has no threads;
    there, calls raise `PoolInterrupted`, so that the session opens another pool.
    """

    def __init__(self, job: Job, capacity: int):
        policy = current_policy()
        self.costs = Costs(
            block_seconds=policy.block_seconds,
            message_seconds=policy.thread_message_seconds,
            element_seconds=policy.thread_element_seconds,
            byte_seconds=policy.byte_seconds,
            max_bytes=policy.in_process_bytes,
        )
        self.capacity = capacity
        self._owner = os.getpid()
        self._work = _SharedWork(capacity, self)
        self._next_ticket = 1
        self._next_worker = 0
        self._bound: dict[int, int] = {}
        self._threads = [
            BackgroundThread(
                "grain-task", self._work.stop, _serve, job, self._work, index, capacity
            )
            for index in range(capacity)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return bool(self._work.stopped)

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        """Submit a task to the first idle thread, or to the thread of an affinity."""
        self._require_own()
        with self._work.lock:
            self._require_open()
            worker = None if affinity is None else self._bind(affinity)
            ticket = self._next_ticket
            self._next_ticket += 1
            self._work.put(worker, ticket, task)
        return ticket

    def define(self, number: int, part: bytes, *, affinity: int | None = None) -> None:
        """Define a part in all threads, or in the thread of an affinity."""
        self._require_own()
        with self._work.lock:
            self._require_open()
            workers = range(self.capacity) if affinity is None else [self._bind(affinity)]
            for worker in workers:
                self._work.put_change(worker, (number, "define", part))

    def release(self, number: int) -> None:
        """Release a part in all threads."""
        self._require_own()
        with self._work.lock:
            if not self.closed:
                for worker in range(self.capacity):
                    self._work.put_change(worker, (number, "release"))

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        """Wait for the result of one of the tickets."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._require_own()
        while True:
            alarm = threading.Lock()
            alarm.acquire()
            with self._work.lock:
                ready = {t for t in tickets if self.closed or self._work.is_done(t)}
                remaining = -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
                if ready or not tickets or remaining == 0:
                    return ready
                self._work.alarms.append(alarm)
            alarm.acquire(timeout=remaining)

    def result(self, ticket: int) -> Any:
        """Wait for the result of a task."""
        self.wait((ticket,))
        with self._work.lock:
            self._require_open()
            if ticket not in self._work.results:
                raise NotOutstanding(f"Ticket {ticket} was taken or discarded, or never issued.")
            value, failure = self._work.results.pop(ticket)
        if failure is not None:
            raise failure
        return value

    def ready(self, ticket: int) -> bool:
        """Return whether the task was computed."""
        self._require_own()
        with self._work.lock:
            return self.closed or self._work.is_done(ticket)

    def discard(self, ticket: int) -> None:
        """Cancel a task, or drop its result."""
        self._require_own()
        with self._work.lock:
            self._work.outstanding.discard(ticket)
            self._work.results.pop(ticket, None)

    def close(self) -> None:
        """Let the threads end, and wait for the tasks that they compute."""
        if (
            os.getpid() != self._owner
        ):  # In a fork, where the lock may be held by a thread of the parent.
            self._work.stopped.set()
            return
        self._work.stop()
        for thread in self._threads:
            if not thread.is_current:
                thread.join()

    def _bind(self, affinity: int) -> int:
        if affinity not in self._bound:
            self._bound[affinity] = self._next_worker
            self._next_worker = (self._next_worker + 1) % self.capacity
        return self._bound[affinity]

    def _require_own(self) -> None:
        if os.getpid() != self._owner:
            raise PoolInterrupted("This process is a fork, in which the threads do not exist.")

    def _require_open(self) -> None:
        if self.closed:
            raise PoolClosed("The pool is closed and returns no more results.")


class _SharedWork:
    """State shared with the threads: tasks that wait, and results that were not taken.

    Attributes:
        lock: Guards all other attributes but `stopped`.
        alarms: Locks that are released with the next result, or when the pool is closed. Consumers wait for
            them instead of a condition, which an interrupt may leave locked.
        outstanding: Tickets of tasks without a result that were not discarded.
        results: Values and errors by ticket.
        stopped: Whether the threads must end.

    Args:
        capacity: The number of threads.
        pool: The pool; when it is collected, the threads end.
    """

    def __init__(self, capacity: int, pool: TaskThreads):
        self.lock = threading.Lock()
        self.alarms: list[threading.Lock] = []
        self.outstanding: set[int] = set()
        self.results: dict[int, tuple[Any, BaseException | None]] = {}
        self._order = 0
        # Where each thread waits; an item says that there are new tasks, or the end.
        self._waiting: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(capacity)]
        self.stopped = StopSignal(pool, *self._waiting)
        # For any worker, and for each of them; entries are (order, ticket, task).
        self._shared: collections.deque[tuple[int, int, Any]] = collections.deque()
        self._own: list[collections.deque[tuple[int, int, Any]]] = [
            collections.deque() for _ in range(capacity)
        ]

    def put(self, worker: int | None, ticket: int, task: Any) -> None:
        self._order += 1
        self.outstanding.add(ticket)
        tasks = self._shared if worker is None else self._own[worker]
        tasks.append((self._order, ticket, task))
        self._signal_tasks()

    def put_change(self, worker: int, change: Any) -> None:
        """Give a worker a change of its parts, before any task that follows."""
        self._order += 1
        self._own[worker].append((self._order, 0, change))
        self._signal_tasks()

    def _signal_tasks(self) -> None:
        for waiting in self._waiting:
            if waiting.empty():  # Else the thread has a signal that it has not seen.
                waiting.put(None)

    def is_done(self, ticket: int) -> bool:
        return ticket not in self.outstanding

    def get(self, worker: int) -> tuple[int, Any] | None:
        """Wait for the next task of a worker, in the order of submission; None when it must end."""
        while not self.stopped:
            with self.lock:
                found = self._take(self._own[worker])
            if found is not None:
                return found
            self._waiting[worker].get()
        return None

    def _take(self, own: collections.deque[tuple[int, int, Any]]) -> tuple[int, Any] | None:
        while own or self._shared:
            is_own = own and (not self._shared or own[0][0] < self._shared[0][0])
            _, ticket, task = (own if is_own else self._shared).popleft()
            if ticket == 0 or ticket in self.outstanding:
                return ticket, task
        return None

    def finish(self, ticket: int, value: Any, failure: BaseException | None) -> None:
        with self.lock:
            if ticket in self.outstanding:
                self.outstanding.remove(ticket)
                self.results[ticket] = value, failure
                self._wake()

    def stop(self) -> None:
        with self.lock:
            self.stopped.set()
            self.results.clear()
            self.outstanding.clear()
            self._signal_tasks()
            self._wake()

    def _wake(self) -> None:
        while self.alarms:
            self.alarms.pop().release()


def _serve(job: Job, work: _SharedWork, index: int, count: int) -> None:
    """Compute tasks until the pool is closed; the main function of a thread."""
    compute: Any = None
    start_failure: BaseException | None = None
    try:
        compute = job.start(index, count)
    except BaseException as error:
        start_failure = error
    del job
    while (item := work.get(index)) is not None:
        ticket, task = item
        value, failure = None, start_failure
        try:
            if failure is None:
                value = compute(copy.deepcopy(task) if ticket else task)
        except BaseException as error:  # Also an exit: the consumer must receive it.
            failure = error
        if ticket:
            work.finish(ticket, value, failure)
        del item, task, value, failure
    if hasattr(compute, "close"):
        compute.close()
