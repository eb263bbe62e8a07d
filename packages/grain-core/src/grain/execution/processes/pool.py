"""A pool of worker processes as the consuming process sees it: tasks in, results out, by ticket.

There is no helper thread. Whoever waits for a result reads the sockets; if several threads wait,
one of them reads for all.
"""

from __future__ import annotations

import os
import select
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from grain.execution.processes import array_pickling, error_report, framing
from grain.execution.processes.channel import MAX_INLINE, Channel, ChannelLostError
from grain.execution.processes.error_report import WorkerDied
from grain.execution.processes.framing import Frame, Kind
from grain.execution.processes.slots import explain_failure
from grain.execution.processes.supervisor import WorkerProcesses
from grain.execution.processes.unpicklable import NameOwner, explain_unpicklable

# How long to wait for news before asking the system whether all workers are still there.
_CHECK_SECONDS = 0.5


class Job(Protocol):
    """What a pool does; pickled once and sent to every worker."""

    def start(self, worker_index: int, worker_count: int) -> Callable[[Any], Any]:
        """Called once in each worker; returns the function that turns a task into its result."""


class PoolClosed(RuntimeError):  # noqa: N818 - a user reads it as a sentence
    """The pool was used after it was closed."""


class PoolInterrupted(RuntimeError):  # noqa: N818 - likewise
    """An interrupt came while the pool talked to its workers: what was on its way may be lost."""


class NotOutstanding(KeyError):  # noqa: N818 - likewise
    """A result was asked for that cannot be had: it was taken already, or never to come."""


class WorkerPool:
    """Worker processes that compute tasks.

    Args:
      job: what to do; any object with `start(worker_index, worker_count)` that cloudpickle takes.
      num_workers: how many processes.
      worker_init_fn: called as `worker_init_fn(index, count)` in each worker before all else.
      slot_bytes: how many bytes of shared memory the pool may hold for results in each worker (and
        as many for large tasks). What does not fit is sent by socket.
      grace: seconds that a worker is given to end by itself when the pool is closed, and again
        after SIGTERM, before it is killed.
      name_owner: names an object in the words of the user, or returns None; used to say which part
        of a job cannot be pickled.
      first_ticket: the number of the first ticket, for a pool that stands in for another one.

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
        grace: float = 0.5,
        name_owner: NameOwner | None = None,
        first_ticket: int = 1,
    ) -> None:
        if num_workers < 1:
            raise ValueError(f"num_workers must be at least 1, got {num_workers}.")
        budget = _default_budget(num_workers) if slot_bytes is None else slot_bytes
        pickled_init = None
        if worker_init_fn is not None:
            pickled_init = _pickle(worker_init_fn, "worker_init_fn", name_owner)
        self._crew = WorkerProcesses(
            _pickle(job, "job", name_owner),
            pickled_init,
            count=num_workers,
            budget=budget,
            grace=grace,
        )
        self._finalizer = weakref.finalize(self, self._crew.end)
        self._dump = array_pickling.Dumper()
        self._next_ticket = first_ticket
        self._waiting: dict[int, int] = {}
        self._arrived: dict[int, tuple[Channel, Frame]] = {}
        self._backlog: deque[bytes] = deque()
        self._failure: Callable[[], BaseException] | None = None
        self._warning: str | None = None
        self._warned = False
        self._closed = False
        # Entered as it is, never through the condition: an interrupt on the way in would leave it locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._reading = False
        self._checked = time.monotonic()
        self._by_fd = {c.socket.fileno(): i for i, c in enumerate(self._crew.channels)}
        self._poll = select.poll()
        for fd in self._by_fd:
            self._poll.register(fd, select.POLLIN)
        self._writing: set[int] = set()

    @property
    def num_workers(self) -> int:
        """How many workers the pool was made with."""
        return self._crew.count

    @property
    def next_ticket(self) -> int:
        """The number of the next ticket."""
        return self._next_ticket

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [process.pid for process in self._crew.processes]

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def submit(self, task: Any, *, worker: int | None = None) -> int:
        """Gives a task to the first worker that is free, or to the one named; returns its ticket.

        Tasks for one named worker are computed in the order in which they were submitted.
        """
        if worker is not None and not 0 <= worker < self._crew.count:
            raise ValueError(f"worker must be in 0..{self._crew.count - 1}, got {worker}.")
        pickled = self._dump(task)
        size = len(pickled.stream) + sum(map(len, pickled.buffers))
        with self._lock:
            self._require_usable()
            ticket = self._next_ticket
            self._next_ticket += 1
            if worker is None and size > MAX_INLINE:
                worker = self._least_loaded()
            self._waiting[ticket] = -1 if worker is None else worker
            try:
                self._send(ticket, worker, pickled)
            except BaseException:
                self._note_interrupt()  # Half a task may have been sent.
                raise
            self._require_usable()
        return ticket

    def result(self, ticket: int, timeout: float | None = None) -> Any:
        """Waits for a task's result and returns it, or raises what the task raised.

        A result can be asked for once. Raises WorkerDied if a worker was lost, NotOutstanding (a
        KeyError) if the ticket is not outstanding, TimeoutError after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            if ticket not in self._waiting:
                raise NotOutstanding(
                    f"Ticket {ticket} is not outstanding: it was never given out, or its result "
                    "was already taken or discarded."
                )
            while ticket not in self._arrived:
                self._require_usable()
                self._await_news(deadline)
            self._give_warning(ticket)
            channel, frame = self._arrived.pop(ticket)
            del self._waiting[ticket]
            stream, *buffers = channel.open(frame)
        value = array_pickling.loads(stream, buffers)
        if frame.kind == Kind.ERROR:
            raise error_report.rebuild(error_report.Report(*value))
        return value

    def ready(self, ticket: int) -> bool:
        """Whether `result(ticket)` would return or raise at once."""
        with self._lock:
            if ticket not in self._arrived and not self._reading and not self._closed:
                self._read(0)
            return ticket in self._arrived or self._closed or self._failure is not None

    def discard(self, ticket: int) -> None:
        """Gives up a task: no worker begins it any more, and its result is dropped."""
        with self._lock:
            if ticket not in self._waiting:
                return
            del self._waiting[ticket]
            if ticket in self._arrived:
                channel, frame = self._arrived.pop(ticket)
                channel.drop(frame)
            elif self._crew.cancelled is not None:
                self._crew.cancelled.add(ticket)

    def close(self) -> None:
        """Ends the workers and waits until they are gone. Arrays already received stay valid."""
        if (
            not self._crew.ours
        ):  # in a fork, where the lock may be held by a thread that is not here
            self._closed = True
            return
        with self._lock:
            self._closed = True
            if not self._crew.ended:
                self._crew.close_channels()  # wakes the thread that reads, if there is one
            while self._reading:
                self._changed.wait()
            self._arrived.clear()
        self._crew.end()
        self._finalizer.detach()  # Not before: it may have been interrupted.
        with self._lock:
            self._crew.release_shared_memory()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Everything below is called with the lock held.

    def _send(self, ticket: int, worker: int | None, pickled: array_pickling.Pickled) -> None:
        if worker is None:
            self._backlog.append(framing.inline_frame(Kind.TASK, ticket, pickled))
            self._flush_tasks()
            return
        try:
            self._crew.channels[worker].send(Kind.TASK, ticket, pickled)
        except ConnectionError:
            self._note_lost(worker)

    def _note_interrupt(self) -> None:
        if self._failure is None:
            self._failure = _interrupted

    def _require_usable(self) -> None:
        if self._closed or self._crew.ended:
            raise PoolClosed("The worker pool is closed; no result can be had from it any more.")
        if self._failure is not None:
            raise self._failure()

    def _least_loaded(self) -> int:
        load = [0] * self._crew.count
        for worker in self._waiting.values():
            if worker >= 0:
                load[worker] += 1
        return load.index(min(load))

    def _give_warning(self, ticket: int) -> None:
        """Tells the user, once, that shared memory cannot be had on one side or the other."""
        if self._warned:
            return
        channel, _ = self._arrived[ticket]
        failure = channel.slots.failure or channel.views.failure
        text = self._warning if failure is None else explain_failure(failure)
        if text is not None:
            self._warned = True
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _flush_tasks(self) -> None:
        tasks = self._crew.tasks
        while self._backlog:
            try:
                tasks.send(self._backlog[0])
            except BlockingIOError:
                return
            except ConnectionError:  # nobody is left to take a task
                self._note_lost(0)
                return
            self._backlog.popleft()

    def _await_news(self, deadline: float | None) -> None:
        """Reads what comes, or lets another thread do it; returns when something has changed."""
        remaining = _CHECK_SECONDS
        if deadline is not None:
            remaining = min(remaining, deadline - time.monotonic())
            if remaining <= 0:
                raise TimeoutError("No result within the time given.")
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
            # In this order, since Ctrl-C may strike once more after each of these calls.
            self._reading = False
            self._changed.acquire()
            self._changed.notify_all()
        if self._closed or self._crew.ended:
            return
        try:
            self._take(events)
        except BaseException:
            self._note_interrupt()  # What was read and not noted may be lost.
            raise
        if not events or time.monotonic() - self._checked > _CHECK_SECONDS:
            self._checked = time.monotonic()
            self._note_death()

    def _watch_for_room(self) -> None:
        """Has `poll` return also when a socket takes more of what waits to be sent."""
        wanted = {fd for fd, i in self._by_fd.items() if self._crew.channels[i].backlog}
        if self._backlog:
            wanted.add(self._crew.tasks.fileno())
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
            channel = self._crew.channels[worker]
            try:
                for frame in channel.receive():
                    self._note(channel, frame)
                if event & select.POLLOUT:
                    channel.flush()
            except ChannelLostError as error:
                self._failure = _again(RuntimeError, f"Worker {worker}: {error}.")
            except (EOFError, ConnectionError):
                self._poll.unregister(fd)
                del self._by_fd[fd]
                self._writing.discard(fd)
                self._note_end(worker)

    def _note(self, channel: Channel, frame: Frame) -> None:
        if frame.kind == Kind.WARNING:
            self._warning = channel.decode(frame)
        elif frame.ticket == 0:
            told = error_report.Report(*channel.decode(frame))
            self._failure = self._failure or (lambda: error_report.rebuild(told))
        elif frame.ticket in self._waiting:
            self._arrived[frame.ticket] = (channel, frame)
        else:
            channel.drop(frame)

    def _note_death(self) -> None:
        worker = self._crew.find_dead()
        if worker is not None:
            self._note_lost(worker)

    def _note_lost(self, worker: int) -> None:
        """Notes a death, after what the worker sent before it: results, or why it cannot start."""
        fd = self._crew.channels[worker].socket.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        while fd in self._by_fd and poll.poll(0):
            self._take([(fd, select.POLLIN)])
        self._note_end(worker)

    def _note_end(self, worker: int) -> None:
        if self._failure is not None:
            return
        code = self._crew.exit_code(worker, timeout=1.0)
        ticket: int | None = self._crew.pages[worker].ticket
        if ticket not in self._waiting or ticket in self._arrived:
            ticket = None  # it was answered, or nobody waits for it
        pid = self._crew.processes[worker].pid
        self._failure = _again(WorkerDied, worker, self._crew.count, pid, code, ticket)


def _again(kind: Callable[..., BaseException], *arguments: Any) -> Callable[[], BaseException]:
    """Makes the error anew each time, so that tracebacks do not pile up on one object."""
    return lambda: kind(*arguments)


def _interrupted() -> BaseException:
    return PoolInterrupted(
        "The worker pool was interrupted while it talked to its workers, and cannot go on."
    )


def _pickle(value: object, name: str, name_owner: NameOwner | None) -> array_pickling.Pickled:
    try:
        return array_pickling.dumps_by_value(value)
    except Exception as error:
        raise TypeError(explain_unpicklable(value, name, error, name_owner)) from error


def _default_budget(num_workers: int) -> int:
    """An eighth of the memory, a gigabyte at least, shared among the workers."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1 << 30, memory // 8) // num_workers
