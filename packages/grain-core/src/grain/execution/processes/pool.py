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
import select
import signal
import socket
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol

from grain._config import config
from grain._policy import current_policy
from grain.execution.costs import Costs
from grain.execution.processes import array_pickling, error_report, framing
from grain.execution.processes.bindings import Bindings, Loss, Part, Parts
from grain.execution.processes.channel import (
    MAX_DATAGRAM,
    MAX_INLINE,
    Channel,
    ChannelLostError,
)
from grain.execution.processes.control import TAKING
from grain.execution.processes.error_report import TaskLost, WorkerDied
from grain.execution.processes.framing import Frame, FrameKind
from grain.execution.processes.local_worker import LocalWorker, name_of_task
from grain.execution.processes.process_handle import ProcessHandle
from grain.execution.processes.restart_budget import RestartBudget
from grain.execution.processes.slots import explain_failure
from grain.execution.processes.supervisor import WorkerProcesses
from grain.execution.processes.unpicklable import NameOwner, explain_unpicklable


class Job(Protocol):
    """The work of a pool; pickled once and loaded by every worker."""

    def start(self, worker_index: int, worker_count: int) -> Callable[[Any], Any]:
        """Return the function that computes a task; called once in each worker.

        The function may return a `concurrent.futures.Future`: the worker then takes further tasks and sends
        the result when the future is done. The function also receives the definitions of the pool, as the
        tasks `(number, "define", part)` and `(number, "release")`, whose results are ignored.
        """


class PoolClosed(RuntimeError):  # noqa: N818 - read as a sentence
    """The pool was used after it was closed."""


class PoolInterrupted(RuntimeError):  # noqa: N818 - read as a sentence
    """The pool was interrupted mid-message; in-flight results may be lost."""


class NotOutstanding(KeyError):  # noqa: N818 - read as a sentence
    """The ticket has no result to wait for: it was taken or discarded, or belongs to another pool."""


class _Arrival(NamedTuple):
    """A result that was received and not taken.

    `buffers` holds the opened frame once the worker is gone, and with it the channel.
    """

    channel: Channel
    frame: Frame
    buffers: list[memoryview] | None = None


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
        restarts: Number of lost workers that were replaced.
        recycled: Number of workers that were replaced because of their memory.

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
            pickled_init = _pickle(worker_init_fn, "worker_init_fn", name_owner)
        self.costs = Costs.of_local_processes(policy, max_bytes=budget * num_workers)
        self.restarts = 0
        self.recycled = 0
        self._dump = array_pickling.Dumper()
        self._parts = Parts()
        self._bindings = Bindings()
        self._max_restarts = max_restarts
        self._restart_budget = RestartBudget(
            max_restarts * num_workers, policy.restart_window_seconds
        )
        self._next_ticket = 1
        # The worker that has the task, None if any worker may take it from the queue.
        self._waiting: dict[int, LocalWorker | None] = {}
        self._arrived: dict[int, _Arrival] = {}
        self._lost: dict[int, Loss] = {}
        self._affinities: dict[int, int] = {}
        self._backlog: deque[bytes] = deque()
        self._failure: Callable[[], BaseException] | None = None
        self._warnings: deque[str] = deque()
        self._slots_warned = False
        self._capacity_changes = 0
        self._closed = False
        self._lock = threading.Lock()
        # Whether a thread polls the sockets; others wait at a gate, a lock that is released to wake them.
        self._reading = False
        self._gates: list[_thread.LockType] = []
        self._task_timeout = task_timeout
        self._silence_seconds = policy.worker_silence_seconds
        self._check_seconds = min(policy.liveness_check_seconds, (task_timeout or 60.0) / 2)
        self._checked = time.monotonic()
        self._start_timeout: float = config.process_start_timeout
        self._by_fd: dict[int, LocalWorker] = {}
        self._poll = select.poll()
        self._writing: set[int] = set()
        pickled_job = _pickle(job, "job", name_owner)
        _warn_if_large(pickled_job, policy.large_job_bytes)
        self._workers = WorkerProcesses(
            pickled_job,
            pickled_init,
            count=num_workers,
            budget=budget,
            grace=policy.worker_exit_seconds if grace is None else grace,
            memory_limit=memory_limit or 0,
        )
        self._finalizer = weakref.finalize(self, self._workers.end)
        for worker in self._workers.live:
            self._watch(worker)

    @property
    def capacity(self) -> int:
        """Number of workers, including those that are starting."""
        return sum(worker.retiring is None for worker in self._workers.live)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [process.pid for process in self._processes()]

    @property
    def exit_codes(self) -> list[int | None]:
        """Exit codes of the workers (-N: signal N), None for those that have not been seen to end."""
        return [process.returncode for process in self._processes()]

    def _processes(self) -> list[ProcessHandle]:
        workers = sorted(self._workers.workers.items())
        return [worker.process for _, worker in workers] or self._workers.exited

    @property
    def lent_slots(self) -> int:
        """Number of slots whose results are in use here."""
        return sum(sum(worker.page.results.lent) for worker in self._workers.live)

    @property
    def closed(self) -> bool:
        """Whether the workers have ended: by `close`, or by the exit of the interpreter."""
        return self._closed or self._workers.ended

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        """Submit a task to the first idle worker; return its ticket.

        Args:
            task: The task.
            affinity: Tasks with equal affinity are computed by one worker, in the order of submission,
                until that worker is lost.
        """
        pickled = self._dump(task)
        size = len(pickled.stream) + sum(map(len, pickled.buffers))
        ticket = 0
        try:
            with self._lock:
                self._require_usable()
                target: LocalWorker | None = None
                loss: Loss | None = None
                if affinity is not None:
                    if self._bindings.loss(affinity) is None:
                        target = self._bound_worker(affinity)
                    loss = self._bindings.loss(affinity)
                elif size > MAX_INLINE:
                    target = self._least_loaded()
                # Without a call in between, so that an interrupt finds all or nothing.
                ticket = self._next_ticket
                self._next_ticket = ticket + 1
                self._waiting[ticket] = target
                if affinity is not None:
                    self._affinities[ticket] = affinity
                if loss is not None:
                    self._lost[ticket] = loss
                    return ticket
                try:
                    if target is None:
                        self._queue_task(ticket, pickled)
                    else:
                        self._send(target, FrameKind.TASK, ticket, pickled)
                except BaseException:
                    self._failure = self._failure or _interrupted  # Half a task may have been sent.
                    raise
                if self._failure is not None or self._closed:
                    self._require_usable()
            return ticket
        except BaseException:
            if ticket in self._waiting:
                del self._waiting[ticket]  # The caller never learns of it.
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
                definition = self._parts.add(number, part, affinity)
                for worker in self._holders(affinity):
                    self._send_part(worker, definition)
            except BaseException:
                self._failure = self._failure or _interrupted
                raise

    def release(self, number: int) -> None:
        """Remove a part from the workers that have received it."""
        with self._lock:
            if self._closed or self._workers.ended or self._failure is not None:
                return
            try:
                part = self._parts.remove(number)
                # Without a definition, it is a part of the job, which all workers have.
                for worker in self._holders(None if part is None else part.affinity):
                    self._send(worker, FrameKind.RELEASE, number, _NOTHING)
            except BaseException:
                self._failure = self._failure or _interrupted
                raise

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        """Wait for one of the tasks; return those whose `result` would not block.

        The returned set is empty after `timeout` seconds and when the capacity has changed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        changes = self._capacity_changes
        while True:
            self._emit_warnings()
            with self._lock:
                if self._closed or self._workers.ended or self._failure is not None:
                    return set(tickets)
                found = {
                    ticket
                    for ticket in tickets
                    if ticket in self._arrived
                    or ticket in self._lost
                    or ticket not in self._waiting
                }
                if found or not tickets or changes != self._capacity_changes:
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
                if ticket not in self._waiting:
                    raise NotOutstanding(
                        f"Ticket {ticket} is not outstanding: it was never issued, or its result was "
                        "already taken or discarded."
                    )
                if ticket in self._arrived:
                    kind, buffers = self._take_result(ticket)
                    break
                self._require_usable()
                if ticket in self._lost:
                    raise self._take_loss(ticket)
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
            if ticket not in self._arrived and not self._reading and not self._closed:
                self._watch_for_room()
                self._handle_events(self._poll.poll(0))
            return (
                ticket in self._arrived
                or ticket in self._lost
                or self._closed
                or self._failure is not None
            )

    def discard(self, ticket: int) -> None:
        """Cancel a task: a worker that has not started it skips it, and its result is dropped."""
        with self._lock:
            if ticket not in self._waiting:
                return
            del self._waiting[ticket]
            self._affinities.pop(ticket, None)
            if self._lost.pop(ticket, None) is not None:
                return
            arrival = self._arrived.pop(ticket, None)
            if arrival is not None and arrival.buffers is None:
                arrival.channel.drop(arrival.frame)
            elif arrival is None and self._workers.cancelled is not None:
                self._workers.cancelled.add(ticket)

    def resize(self, count: int) -> None:
        """Change the number of workers; tasks that were submitted are not disturbed.

        A worker that is no longer needed finishes its current task. Affinities bound to it are lost, as if
        the worker was.
        """
        _require_positive("count", count)
        with self._lock:
            self._require_usable()
            try:
                self._workers.count = count
                self._restart_budget.restarts = self._max_restarts * count
                for worker in self._workers.live:
                    if worker.index >= count and worker.retiring is None:
                        self._retire(worker)
                self._capacity_changes += 1
                self._fill_up()
            except BaseException:
                self._failure = self._failure or _interrupted
                raise

    def close(self) -> None:
        """End the workers and wait until they have exited."""
        if not self._workers.ours:
            # In a fork, where the lock may be held by a thread that exists only in the parent.
            self._closed = True
            return
        self._closed = True
        while True:
            gate = None
            with self._lock:
                if not self._workers.ended:
                    self._workers.close_channels()  # wakes the thread that reads, if there is one
                if self._reading:
                    gate = self._new_gate()
                else:
                    self._arrived.clear()
            if gate is None:
                break
            gate.acquire(True, self._check_seconds)
        self._workers.end()
        self._finalizer.detach()  # Not before: `end` may be interrupted.
        with self._lock:
            self._workers.release_shared_memory()
            # Everything that refers to a worker, and so to memory shared with it.
            self._by_fd.clear()
            self._bindings = Bindings()
            self._waiting = dict.fromkeys(self._waiting)

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
        remaining = self._check_seconds
        if deadline is not None:
            remaining = min(remaining, deadline - time.monotonic())
            if remaining <= 0:
                return False
        gate: _thread.LockType | None = None
        reads = False
        try:
            with self._lock:
                if self._closed or self._workers.ended:
                    return True
                if self._reading:
                    gate = self._new_gate()
                else:
                    self._watch_for_room()
                    self._reading = reads = True
            if gate is not None:
                gate.acquire(True, remaining)
                return True
            events = self._poll.poll(remaining * 1000)
        finally:
            # No call may come before this: it could be interrupted.
            if reads:
                self._reading = False
        with self._lock:
            if not self._closed and not self._workers.ended:
                self._handle_events(events)
            self._open_gates()
        return True

    def _emit_warnings(self) -> None:
        while self._warnings:
            warnings.warn(self._warnings.popleft(), RuntimeWarning, stacklevel=4)

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
        if self._closed or self._workers.ended:
            raise PoolClosed("The worker pool is closed and returns no more results.")
        if self._failure is not None:
            raise self._failure()

    def _take_result(self, ticket: int) -> tuple[int, list[memoryview]]:
        try:
            channel, frame, buffers = self._arrived[ticket]
            self._warn_of_slots(channel)
            if buffers is None:
                buffers = channel.open(frame)
            self._affinities.pop(ticket, None)
            del self._arrived[ticket]
            del self._waiting[ticket]
        except BaseException:
            self._failure = self._failure or _interrupted  # The slots may have been returned.
            raise
        return frame.kind, buffers

    def _take_loss(self, ticket: int) -> TaskLost:
        loss = self._lost[ticket]
        error = TaskLost(ticket, *loss)
        affinity = self._affinities.get(ticket)
        if affinity is not None:
            self._bindings.acknowledge(affinity)
            self._affinities.pop(ticket, None)
        del self._lost[ticket]
        del self._waiting[ticket]
        return error

    def _warn_of_slots(self, channel: Channel) -> None:
        """Warn once if shared memory is not available on either side."""
        if self._slots_warned:
            return
        failure = channel.slots.failure or channel.views.failure
        if failure is not None:
            self._slots_warned = True
            self._warnings.append(explain_failure(failure))

    # Sending

    def _queue_task(self, ticket: int, pickled: array_pickling.Pickled) -> None:
        frame = framing.inline_frame(FrameKind.TASK, ticket, pickled, self._parts.sequence)
        self._backlog.append(frame)
        self._flush_tasks()

    def _flush_tasks(self) -> None:
        tasks = self._workers.tasks
        while self._backlog:
            try:
                tasks.send(self._backlog[0])
            except BlockingIOError:
                return
            self._backlog.popleft()

    def _send(
        self, worker: LocalWorker, kind: int, number: int, pickled: array_pickling.Pickled
    ) -> None:
        if worker.lost or worker.retiring is not None:
            return
        try:
            worker.channel.send(kind, number, pickled, self._parts.sequence)
        except ConnectionError:
            self._lose(worker)

    def _send_part(self, worker: LocalWorker, part: Part) -> None:
        if worker.lost or worker.retiring is not None:
            return
        try:
            pickled = array_pickling.Pickled(part.content, [])
            worker.channel.send(FrameKind.DEFINE, part.number, pickled, part.sequence)
        except ConnectionError:
            self._lose(worker)

    def _holders(self, affinity: int | None) -> list[LocalWorker]:
        """Return the workers that hold the parts of an affinity."""
        if affinity is None:
            return self._workers.live
        worker = self._bindings.worker(affinity)
        return [] if worker is None else [worker]

    def _bound_worker(self, affinity: int) -> LocalWorker:
        worker = self._bindings.worker(affinity)
        if worker is None:
            candidates = [w for w in self._workers.live if w.retiring is None]
            worker = self._bindings.bind(affinity, candidates)
            for part in self._parts.of(affinity):
                self._send_part(worker, part)
        return worker

    def _least_loaded(self) -> LocalWorker:
        assigned = list(self._waiting.values())
        candidates = [w for w in self._workers.live if w.retiring is None]
        return min(candidates, key=assigned.count)

    # Receiving

    def _watch(self, worker: LocalWorker) -> None:
        for fd in (worker.channel.socket.fileno(), worker.process.fd):
            if fd >= 0:
                self._by_fd[fd] = worker
                self._poll.register(fd, select.POLLIN)

    def _unwatch(self, worker: LocalWorker) -> None:
        for fd in [fd for fd, watched in self._by_fd.items() if watched is worker]:
            self._poll.unregister(fd)
            self._writing.discard(fd)
            del self._by_fd[fd]

    def _watch_for_room(self) -> None:
        """Make `poll` return also when a socket accepts more of the backlog."""
        wanted = {
            fd
            for fd, worker in self._by_fd.items()
            if worker.channel.backlog and fd == worker.channel.socket.fileno()
        }
        if self._backlog:
            wanted.add(self._workers.tasks.fileno())
        for fd in wanted ^ self._writing:
            base = select.POLLIN if fd in self._by_fd else 0
            if fd in wanted:
                self._poll.register(fd, base | select.POLLOUT)
            elif base:
                self._poll.register(fd, base)
            else:
                self._poll.unregister(fd)
        self._writing = wanted

    def _handle_events(self, events: list[tuple[int, int]]) -> None:
        try:
            for fd, event in events:
                worker = self._by_fd.get(fd)
                if worker is None:
                    self._flush_tasks()
                elif fd == worker.process.fd:
                    if worker.process.poll():  # not a new worker with the descriptor of a lost one
                        self._lose(worker)
                else:
                    self._exchange(worker, event)
            if time.monotonic() - self._checked >= self._check_seconds:
                self._check_workers()
        except BaseException:
            # Messages that were read and not recorded are lost.
            self._failure = self._failure or _interrupted
            raise

    def _exchange(self, worker: LocalWorker, event: int) -> None:
        try:
            for frame in worker.channel.receive():
                self._record(worker, frame)
            if event & select.POLLOUT:
                worker.channel.flush()
        except ChannelLostError as error:
            self._failure = self._failure or _factory(
                RuntimeError, f"Worker {worker.index}: {error}."
            )
        except (EOFError, ConnectionError):
            self._lose(worker)

    def _record(self, worker: LocalWorker, frame: Frame) -> None:
        channel, ticket = worker.channel, frame.ticket
        if frame.kind == FrameKind.WARNING:
            if not self._slots_warned:
                self._slots_warned = True
                self._warnings.append(channel.decode(frame))
        elif frame.kind == FrameKind.RETIRE:
            worker.retiring = channel.decode(frame)
        elif ticket == 0:
            report = error_report.ErrorReport(*channel.decode(frame))
            self._failure = self._failure or (lambda: error_report.rebuild(report))
        elif frame.kind == FrameKind.ACCEPTED:
            if ticket in self._waiting:
                self._waiting[ticket] = worker
            worker.background.add(ticket)
        else:
            if worker.background:
                worker.background.discard(ticket)
            if ticket in self._waiting and ticket not in self._lost:
                self._arrived[ticket] = _Arrival(channel, frame)
            else:
                channel.drop(frame)

    # Loss of workers

    def _check_workers(self) -> None:
        """Look for workers that have died, that do not start, or that do not answer."""
        now = time.monotonic()
        # While the consumer did something else, a worker may have waited for it to read a result.
        attended = now - self._checked < 4 * self._check_seconds
        self._checked = now
        for worker in self._workers.live:
            if worker.process.poll():
                self._lose(worker)
                continue
            if not attended:
                worker.forget()
            if not worker.page.running:
                if now - worker.started > self._start_timeout:
                    self._fail_to_start(worker)
                continue
            current, seconds = worker.observe(now)
            if (
                self._task_timeout is not None
                and current not in (0, TAKING)
                and seconds > self._task_timeout
            ):
                stack = worker.stack()
                worker.process.send_signal(signal.SIGKILL)
                self._lose(worker, f"task timeout after {self._task_timeout:g} seconds. {stack}")
            elif seconds > self._silence_seconds and worker.warned != current:
                worker.warned = current
                self._warn_of_silence(worker, current, seconds)
        if self._failure is None:
            self._fill_up()

    def _fail_to_start(self, worker: LocalWorker) -> None:
        self._failure = self._failure or _factory(
            RuntimeError,
            f"The interpreter of worker {worker.index} of {self._workers.count} (process "
            f"{worker.process.pid}) did not start within {self._start_timeout:g} seconds, the setting "
            "`process_start_timeout`. Start fewer workers, or allow more time: "
            "`grain.config.update('process_start_timeout', seconds)`, or GRAIN_PROCESS_START_TIMEOUT in "
            "the environment.",
        )

    def _warn_of_silence(self, worker: LocalWorker, current: int, seconds: float) -> None:
        doing = name_of_task(current) if worker.page.loaded else "loading its job"
        self._warnings.append(
            f"Worker {worker.index} of {self._workers.count} (process {worker.process.pid}) has been {doing} "
            f"for {seconds:.0f} seconds. {worker.stack()}\nA `task_timeout` replaces such workers."
        )

    def _lose(self, worker: LocalWorker, cause: str | None = None) -> None:
        """Record what a worker has taken with it, and replace it."""
        if worker.lost:
            return
        if not worker.process.wait(_EXIT_SECONDS):
            # Its socket is closed, so it can do nothing useful any more.
            worker.process.send_signal(signal.SIGKILL)
            worker.process.wait(_EXIT_SECONDS)
        self._drain(worker)
        self._unwatch(worker)
        pid, code = worker.process.pid, worker.process.returncode
        if cause is None:
            cause = worker.retiring or error_report.describe_exit(code)
        lost = self._record_losses(worker, f"process {pid}: {cause}")
        for number, arrival in self._arrived.items():
            if arrival.channel is worker.channel and arrival.buffers is None:
                buffers = worker.channel.open(arrival.frame)
                self._arrived[number] = arrival._replace(buffers=buffers)
        self._workers.put_away(worker)
        self._capacity_changes += 1
        if self._failure is not None:
            return
        if worker.retiring is None:
            self._count_restart(worker, cause, lost)
        elif worker.index < self._workers.count:
            self.recycled += 1
        if self._failure is None:
            self._fill_up()

    def _count_restart(self, worker: LocalWorker, cause: str, lost: set[int]) -> None:
        count, pid = self._workers.count, worker.process.pid
        budget = self._restart_budget
        if budget.take(time.monotonic()):
            self.restarts += 1
            if not lost:  # Otherwise `TaskLost` says so.
                self._warnings.append(
                    f"Worker {worker.index} of {count} (process {pid}) was lost and is replaced: {cause}."
                )
            return
        current = worker.page.current[0]
        ticket = current if current in lost else None
        detail = ""
        if self._max_restarts:
            detail = f"{budget.restarts} workers were replaced within {budget.seconds:g} seconds"
        self._failure = _factory(
            WorkerDied, worker.index, count, pid, worker.process.returncode, ticket, detail
        )

    def _record_losses(self, worker: LocalWorker, cause: str) -> set[int]:
        """Record the tasks that are lost with a worker, and return them."""
        current = worker.page.current[0]
        lost = {number for number, assigned in self._waiting.items() if assigned is worker}
        if current == TAKING:
            lost |= self._missing_tasks(worker)
        elif current in self._waiting:
            lost.add(current)
        lost -= self._arrived.keys() | self._lost.keys()
        for number in lost:
            started = number == current or number in worker.background
            self._lost[number] = Loss(worker.index, cause, started)
            if self._workers.cancelled is not None:
                self._workers.cancelled.add(number)
        self._bindings.unbind(worker, Loss(worker.index, cause, started=False))
        return lost

    def _missing_tasks(self, dead: LocalWorker) -> set[int]:
        """Return the tasks that a worker may have taken from the queue without recording it.

        These are the tasks that are neither in the queue nor recorded by another worker. Another worker that
        takes a task at this moment makes it appear missing; that task is computed twice.
        """
        queued: list[bytes] = []
        while True:
            try:
                queued.append(self._workers.untaken.recv(MAX_DATAGRAM, socket.MSG_DONTWAIT))
            except BlockingIOError:
                break
        self._backlog.extendleft(reversed(queued))
        known = {framing.ticket_of(frame) for frame in self._backlog}
        known.update(w.page.current[0] for w in self._workers.live if w is not dead)
        self._flush_tasks()
        return {t for t, assigned in self._waiting.items() if assigned is None and t not in known}

    def _drain(self, worker: LocalWorker) -> None:
        """Read what a worker sent before it exited: results, or the error of its start."""
        poll = select.poll()
        poll.register(worker.channel.socket, select.POLLIN)
        try:
            while poll.poll(0):
                for frame in worker.channel.receive():
                    self._record(worker, frame)
        except (EOFError, OSError):
            return

    def _retire(self, worker: LocalWorker) -> None:
        """Let a worker exit after its current task."""
        worker.retiring = "the number of workers was reduced"
        self._bindings.unbind(worker, Loss(worker.index, worker.retiring, started=False))
        worker.channel.stop_sending()
        self._workers.set_aside(worker)

    def _fill_up(self) -> None:
        """Start the workers that are missing."""
        for index in range(self._workers.count):
            present = self._workers.workers.get(index)
            if present is not None and not present.lost:
                continue
            try:
                worker = self._workers.start(index)
            except OSError as error:
                self._cannot_start(index, error)
                return
            self._watch(worker)
            for part in self._parts.of(None):
                self._send_part(worker, part)
            # The last definitions may have been released.
            self._send_part(worker, Part(0, b"", None, self._parts.sequence))
            self._capacity_changes += 1

    def _cannot_start(self, index: int, error: OSError) -> None:
        """Continue with the workers that are left, if there are any; the start is tried again later."""
        text = f"Worker {index} of {self._workers.count} could not be started: {error}"
        if not self._workers.live:
            self._failure = _factory(type(error), error.errno, text)
        elif text not in self._warnings:
            self._warnings.append(f"{text}. The others continue.")


_NOTHING = array_pickling.Pickled(b"", [])
# Time for the exit of a process whose socket is closed.
_EXIT_SECONDS = 1.0


def _require_positive(name: str, count: int) -> None:
    if count < 1:
        raise ValueError(f"{name} must be at least 1, got {count}.")


def _factory(kind: Callable[..., BaseException], *arguments: Any) -> Callable[[], BaseException]:
    """Return a function that creates a new error each time, so that tracebacks do not accumulate on one."""
    return lambda: kind(*arguments)


def _interrupted() -> BaseException:
    return PoolInterrupted(
        "The worker pool was interrupted in the middle of a message and cannot be used any more."
    )


def _pickle(value: object, name: str, name_owner: NameOwner | None) -> array_pickling.Pickled:
    try:
        return array_pickling.dumps_by_value(value)
    except Exception as error:
        raise TypeError(explain_unpicklable(value, name, error, name_owner)) from error


def _warn_if_large(job: array_pickling.Pickled, limit: int) -> None:
    """Warn if a job holds many Python objects; its arrays exist once for all workers."""
    if len(job.stream) > limit:
        warnings.warn(
            f"The pipeline holds {len(job.stream) / 1e6:,.0f} MB of Python objects, which every worker "
            "process loads and keeps. Keep large data in numpy arrays, np.memmap or files: workers share "
            "those.",
            RuntimeWarning,
            stacklevel=2,
        )


def _default_budget(num_workers: int) -> int:
    """Return the share of each worker in an eighth of the memory, or in a gigabyte if that is more."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1 << 30, memory // 8) // num_workers
