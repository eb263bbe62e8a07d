"""The worker processes of one pool: start, supervision, shutdown.

Workers are not forks of this process, which may have threads. Where the system allows, a template process (a
new interpreter, shared by all pools) imports what workers need and forks them; otherwise each worker is a new
interpreter. They receive the parent's `sys.path` and never run the user's `__main__` again. Starting returns
before the workers have loaded their job: a worker that cannot start sends an error with ticket 0, dies, or
exceeds the setting `process_start_timeout`; the pool finds out while it waits.

Shutdown is safe to interrupt and to repeat: closing the channels lets idle workers exit, then SIGTERM and
SIGKILL follow, each after a grace period. A fork of the parent abandons the workers without disturbing
them.
"""

from __future__ import annotations

import _thread
import contextlib
import math
import os
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import NamedTuple

from grain._policy import current_policy
from grain.execution.processes import job_file, segments
from grain.execution.processes.array_pickling import Pickled
from grain.execution.processes.bootstrap_guard import require_started
from grain.execution.processes.channel import Channel
from grain.execution.processes.control import PAGE_BYTES, RING_BYTES, CancelledTickets, WorkerPage
from grain.execution.processes.interpreter import (
    require_interpreter,
    standard_descriptors_taken,
    start_python,
)
from grain.execution.processes.local_worker import LocalWorker
from grain.execution.processes.process_handle import ProcessHandle, Spawned
from grain.execution.processes.template_client import (
    Template,
    acquire_template,
    any_lock_held,
    can_fork_workers,
    modules_to_preload,
    release_template,
)
from grain.execution.processes.uninterrupted import run_uninterrupted

_SOCKET_BYTES = 1 << 20


class _Launch(NamedTuple):
    """A worker that is being started.

    Attributes:
        wait: Waits until the process exists.
        cancel: Closes the descriptors of a worker that was not waited for.
    """

    wait: Callable[[], None]
    cancel: Callable[[], None]


class WorkerProcesses:
    """Running workers, and one queue of tasks for all of them.

    `end`, which is also called when the interpreter exits, leaves no worker and no descriptor behind.

    Args:
        job: Pickled job, which every worker loads.
        init: Pickled `worker_init_fn`, if there is one.
        count: Number of workers at first.
        budget: Most bytes of slots per worker and direction.
        grace: Seconds that a worker has to exit by itself, and again after SIGTERM.
        memory_limit: Resident bytes at which a worker exits between two tasks; 0 for no limit.

    Attributes:
        count: Number of workers that should run.
        workers: The workers by index; one that has exited and was not replaced is among them.
        cancelled: Tickets that workers skip.
        tasks: Sends tasks that any worker may take.
        untaken: Receives tasks that no worker has taken.
        exited: The processes, once the shared memory was released.
    """

    def __init__(
        self,
        job: Pickled,
        init: Pickled | None,
        *,
        count: int,
        budget: int,
        grace: float,
        memory_limit: int = 0,
    ) -> None:
        require_interpreter()
        require_started()
        self.count = count
        self.workers: dict[int, LocalWorker] = {}
        self.exited: list[ProcessHandle] = []
        self._set_aside: list[LocalWorker] = []
        self._dying: list[ProcessHandle] = []
        self.ended = False
        self._budget = budget
        self._grace = grace
        self._memory_limit = memory_limit
        self._owner = os.getpid()
        # Held while a process is started or all are ended. Interrupts do not strike where it is held to
        # start a process.
        self._changing = threading.Lock()
        self._releasing = threading.Lock()
        self._open: contextlib.ExitStack = contextlib.ExitStack()
        # A template that is lost is replaced, but not for ever: it may not be able to run here.
        self._templates_left = 3 if current_policy().fork_workers and can_fork_workers() else 0
        self._template: Template | None = None
        _all_workers.add(self)
        try:
            run_uninterrupted(lambda: self._start_all(job, init))
        except BaseException:
            self.end()
            raise

    def _start_all(self, job: Pickled, init: Pickled | None) -> None:
        with self._changing:
            if self.ended:
                return
            with standard_descriptors_taken():
                self._job_fd, self._setup_bytes = job_file.write(job, init)
                self._open.callback(os.close, self._job_fd)
                self._cancelled_fd = segments.unnamed_file(RING_BYTES)
                self._open.callback(os.close, self._cancelled_fd)
                memory = segments.map_shared(self._cancelled_fd, RING_BYTES)
                self.cancelled: CancelledTickets | None = CancelledTickets(memory)
                self._life_fd, hold_fd = os.pipe()
                self._open.callback(os.close, self._life_fd)
                self._open.callback(os.close, hold_fd)
                self.tasks, self.untaken = socket.socketpair(socket.AF_UNIX, _PACKETS)
                self._open.callback(self.tasks.close)
                self._open.callback(self.untaken.close)
                self.tasks.setblocking(False)
                self.tasks.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
            self._preload = modules_to_preload(job.stream)
            self._start_template()
            launched: list[_Launch] = []
            try:
                for index in range(self.count):
                    launched.append(self._launch(index))
                while launched:
                    launched.pop(0).wait()
            finally:
                for launch in launched:
                    launch.cancel()

    def start(self, index: int) -> LocalWorker:
        """Start a worker, in place of one that was closed or in addition; raise OSError on failure."""

        def launch() -> None:
            with self._changing:
                if not self.ended:
                    self._launch(index).wait()

        run_uninterrupted(launch)
        return self.workers[index]

    def _start_template(self) -> None:
        """Find or start the process that forks workers, without waiting for it."""
        if self._template is not None or not self._templates_left:
            return
        self._templates_left -= 1
        self._template = acquire_template()
        try:
            self._template.import_modules(self._preload)
        except OSError:
            self._end_template(lost=True)

    def _launch(self, index: int) -> _Launch:
        """Start a worker, without waiting for the process."""
        words = (index, self.count, self._budget, self._memory_limit)
        with contextlib.ExitStack() as opened, standard_descriptors_taken():
            page_fd = segments.unnamed_file(PAGE_BYTES)
            opened.callback(os.close, page_fd)
            page = WorkerPage(segments.map_shared(page_fd, PAGE_BYTES))
            ours, theirs = socket.socketpair()
            opened.callback(ours.close)
            opened.callback(theirs.close)
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
            fds = (
                *(self.untaken.fileno(), self._life_fd, self._cancelled_fd),
                *(page_fd, theirs.fileno()),
            )
            request: int | None = None
            if self._template is not None:
                try:
                    request = self._template.request_fork(
                        (self._setup_bytes, *words), (self._job_fd, *fds)
                    )
                except OSError:
                    self._end_template(lost=True)
            kept = opened.pop_all()

        def wait_for_process() -> None:
            with kept:
                process = self._forked(request)
                if process is None:
                    setup = (self._job_fd, self._setup_bytes)
                    popen = start_python("worker", setup, [*words, *fds], fds)
                    process = Spawned(popen).handle()
                    with contextlib.suppress(OSError):
                        self._start_template()  # for the next worker
                channel = Channel(
                    ours, sending=page.tasks, receiving=page.results, budget=self._budget
                )
                self.workers[index] = LocalWorker(index, process, channel, page, page_fd)
                kept.pop_all()
                theirs.close()

        return _Launch(wait_for_process, kept.close)

    def _forked(self, request: int | None) -> ProcessHandle | None:
        """Return the process that the template has forked; None if it could not."""
        template = self._template
        if template is None or request is None:
            return None
        try:
            pid, fd = template.receive_fork(request)
        except OSError:
            self._end_template(lost=True)
            return None
        return ProcessHandle(pid, fd, lambda: template.status(pid))

    def _end_template(self, *, lost: bool = False) -> None:
        """Continue without the template: workers that it has forked stay."""
        template, self._template = self._template, None
        if template is not None:
            release_template(template, lost=lost)

    @property
    def ours(self) -> bool:
        """False in a fork of the process that started the workers."""
        return os.getpid() == self._owner

    @property
    def live(self) -> list[LocalWorker]:
        """Workers that were not found to have exited."""
        return [w for w in (*self.workers.values(), *self._set_aside) if not w.lost]

    @property
    def handles(self) -> list[ProcessHandle]:
        """The processes of the workers by index, also after the shared memory was released."""
        return [worker.process for _, worker in sorted(self.workers.items())] or self.exited

    def set_aside(self, worker: LocalWorker) -> None:
        """Make the index of a worker free, while the worker finishes its current task."""
        self._set_aside.append(self.workers.pop(worker.index))

    def put_away(self, worker: LocalWorker) -> None:
        """Drop a worker that has exited, or that was killed and is about to."""

        def close() -> None:
            with self._releasing:
                worker.close()

        run_uninterrupted(close)
        self._set_aside = [other for other in self._set_aside if other is not worker]
        self._dying = [process for process in self._dying if not process.poll()]
        if not worker.process.poll():
            self._dying.append(worker.process)

    def close_channels(self) -> None:
        """Let all workers exit, and wake threads that poll a socket of theirs."""
        for worker in self.live:
            with contextlib.suppress(OSError):
                worker.channel.socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End all workers and wait until they have exited. Idempotent."""
        if not self.ours:
            return
        self.ended = True  # No worker is started from now on.
        with self._changing:
            try:
                _all_workers.discard(self)
                self.close_channels()
                self._signal_starting()
                self._wait(self._grace)
                self._signal(signal.SIGTERM)
                self._wait(self._grace)
            finally:  # also after an interrupt of the wait
                try:
                    self._signal(signal.SIGKILL)
                    self._wait(math.inf)
                finally:  # What a second interrupt has left is for the next call.
                    run_uninterrupted(self._release_exited)

    def end_when_collected(self) -> None:
        """End all workers, as a finalizer, which garbage collection calls in any thread at any time.

        A thread that holds a lock of the template cannot wait for what needs that lock, so another thread
        ends the workers then. The same holds after an interrupt, since a finalizer is called only once.
        """
        try:
            if not any_lock_held():
                run_uninterrupted(self.end)
                return
        except KeyboardInterrupt:
            _thread.start_new_thread(self.end, ())
            raise
        try:
            _thread.start_new_thread(self.end, ())
        except RuntimeError:  # An exiting interpreter refuses threads.
            self.end()

    def _release_exited(self) -> None:
        """Close the descriptors of workers that have exited, and all others with the last worker."""
        with self._releasing:
            for worker in self.live:
                if worker.process.exited:
                    worker.close()
            if not self.live:
                self._end_template()
                self._open.close()

    def release_shared_memory(self) -> None:
        """Drop the memory shared with the workers, once they have exited.

        Arrays that were received keep their own references, so that holding this object holds no memory.
        """
        with self._changing:
            self.exited = self.handles
            self.workers = {}
            self.cancelled = None

    def abandon(self) -> None:
        """Drop everything without disturbing the workers, in a fork of the process that owns them."""
        self.ended = True
        for worker in self.live:
            worker.process.abandon()
            worker.close()
        self._open.close()

    def _signal_starting(self) -> None:
        """Terminate workers whose interpreter is still starting: they would notice closed channels late."""
        for worker in self.live:
            if not worker.page.running:
                worker.process.send_signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        for worker in self.live:
            worker.process.send_signal(number)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for process in [*self._dying, *(worker.process for worker in self.live)]:
            if not process.wait(max(0.0, deadline - time.monotonic())):
                return


_all_workers: weakref.WeakSet[WorkerProcesses] = weakref.WeakSet()


def _abandon_all() -> None:
    for workers in list(_all_workers):
        workers.abandon()
    _all_workers.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)

# Message boundaries are kept, and each message is received by exactly one of the reading processes.
_PACKETS = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM
