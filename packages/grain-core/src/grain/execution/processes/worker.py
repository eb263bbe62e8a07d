"""Main loop of a worker process: receive tasks, compute them, send results, until the pool is closed.

A job's function that returns a `concurrent.futures.Future` computes in the background: the loop reads
further tasks meanwhile and sends the result when the future is done. Everything is sent by the loop, so a
future may be completed in any thread.

Definitions reach the job's function as the task `(number, "define", part)`, and their end as
`(number, "release")`; neither has a result. A definition that raises makes every task on its number raise
the same error.
"""

from __future__ import annotations

import _socket
import atexit
import contextlib
import faulthandler
import gc
import os
import select
import signal
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from grain._config import config
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
from grain.execution.processes.channel import MAX_DATAGRAM, Channel
from grain.execution.processes.control import (
    PAGE_BYTES,
    RING_BYTES,
    STACK_OFFSET,
    TAKING,
    CancelledTickets,
    WorkerPage,
)
from grain.execution.processes.framing import Frame, FrameKind
from grain.execution.processes.memory_limit import MemoryLimit
from grain.execution.processes.slots import explain_failure, install_own_slots
from grain.execution.processes.stack_signal import STACK_SIGNAL
from grain.memory import allocation
from grain.memory.malloc import configure_malloc


def main(
    job_fd: int,
    setup_bytes: int,
    index: int,
    count: int,
    budget: int,
    memory_limit: int,
    tasks_fd: int,
    life_fd: int,
    cancelled_fd: int,
    page_fd: int,
    channel_fd: int,
) -> None:
    """Run a worker; called by its command line, never returns."""
    gc.freeze()  # Imported modules are never garbage.
    gc.enable()
    _reset_signals()
    parent_watch.exit_with_parent(life_fd)
    configure_malloc()
    # The parent shows the errors of workers, and filters their frames by its own setting.
    config.update("py_traceback_filtering", "off")
    page = WorkerPage(segments.map_shared(page_fd, PAGE_BYTES))
    page.set_running()
    _report_stack_to(page_fd)
    cancelled = CancelledTickets(segments.map_shared(cancelled_fd, RING_BYTES))
    os.close(cancelled_fd)
    worker = Worker(index, count, page, cancelled, channel_fd, tasks_fd, budget, memory_limit)
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
        page: WorkerPage,
        cancelled: CancelledTickets,
        channel_fd: int,
        tasks_fd: int,
        budget: int,
        memory_limit: int,
    ) -> None:
        self._index = index
        self._count = count
        self._page = page
        self._current = page.current
        self._cancelled = cancelled
        self._memory = MemoryLimit(memory_limit) if memory_limit else None
        self._channel = Channel(
            _socket.socket(fileno=channel_fd),
            sending=page.results,
            receiving=page.tasks,
            budget=budget,
        )
        self._dump = array_pickling.Dumper(self._channel.slots.allocate)
        self._tasks = _socket.socket(fileno=tasks_fd)
        self._tasks.setblocking(False)
        self._poll = _poll_of(self._channel.socket.fileno(), self._tasks.fileno())
        self._queue: deque[Frame] = deque()
        # Definitions for all workers that were received, and the errors of those that failed.
        self._sequence = 0
        self._undefined: dict[int, BaseException] = {}
        # Tasks computed in the background; those that are done; a pipe that wakes the loop.
        self._futures: dict[int, Any] = {}
        self._done: deque[int] = deque()
        self._wake: tuple[int, int] | None = None
        self._handle: Callable[[Any], Any] = _not_started
        self._warned = False

    def start(self, job_fd: int, setup_bytes: int) -> None:
        """Load the job; on failure, report the error to the pool and exit."""
        where = "worker_init_fn"
        try:
            setup = job_file.read(job_fd, setup_bytes)
            sys.path[:] = setup.path
            sys.argv[:] = setup.argv
            if setup.init is not None:
                setup.load_init()(self._index, self._count)
            where = "unpickling the job"
            job = setup.load_job()
            where = "starting the job"
            set_in_worker()
            install_own_slots(self._channel.slots)
            allocation.install_allocator(self._channel.slots.allocate)
            self._handle = job.start(self._index, self._count)
            if self._memory is not None:
                self._memory.require_room()
            self._page.set_loaded()
        except BaseException as error:
            self._send_error(0, error, f"worker {self._index} of {self._count}, {where}")
            raise EOFError from None

    def serve(self) -> None:
        """Compute task after task; raise EOFError when the pool closes its end."""
        while True:
            frame = self._next_frame()
            if frame.kind != FrameKind.TASK:
                self._change_parts(frame)
                continue
            ticket = frame.ticket
            self._current[0] = ticket
            if ticket in self._cancelled:
                self._channel.drop(frame)
                self._channel.send_all(FrameKind.SKIPPED, ticket, _NOTHING)
            else:
                self._compute(frame)
            self._current[0] = 0
            if self._memory is not None and not self._futures:
                self._check_memory()

    def _compute(self, frame: Frame) -> None:
        # No local may outlive this function: a reference to an array would keep its slot.
        try:
            task = self._channel.decode(frame)
            if self._undefined:
                self._require_defined(task)
            value = self._handle(task)
            # Such an object exists only if its module was imported, which takes time.
            futures = sys.modules.get("concurrent.futures._base")
            if futures is not None and isinstance(value, futures.Future):
                self._compute_in_background(frame.ticket, value)
                return
            pickled = self._dump(value)
        except BaseException as error:
            self._send_error(frame.ticket, error, f"worker {self._index} of {self._count}")
        else:
            self._send_result(frame.ticket, pickled)

    def _send_result(self, ticket: int, pickled: array_pickling.Pickled) -> None:
        self._channel.send_all(FrameKind.RESULT, ticket, pickled)
        failure = self._channel.slots.failure or self._channel.views.failure
        if failure is not None and not self._warned:
            self._warned = True
            text = explain_failure(failure)
            self._channel.send_all(FrameKind.WARNING, 0, array_pickling.dumps_by_value(text))

    def _next_frame(self) -> Frame:
        while True:
            if self._futures:
                self._send_finished()
            # Messages for this worker alone come first; among them, that the pool was closed.
            self._queue.extend(self._channel.receive())
            if self._queue:
                return self._queue.popleft()
            # Whether a worker that is lost here had a task already cannot be seen from outside.
            self._current[0] = TAKING
            try:
                data = self._tasks.recv(MAX_DATAGRAM)
            except BlockingIOError:
                self._current[0] = 0
                self._poll.poll()
                continue
            if not data:
                raise EOFError
            frame = framing.parse(memoryview(bytearray(data)), own=True)[0]
            self._current[0] = frame.ticket
            if frame.sequence > self._sequence:
                self._receive_definitions(frame.sequence)
            return frame

    def _check_memory(self) -> None:
        """Exit if this process has grown beyond its limit; it has no task, so nothing is lost."""
        assert self._memory is not None
        reason = self._memory.exceeded()
        if reason is not None:
            text = array_pickling.dumps_by_value(reason)
            self._channel.send_all(FrameKind.RETIRE, 0, text)
            raise EOFError

    # Definitions

    def _receive_definitions(self, sequence: int) -> None:
        """Wait for definitions that were sent before a task which has overtaken them."""
        arrived = select.poll()
        arrived.register(self._channel.socket, select.POLLIN)
        while True:
            # Tasks in the queue keep their order; a new part may precede them, since none of them uses it.
            later: deque[Frame] = deque()
            for frame in self._queue:
                if frame.kind == FrameKind.DEFINE:
                    self._change_parts(frame)
                else:
                    later.append(frame)
            self._queue = later
            if self._sequence >= sequence:
                return
            arrived.poll()
            self._queue.extend(self._channel.receive())

    def _change_parts(self, frame: Frame) -> None:
        number = frame.ticket
        self._sequence = max(self._sequence, frame.sequence)
        self._undefined.pop(number, None)
        part = bytes(self._channel.open(frame)[0])
        try:
            if frame.kind == FrameKind.RELEASE:
                self._handle((number, "release"))
            elif part:
                self._handle((number, "define", part))
        except BaseException as error:
            self._undefined[number] = error

    def _require_defined(self, task: Any) -> None:
        if isinstance(task, tuple) and task and isinstance(task[0], int):
            error = self._undefined.get(task[0])
            if error is not None:
                raise error

    # Tasks in the background

    def _compute_in_background(self, ticket: int, future: Any) -> None:
        if self._wake is None:
            self._wake = os.pipe()
            for fd in self._wake:
                os.set_blocking(fd, False)
            self._poll.register(self._wake[0], select.POLLIN)
        wake, done = self._wake[1], self._done
        self._futures[ticket] = future
        self._channel.send_all(FrameKind.ACCEPTED, ticket, _NOTHING)

        def finish(_: object) -> None:  # in any thread
            done.append(ticket)
            with contextlib.suppress(BlockingIOError):  # full: the loop wakes anyway
                os.write(wake, b"x")

        future.add_done_callback(finish)

    def _send_finished(self) -> None:
        """Send the results of futures that are done, and cancel those that were discarded."""
        assert self._wake is not None
        for ticket in [ticket for ticket in self._futures if ticket in self._cancelled]:
            self._futures[ticket].cancel()
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake[0], 1 << 16)
        while self._done:
            ticket = self._done.popleft()
            self._finish_future(ticket, self._futures.pop(ticket))

    def _finish_future(self, ticket: int, future: Any) -> None:
        # No local may outlive this function, as in `_compute`.
        if ticket in self._cancelled:
            self._channel.send_all(FrameKind.SKIPPED, ticket, _NOTHING)
            return
        try:
            pickled = self._dump(future.result())
        except BaseException as error:
            self._send_error(ticket, error, f"worker {self._index} of {self._count}")
        else:
            self._send_result(ticket, pickled)

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


def _report_stack_to(page_fd: int) -> None:
    """Write the stacks of all threads into the file of the page at `STACK_SIGNAL`, even inside C code."""
    os.lseek(page_fd, STACK_OFFSET, os.SEEK_SET)
    if STACK_SIGNAL is not None:
        faulthandler.register(STACK_SIGNAL, page_fd, all_threads=True)


def _poll_of(own: int, shared: int) -> Any:
    """Return a poll object for both sockets; `shared` wakes one of the waiting workers."""
    if hasattr(select, "EPOLLEXCLUSIVE"):
        poll = select.epoll()
        poll.register(own, select.EPOLLIN)
        poll.register(shared, select.EPOLLIN | select.EPOLLEXCLUSIVE)
        return poll
    plain = select.poll()
    plain.register(own, select.POLLIN)
    plain.register(shared, select.POLLIN)
    return plain
