"""A pool of worker processes: tasks in, results out, by ticket.

Ordering: results may arrive in any order and are taken by ticket. Tasks of one affinity are computed by one
worker in the order of submission; other tasks are taken by the first idle worker. A definition precedes
every task submitted after it.

Blocking: only `result`, `wait` and `close` block. There is no helper thread: a thread that waits for a
result reads the sockets, and if several threads wait, one of them reads for all. Submitting never blocks;
what a socket does not accept is kept and sent while a result is awaited.

Failure: an error of a task is raised by `result` of its ticket. When a worker is lost, it is replaced, the
definitions are sent to the replacement, and `result` raises `TaskLost` for the tasks it took with it: the
task it was computing, and the tasks of its affinities. Tasks that it had not taken are computed by other
workers. When more than `max_restarts` workers were replaced in a short time, or a worker cannot start, the
whole pool fails: every later call raises that error. Ctrl-C while a message is half sent or half read leaves
the pool unusable, and later calls raise `PoolInterrupted`; the owner opens another pool and submits again,
since tasks are pure functions. Ctrl-C at any other point changes nothing.

Lifetime: `close`, garbage collection and interpreter exit end the workers. Arrays already received stay
valid.
"""

from __future__ import annotations

import _thread
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from grain._policy import current_policy
from grain.execution.costs import Costs
from grain.execution.processes import array_pickling, error_report
from grain.execution.processes.channel import MAX_INLINE
from grain.execution.processes.framing import FrameKind
from grain.execution.processes.job import Job, pickle_for_workers, warn_if_large
from grain.execution.processes.pool_errors import NotOutstanding, PoolClosed
from grain.execution.processes.pool_workers import PoolWorkers
from grain.execution.processes.supervisor import WorkerProcesses
from grain.execution.processes.task_table import TaskTable
from grain.execution.processes.unpicklable import NameOwner

if TYPE_CHECKING:
    from grain.execution.processes.bindings import Loss
    from grain.execution.processes.local_worker import LocalWorker


class WorkerPool:
    """Worker processes that compute tasks.

    Args:
        job: Any object with `start(worker_index, worker_count)` that cloudpickle can pickle.
        num_workers: Number of processes.
        worker_init_fn: Called as `worker_init_fn(index, count)` in each worker before anything else.
        slot_bytes: Most bytes of shared memory for the results of each worker, and as many for large
            tasks. The rest is sent over sockets.
        grace: Seconds that a worker has to exit by itself when the pool is closed, and again after
            SIGTERM, before it is killed; the policy's by default.
        name_owner: Returns the user's name of an object, or None; used to name the part of a job that
            cannot be pickled.
        max_restarts: Most replacements of lost workers, per worker, within the time that the policy's
            `restart_window_seconds` says.
        task_timeout: Seconds after which a worker that computes one task is lost; no limit by default.
        memory_limit: Resident bytes at which a worker is replaced between two tasks; no limit by default.

    Attributes:
        costs: The cost model of these workers.

    >>> class Square:
    ...     def start(self, worker_index, worker_count):
    ...         return lambda x: x * x
    >>> with WorkerPool(Square(), num_workers=2) as pool:
    ...     tickets = [pool.submit(x) for x in range(4)]
    ...     [pool.result(ticket) for ticket in tickets]
    [0, 1, 4, 9]
    """

    def __init__(
        self,
        job: Job,
        *,
        num_workers: int,
        worker_init_fn: Callable[[int, int], Any] | None = None,
        slot_bytes: int | None = None,
        grace: float | None = None,
        name_owner: NameOwner | None = None,
        max_restarts: int = 0,
        task_timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> None:
        _require_positive("num_workers", num_workers)
        if max_restarts < 0:
            raise ValueError(f"max_restarts must be at least 0, got {max_restarts}.")
        for name, value in (("task_timeout", task_timeout), ("memory_limit", memory_limit)):
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be positive, or None for no limit; got {value}.")
        policy = current_policy()
        budget = _default_budget(num_workers) if slot_bytes is None else slot_bytes
        pickled_init = None
        if worker_init_fn is not None:
            pickled_init = pickle_for_workers(worker_init_fn, "worker_init_fn", name_owner)
        self.costs = Costs.of_local_processes(policy, max_bytes=budget * num_workers)
        self._dump = array_pickling.Dumper()
        self._table = TaskTable()
        self._closed = False
        self._lock = threading.Lock()
        # Whether a thread polls the sockets; others wait at a gate, a lock that is released to wake them.
        self._reading = False
        self._gates: list[_thread.LockType] = []
        pickled_job = pickle_for_workers(job, "job", name_owner)
        warn_if_large(pickled_job, policy.large_job_bytes)
        self._processes = WorkerProcesses(
            pickled_job,
            pickled_init,
            count=num_workers,
            budget=budget,
            grace=policy.worker_exit_seconds if grace is None else grace,
            memory_limit=memory_limit or 0,
        )
        self._finalizer = weakref.finalize(self, self._processes.end_when_collected)
        self._workers = PoolWorkers(
            self._processes,
            self._table,
            policy=policy,
            max_restarts=max_restarts,
            task_timeout=task_timeout,
        )

    @property
    def capacity(self) -> int:
        """Number of workers, including those that are starting."""
        return len(self._workers.serving)

    @property
    def restarts(self) -> int:
        """Number of lost workers that were replaced."""
        return self._workers.restarts

    @property
    def recycled(self) -> int:
        """Number of workers that were replaced because of their memory."""
        return self._workers.recycled

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [process.pid for process in self._processes.handles]

    @property
    def exit_codes(self) -> list[int | None]:
        """Exit codes of the workers (-N: signal N), None for those that have not been seen to end."""
        return [process.returncode for process in self._processes.handles]

    @property
    def lent_slots(self) -> int:
        """Number of slots whose results are in use here."""
        return sum(sum(worker.page.results.lent) for worker in self._processes.live)

    @property
    def closed(self) -> bool:
        """Whether the workers have ended: by `close`, or by the exit of the interpreter."""
        return self._closed or self._processes.ended

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        """Submit a task to the first idle worker; return its ticket.

        Args:
            task: The task.
            affinity: Tasks with equal affinity are computed by one worker, in the order of submission,
                until that worker is lost.
        """
        pickled = self._dump(task)
        size = len(pickled.stream) + sum(map(len, pickled.buffers))
        table = self._table
        ticket = 0
        try:
            with self._lock:
                self._require_usable()
                target: LocalWorker | None = None
                loss: Loss | None = None
                if affinity is not None:
                    if table.bindings.loss(affinity) is None:
                        target = self._workers.bound_worker(affinity)
                    loss = table.bindings.loss(affinity)
                elif size > MAX_INLINE:
                    target = self._workers.least_loaded()
                # Without a call in between, so that an interrupt finds all or nothing.
                ticket = table.next_ticket
                table.next_ticket = ticket + 1
                table.waiting[ticket] = target
                if affinity is not None:
                    table.affinities[ticket] = affinity
                if loss is not None:
                    table.lost[ticket] = loss
                    return ticket
                try:
                    if target is None:
                        self._workers.queue_task(ticket, pickled)
                    else:
                        self._workers.send(target, FrameKind.TASK, ticket, pickled)
                except BaseException:
                    self._workers.fail()  # Half a task may have been sent.
                    raise
                self._require_usable()
            return ticket
        except BaseException:
            if ticket in table.waiting:
                del table.waiting[ticket]  # The caller never learns of it.
            raise

    def define(self, number: int, part: bytes, *, affinity: int | None = None) -> None:
        """Give a part to all workers, or to the worker of an affinity, before any task submitted later.

        Args:
            number: Identifies the part.
            part: Given to the job's function as `(number, "define", part)`, also in replacements.
            affinity: The tasks that use the part; all tasks by default.
        """
        with self._lock:
            self._require_usable()
            try:
                self._workers.define(number, part, affinity)
            except BaseException:
                self._workers.fail()
                raise

    def release(self, number: int) -> None:
        """Remove a part from the workers that have received it."""
        with self._lock:
            if self.closed or self._workers.failure is not None:
                return
            try:
                self._workers.release(number)
            except BaseException:
                self._workers.fail()
                raise

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        """Wait for one of the tasks; return those whose `result` would not block.

        The returned set is empty after `timeout` seconds and when the capacity has changed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        changes = self._workers.capacity_changes
        while True:
            self._emit_warnings()
            with self._lock:
                if self.closed or self._workers.failure is not None:
                    return set(tickets)
                found = {ticket for ticket in tickets if self._table.settled(ticket)}
                if found or not tickets or changes != self._workers.capacity_changes:
                    return found
            if not self._await_message(deadline):
                return set()

    def result(self, ticket: int, timeout: float | None = None) -> Any:
        """Wait for a task and return its result, or raise its error; possible once per ticket.

        Raise TaskLost if the task was lost with its worker, WorkerDied if workers are lost too often,
        NotOutstanding (a KeyError) if the ticket is not outstanding, TimeoutError after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._emit_warnings()
            with self._lock:
                if ticket not in self._table.waiting:
                    raise NotOutstanding(
                        f"Ticket {ticket} is not outstanding: it was never issued, or its result was "
                        "already taken or discarded."
                    )
                if ticket in self._table.arrived:
                    kind, buffers = self._take_result(ticket)
                    break
                self._require_usable()
                if ticket in self._table.lost:
                    raise self._table.take_loss(ticket)
            if not self._await_message(deadline):
                raise TimeoutError("The result did not arrive within the timeout.")
        stream, *others = buffers
        del buffers
        value = array_pickling.loads(stream, others)
        if kind == FrameKind.ERROR:
            raise error_report.rebuild(error_report.ErrorReport(*value))
        return value

    def ready(self, ticket: int) -> bool:
        """Return whether `result(ticket)` would return or raise without blocking."""
        with self._lock:
            workers, table = self._workers, self._table
            if ticket not in table.arrived and not self._reading and not self._closed:
                workers.watch_for_room()
                workers.handle_events(workers.poll_set.poll.poll(0))
            return (
                ticket in table.arrived
                or ticket in table.lost
                or self._closed
                or workers.failure is not None
            )

    def discard(self, ticket: int) -> None:
        """Cancel a task: a worker that has not started it skips it, and its result is dropped."""
        with self._lock:
            cancelled = self._processes.cancelled
            if self._table.discard(ticket) and cancelled is not None:
                cancelled.add(ticket)

    def resize(self, count: int) -> None:
        """Change the number of workers; tasks that were submitted are not disturbed.

        A worker that is no longer needed finishes its current task. Affinities bound to it are lost, as if
        the worker was.
        """
        _require_positive("count", count)
        with self._lock:
            self._require_usable()
            try:
                self._workers.resize(count)
            except BaseException:
                self._workers.fail()
                raise

    def close(self) -> None:
        """End the workers and wait until they have exited."""
        if not self._processes.ours:
            # In a fork, where the lock may be held by a thread that exists only in the parent.
            self._closed = True
            return
        self._closed = True
        while True:
            gate = None
            with self._lock:
                if not self._processes.ended:
                    self._processes.close_channels()  # wakes the thread that reads, if there is one
                if self._reading:
                    gate = self._new_gate()
                else:
                    self._table.arrived.clear()
            if gate is None:
                break
            gate.acquire(True, self._workers.check_seconds)
        self._processes.end()
        self._finalizer.detach()  # Not before: `end` may be interrupted.
        with self._lock:
            self._processes.release_shared_memory()
            self._workers.poll_set.clear()
            self._table.forget_workers()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Waiting. These methods are called without the lock.

    def _await_message(self, deadline: float | None) -> bool:
        """Read messages, or wait while another thread does; return False after the deadline.

        The lock is never released and taken again inside of a `with` block: an interrupt in between would
        leave the block without the lock that its end releases.
        """
        remaining = self._workers.check_seconds
        if deadline is not None:
            remaining = min(remaining, deadline - time.monotonic())
            if remaining <= 0:
                return False
        gate: _thread.LockType | None = None
        reads = False
        try:
            with self._lock:
                if self.closed:
                    return True
                if self._reading:
                    gate = self._new_gate()
                else:
                    self._workers.watch_for_room()
                    self._reading = reads = True
            if gate is not None:
                gate.acquire(True, remaining)
                return True
            events = self._workers.poll_set.poll.poll(remaining * 1000)
        finally:
            # No call may come before this: it could be interrupted.
            if reads:
                self._reading = False
        with self._lock:
            if not self.closed:
                self._workers.handle_events(events)
            self._open_gates()
        return True

    def _emit_warnings(self) -> None:
        pending = self._workers.warnings
        while pending:
            warnings.warn(pending.popleft(), RuntimeWarning, stacklevel=4)

    # All methods below are called with the lock held.

    def _new_gate(self) -> _thread.LockType:
        gate = _thread.allocate_lock()
        gate.acquire()
        self._gates.append(gate)
        return gate

    def _open_gates(self) -> None:
        while self._gates:
            self._gates.pop().release()

    def _require_usable(self) -> None:
        if self.closed and not self._processes.ours:
            raise PoolClosed(
                f"This iterator was copied into process {os.getpid()} by a fork, and its worker pool "
                "belongs to the process that was forked. Make a new iterator in the child process, with "
                "`iter(dataset)`, and give it a state of the old one with `set_state`; or start the "
                "process with the method `spawn` or `forkserver` of multiprocessing."
            )
        if self.closed:
            raise PoolClosed("The worker pool is closed and returns no more results.")
        if self._workers.failure is not None:
            raise self._workers.failure()

    def _take_result(self, ticket: int) -> tuple[int, list[memoryview]]:
        try:
            self._workers.warn_of_slots(self._table.arrived[ticket].channel)
            return self._table.take_arrival(ticket)
        except BaseException:
            self._workers.fail()  # The slots may have been returned.
            raise


def _require_positive(name: str, count: int) -> None:
    if count < 1:
        raise ValueError(f"{name} must be at least 1, got {count}.")


def _default_budget(num_workers: int) -> int:
    """Return the share of each worker in an eighth of the memory, or in a gigabyte if that is more."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1 << 30, memory // 8) // num_workers
