"""Main loop of a worker process: receive tasks, compute them, send results, until the pool is closed."""

from __future__ import annotations

import _socket
import atexit
import contextlib
import gc
import os
import select
import signal
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from grain.execution import thread_shutdown
from grain.execution.processes import (
    array_pickling,
    error_report,
    framing,
    job_file,
    parent_watch,
    segments,
)
from grain.execution.processes.bootstrap_guard import set_in_worker, starting
from grain.execution.processes.channel import MAX_INLINE, Channel
from grain.execution.processes.control import CancelledTickets, WorkerPage, control_size
from grain.execution.processes.framing import Frame, FrameKind
from grain.execution.processes.slots import explain_failure
from grain.memory import allocation
from grain.memory.malloc import configure_malloc

_DATAGRAM_BYTES = 4 * MAX_INLINE


def main(
    job_fd: int,
    setup_bytes: int,
    index: int,
    count: int,
    channel_fd: int,
    tasks_fd: int,
    life_fd: int,
    control_fd: int,
    budget: int,
) -> None:
    """Run a worker; called by its command line, never returns."""
    gc.freeze()  # Imported modules are never garbage.
    gc.enable()
    _reset_signals()
    parent_watch.exit_with_parent(life_fd)
    configure_malloc()
    control = segments.map_shared(control_fd, control_size(count))
    os.close(control_fd)
    worker = Worker(index, count, control, channel_fd, tasks_fd, budget)
    try:
        with starting():
            worker.start(job_fd, setup_bytes)
        worker.serve()
    except (EOFError, ConnectionError):
        pass  # the pool is closed
    thread_shutdown.forget_threads()
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    # Without tearing down the interpreter, which takes longer and has no effect.
    os._exit(0)


class Worker:
    """The sockets of a worker and the function that computes its tasks."""

    def __init__(
        self,
        index: int,
        count: int,
        control: memoryview,
        channel_fd: int,
        tasks_fd: int,
        budget: int,
    ) -> None:
        self._index = index
        self._count = count
        self._page = WorkerPage(control, index)
        self._page.set_running()
        self._cancelled = CancelledTickets(control)
        self._channel = Channel(
            _socket.socket(fileno=channel_fd),
            sending=self._page.results,
            receiving=self._page.tasks,
            budget=budget,
        )
        self._dump = array_pickling.Dumper(self._channel.slots.allocate)
        self._tasks = _socket.socket(fileno=tasks_fd)
        self._tasks.setblocking(False)
        self._wait = _waiter(self._channel.socket.fileno(), self._tasks.fileno())
        self._queue: deque[Frame] = deque()
        self._handle: Callable[[Any], Any] = _not_started
        self._warned = False

    def start(self, job_fd: int, setup_bytes: int) -> None:
        """Load the job; on failure, report the error to the pool and exit."""
        where = "worker_init_fn"
        try:
            setup = job_file.read(job_fd, setup_bytes)
            sys.argv[:] = setup.argv
            if setup.init is not None:
                setup.load_init()(self._index, self._count)
            where = "unpickling the job"
            job = setup.load_job()
            where = "starting the job"
            set_in_worker()
            allocation.install_allocator(self._channel.slots.allocate)
            self._handle = job.start(self._index, self._count)
        except BaseException as error:
            self._send_error(0, error, f"worker {self._index} of {self._count}, {where}")
            raise EOFError from None

    def serve(self) -> None:
        """Compute task after task; raise EOFError when the pool closes its end."""
        while True:
            frame = self._next_frame()
            ticket = frame.ticket
            self._page.ticket = ticket
            if ticket in self._cancelled:
                self._channel.drop(frame)
                self._channel.send_all(FrameKind.SKIPPED, ticket, _NOTHING)
            else:
                self._compute(frame)
            self._page.ticket = 0

    def _compute(self, frame: Frame) -> None:
        # No local may outlive this function: a reference to an array would keep its slot.
        try:
            pickled = self._dump(self._handle(self._channel.decode(frame)))
        except BaseException as error:
            self._send_error(frame.ticket, error, f"worker {self._index} of {self._count}")
        else:
            self._channel.send_all(FrameKind.RESULT, frame.ticket, pickled)
            failure = self._channel.slots.failure or self._channel.views.failure
            if failure is not None and not self._warned:
                self._warned = True
                text = explain_failure(failure)
                self._channel.send_all(FrameKind.WARNING, 0, array_pickling.dumps_by_value(text))

    def _next_frame(self) -> Frame:
        while True:
            # Messages for this worker alone come first; among them, that the pool was closed.
            self._queue.extend(self._channel.receive())
            if self._queue:
                return self._queue.popleft()
            try:
                data = self._tasks.recv(_DATAGRAM_BYTES)
            except BlockingIOError:
                self._wait()
                continue
            if not data:
                raise EOFError
            return framing.parse(memoryview(bytearray(data)), own=True)[0]

    def _send_error(self, ticket: int, error: BaseException, where: str) -> None:
        report = tuple(error_report.report(error, where=where))
        self._channel.send_all(FrameKind.ERROR, ticket, array_pickling.dumps_by_value(report))


_NOTHING = array_pickling.Pickled(b"", [])


def _not_started(task: object) -> object:
    raise RuntimeError("the worker has not been started")


def _reset_signals() -> None:
    """Ignore Ctrl-C, which the parent handles; restore the defaults of other signals."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _waiter(own: int, shared: int) -> Callable[[], Any]:
    """Return a function that waits until a socket is readable; `shared` wakes one of the waiting workers."""
    if hasattr(select, "EPOLLEXCLUSIVE"):
        poll = select.epoll()
        poll.register(own, select.EPOLLIN)
        poll.register(shared, select.EPOLLIN | select.EPOLLEXCLUSIVE)
        return poll.poll
    plain = select.poll()
    plain.register(own, select.POLLIN)
    plain.register(shared, select.POLLIN)
    return plain.poll
