"""A pool of worker processes: tasks in, results out, by ticket.

Ordering: results may arrive in any order and are taken by ticket. Tasks for one named worker are computed
in the order of submission; other tasks are taken by the first idle worker.

Blocking: only `result` and `close` block. There is no helper thread: a thread that waits for a result reads
the sockets, and if several threads wait, one of them reads for all. Submitting never blocks; what a socket
does not accept is kept and sent while a result is awaited.

Failure: an error of a task is raised by `result` of its ticket. The loss of a worker, or a worker that
cannot start, fails the whole pool: every later call raises that error. Ctrl-C while a message is half sent
or half read leaves the pool unusable, and later calls raise `PoolInterrupted`; the owner opens another pool
and submits again, since tasks are pure functions. Ctrl-C at any other point changes nothing.

Lifetime: `close`, garbage collection and interpreter exit end the workers. Arrays already received stay
valid.
"""

from __future__ import annotations

import os
import select
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, Protocol

from grain._config import config
from grain._policy import current_policy
from grain.execution.costs import Costs
from grain.execution.processes import array_pickling, error_report, framing
from grain.execution.processes.channel import MAX_INLINE, Channel, ChannelLostError
from grain.execution.processes.error_report import WorkerDied
from grain.execution.processes.framing import Frame, FrameKind
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
        first_ticket: Number of the first ticket, for a pool that replaces another one.

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
        first_ticket: int = 1,
    ) -> None:
        if num_workers < 1:
            raise ValueError(f"num_workers must be at least 1, got {num_workers}.")
        policy = current_policy()
        budget = _default_budget(num_workers) if slot_bytes is None else slot_bytes
        pickled_init = None
        if worker_init_fn is not None:
            pickled_init = _pickle(worker_init_fn, "worker_init_fn", name_owner)
        pickled_job = _pickle(job, "job", name_owner)
        _warn_if_large(pickled_job, policy.large_job_bytes)
        self._workers = WorkerProcesses(
            pickled_job,
            pickled_init,
            count=num_workers,
            budget=budget,
            grace=policy.worker_exit_seconds if grace is None else grace,
        )
        self._finalizer = weakref.finalize(self, self._workers.end)
        self.costs = Costs.of_local_processes(policy, max_bytes=budget * num_workers)
        self._dump = array_pickling.Dumper()
        # Definitions for all workers that were sent so far, and the worker of each affinity.
        self._sequence = 0
        self._definitions: dict[int, int | None] = {}
        self._bound: dict[int, int] = {}
        self._next_ticket = first_ticket
        self._waiting: dict[int, int] = {}
        self._arrived: dict[int, tuple[Channel, Frame]] = {}
        self._backlog: deque[bytes] = deque()
        self._failure: Callable[[], BaseException] | None = None
        self._warning: str | None = None
        self._warned = False
        self._closed = False
        # Entered directly, never through the condition: an interrupt in `Condition.__enter__` would leave
        # it locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._reading = False
        self._check_seconds = policy.liveness_check_seconds
        self._checked = time.monotonic()
        self._start_timeout: float | None = config.process_start_timeout
        self._by_fd = {c.socket.fileno(): i for i, c in enumerate(self._workers.channels)}
        self._poll = select.poll()
        for fd in self._by_fd:
            self._poll.register(fd, select.POLLIN)
        self._writing: set[int] = set()

    @property
    def capacity(self) -> int:
        """Number of workers."""
        return self._workers.count

    @property
    def next_ticket(self) -> int:
        """Number of the next ticket."""
        return self._next_ticket

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [process.pid for process in self._workers.processes]

    @property
    def exit_codes(self) -> list[int | None]:
        """Exit codes of the workers (-N: signal N), None for those that have not been seen to end."""
        return [process.returncode for process in self._workers.processes]

    @property
    def lent_slots(self) -> int:
        """Number of slots whose results are in use here."""
        return sum(sum(page.results.lent) for page in self._workers.pages)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def submit(self, task: Any, *, affinity: int | None = None, worker: int | None = None) -> int:
        """Submit a task to the first idle worker; return its ticket.

        Args:
            task: The task.
            affinity: Tasks with equal affinity are computed by one worker, in the order of submission.
            worker: The worker that computes the task, in the order of submission.
        """
        if worker is not None and not 0 <= worker < self._workers.count:
            raise ValueError(f"worker must be in 0..{self._workers.count - 1}, got {worker}.")
        pickled = self._dump(task)
        size = len(pickled.stream) + sum(map(len, pickled.buffers))
        with self._lock:
            self._require_usable()
            ticket = self._next_ticket
            self._next_ticket += 1
            if affinity is not None:
                worker = self._bind(affinity)
            elif worker is None and size > MAX_INLINE:
                worker = self._least_loaded()
            self._waiting[ticket] = -1 if worker is None else worker
            try:
                self._send(ticket, worker, pickled)
            except BaseException:
                self._record_interrupt()  # Half a task may have been sent.
                raise
            self._require_usable()
        return ticket

    def define(self, number: int, part: bytes, *, affinity: int | None = None) -> None:
        """Give a part to all workers, or to the worker of an affinity, before any task submitted later.

        Args:
            number: Identifies the part.
            part: Given to the job's function as `(number, "define", part)`.
            affinity: The tasks that use the part; all tasks by default.
        """
        with self._lock:
            self._require_usable()
            workers = range(self._workers.count) if affinity is None else [self._bind(affinity)]
            try:
                self._sequence += affinity is None
                self._definitions[number] = affinity
                pickled = array_pickling.Pickled(part, [])
                for worker in workers:
                    self._send_to(worker, FrameKind.DEFINE, number, pickled)
            except BaseException:
                self._record_interrupt()
                raise

    def release(self, number: int) -> None:
        """Remove a part from the workers that have received it."""
        with self._lock:
            if self._closed or self._failure is not None:
                return
            affinity = self._definitions.pop(number, None)  # Parts of the job are with all workers.
            workers = range(self._workers.count) if affinity is None else [self._bind(affinity)]
            try:
                for worker in workers:
                    self._send_to(worker, FrameKind.RELEASE, number, _NOTHING)
            except BaseException:
                self._record_interrupt()
                raise

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        """Wait for one of the tasks; return those whose `result` would not block.

        The returned set is empty after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while True:
                if self._closed or self._workers.ended or self._failure is not None:
                    return set(tickets)
                found = {t for t in tickets if t in self._arrived or t not in self._waiting}
                if found or not tickets:
                    return found
                try:
                    self._await_message(deadline)
                except TimeoutError:
                    return set()

    def result(self, ticket: int, timeout: float | None = None) -> Any:
        """Wait for a task and return its result, or raise its error; possible once per ticket.

        Raise WorkerDied if a worker was lost, NotOutstanding (a KeyError) if the ticket is not outstanding,
        TimeoutError after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            if ticket not in self._waiting:
                raise NotOutstanding(
                    f"Ticket {ticket} is not outstanding: it was never issued, or its result was already "
                    "taken or discarded."
                )
            while ticket not in self._arrived:
                self._require_usable()
                self._await_message(deadline)
            self._warn(ticket)
            try:
                channel, frame = self._arrived.pop(ticket)
                del self._waiting[ticket]
                stream, *buffers = channel.open(frame)
            except BaseException:
                self._record_interrupt()  # The result is lost.
                raise
        value = array_pickling.loads(stream, buffers)
        if frame.kind == FrameKind.ERROR:
            raise error_report.rebuild(error_report.ErrorReport(*value))
        return value

    def ready(self, ticket: int) -> bool:
        """Return whether `result(ticket)` would return or raise without blocking."""
        with self._lock:
            if ticket not in self._arrived and not self._reading and not self._closed:
                self._read(0)
            return ticket in self._arrived or self._closed or self._failure is not None

    def discard(self, ticket: int) -> None:
        """Cancel a task: a worker that has not started it skips it, and its result is dropped."""
        with self._lock:
            if ticket not in self._waiting:
                return
            del self._waiting[ticket]
            if ticket in self._arrived:
                channel, frame = self._arrived.pop(ticket)
                channel.drop(frame)
            elif self._workers.cancelled is not None:
                self._workers.cancelled.add(ticket)

    def close(self) -> None:
        """End the workers and wait until they have exited."""
        if not self._workers.ours:
            # In a fork, where the lock may be held by a thread that exists only in the parent.
            self._closed = True
            return
        with self._lock:
            self._closed = True
            if not self._workers.ended:
                self._workers.close_channels()  # wakes the thread that reads, if there is one
            while self._reading:
                self._changed.wait()
            self._arrived.clear()
        self._workers.end()
        self._finalizer.detach()  # Not before: `end` may be interrupted.
        with self._lock:
            self._workers.release_shared_memory()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # All methods below are called with the lock held.

    def _send(self, ticket: int, worker: int | None, pickled: array_pickling.Pickled) -> None:
        if worker is None:
            frame = framing.inline_frame(FrameKind.TASK, ticket, pickled, self._sequence)
            self._backlog.append(frame)
            self._flush_tasks()
            return
        self._send_to(worker, FrameKind.TASK, ticket, pickled)

    def _send_to(
        self, worker: int, kind: int, number: int, pickled: array_pickling.Pickled
    ) -> None:
        try:
            self._workers.channels[worker].send(kind, number, pickled, self._sequence)
        except ConnectionError:
            self._record_lost(worker)

    def _bind(self, affinity: int) -> int:
        """Return the worker of an affinity; a new one gets the worker with the fewest affinities."""
        if affinity not in self._bound:
            bound = list(self._bound.values())
            self._bound[affinity] = min(range(self._workers.count), key=bound.count)
        return self._bound[affinity]

    def _record_interrupt(self) -> None:
        if self._failure is None:
            self._failure = _interrupted

    def _require_usable(self) -> None:
        if self._closed or self._workers.ended:
            raise PoolClosed("The worker pool is closed and returns no more results.")
        if self._failure is not None:
            raise self._failure()

    def _least_loaded(self) -> int:
        load = [0] * self._workers.count
        for worker in self._waiting.values():
            if worker >= 0:
                load[worker] += 1
        return load.index(min(load))

    def _warn(self, ticket: int) -> None:
        """Warn once if shared memory is not available on either side."""
        if self._warned:
            return
        channel, _ = self._arrived[ticket]
        failure = channel.slots.failure or channel.views.failure
        text = self._warning if failure is None else explain_failure(failure)
        if text is not None:
            self._warned = True
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _flush_tasks(self) -> None:
        tasks = self._workers.tasks
        while self._backlog:
            try:
                tasks.send(self._backlog[0])
            except BlockingIOError:
                return
            except ConnectionError:  # no worker is left
                self._record_lost(0)
                return
            self._backlog.popleft()

    def _await_message(self, deadline: float | None) -> None:
        """Read messages, or wait while another thread does; return when something has changed."""
        remaining = self._check_seconds
        if deadline is not None:
            remaining = min(remaining, deadline - time.monotonic())
            if remaining <= 0:
                raise TimeoutError("The result did not arrive within the timeout.")
        if self._reading:
            self._changed.wait(remaining)
        else:
            self._read(remaining)

    def _read(self, seconds: float) -> None:
        self._watch_for_room()
        self._reading = True
        try:
            self._changed.release()
            events = self._poll.poll(seconds * 1000)
        finally:
            # In this order, since another Ctrl-C may arrive after each of these calls.
            self._reading = False
            self._changed.acquire()
            self._changed.notify_all()
        if self._closed or self._workers.ended:
            return
        try:
            self._take(events)
        except BaseException:
            self._record_interrupt()  # Messages that were read and not recorded are lost.
            raise
        if not events or time.monotonic() - self._checked > self._check_seconds:
            self._check_workers()

    def _watch_for_room(self) -> None:
        """Make `poll` return also when a socket accepts more of the backlog."""
        wanted = {fd for fd, i in self._by_fd.items() if self._workers.channels[i].backlog}
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

    def _take(self, events: list[tuple[int, int]]) -> None:
        for fd, event in events:
            worker = self._by_fd.get(fd)
            if worker is None:
                self._flush_tasks()
                continue
            channel = self._workers.channels[worker]
            try:
                for frame in channel.receive():
                    self._record(channel, frame)
                if event & select.POLLOUT:
                    channel.flush()
            except ChannelLostError as error:
                self._failure = _factory(RuntimeError, f"Worker {worker}: {error}.")
            except (EOFError, ConnectionError):
                self._poll.unregister(fd)
                del self._by_fd[fd]
                self._writing.discard(fd)
                self._record_exit(worker)

    def _record(self, channel: Channel, frame: Frame) -> None:
        if frame.kind == FrameKind.WARNING:
            self._warning = channel.decode(frame)
        elif frame.ticket == 0:
            report = error_report.ErrorReport(*channel.decode(frame))
            self._failure = self._failure or (lambda: error_report.rebuild(report))
        elif frame.kind == FrameKind.ACCEPTED:
            if frame.ticket in self._waiting:
                self._waiting[frame.ticket] = self._workers.channels.index(channel)
        elif frame.ticket in self._waiting:
            self._arrived[frame.ticket] = (channel, frame)
        else:
            channel.drop(frame)

    def _check_workers(self) -> None:
        """Look for workers that have died, or that do not start."""
        self._checked = time.monotonic()
        worker = self._workers.find_dead()
        if worker is not None:
            self._record_lost(worker)
        if self._start_timeout is None:
            return
        worker = self._workers.find_not_started()
        if worker is None:
            self._start_timeout = None
        elif self._checked - self._workers.started > self._start_timeout:
            pid = self._workers.processes[worker].pid
            self._failure = self._failure or _factory(
                RuntimeError,
                f"The interpreter of worker {worker} of {self._workers.count} (process {pid}) did not start "
                f"within {self._start_timeout:g} seconds, the setting `process_start_timeout`. Start fewer "
                "workers, or allow more time: `grain.config.update('process_start_timeout', seconds)`, or "
                "GRAIN_PROCESS_START_TIMEOUT in the environment.",
            )

    def _record_lost(self, worker: int) -> None:
        """Record a death, after reading what the worker sent before it: results, or its start error."""
        fd = self._workers.channels[worker].socket.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while fd in self._by_fd and poll.poll(0):
            self._take([(fd, select.POLLIN)])
        self._record_exit(worker)

    def _record_exit(self, worker: int) -> None:
        if self._failure is not None:
            return
        code = self._workers.exit_code(worker, timeout=1.0)
        ticket: int | None = self._workers.pages[worker].ticket
        if ticket not in self._waiting or ticket in self._arrived:
            ticket = None  # it was answered or discarded
        pid = self._workers.processes[worker].pid
        self._failure = _factory(WorkerDied, worker, self._workers.count, pid, code, ticket)


_NOTHING = array_pickling.Pickled(b"", [])


def _factory(kind: Callable[..., BaseException], *arguments: Any) -> Callable[[], BaseException]:
    """Return a function that creates a new error each time, so that tracebacks do not accumulate on one."""
    return lambda: kind(*arguments)


def _interrupted() -> BaseException:
    return PoolInterrupted(
        "The worker pool was interrupted in the middle of a message and cannot be used any more."
    )


def _pickle(value: object, name: str, name_owner: NameOwner | None) -> array_pickling.Pickled:
    try:
        return array_pickling.dumps_job(value)
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
