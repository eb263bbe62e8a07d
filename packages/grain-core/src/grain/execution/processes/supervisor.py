"""The worker processes of one pool: start, supervision, shutdown.

Workers are new interpreters, not forks, since the parent may have threads. They receive the parent's
`sys.path` and never run the user's `__main__` again. Starting returns before the workers are up: a worker
that cannot start sends an error with ticket 0, dies, or exceeds the setting `process_start_timeout`; the
pool finds out while it waits.

Shutdown is safe to interrupt and to repeat: closing the channels lets idle workers exit, then SIGTERM and
SIGKILL follow, each after a grace period. A fork of the parent abandons the workers without disturbing
them.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator

from grain._config import config
from grain.execution.processes import job_file, segments
from grain.execution.processes.array_pickling import Pickled
from grain.execution.processes.bootstrap_guard import require_started
from grain.execution.processes.channel import Channel
from grain.execution.processes.control import CancelledTickets, WorkerPage, control_size

# `sys.path` must be complete before the first import, so this uses builtin modules only. Imported objects
# stay alive: garbage collection during the imports would take up to a tenth of the start-up time.
_BOOTSTRAP = (
    "import gc, marshal, os, sys;"
    "gc.disable();"
    "given = [int(word) for word in sys.argv[2:]];"
    "sys.path[:] = marshal.loads(os.pread(given[0], given[1], 0))[0];"
    "from grain.execution.processes.worker import main;"
    "main(*given)"
)

# Accelerators belong to the training process; a worker that initialised one would take its memory.
_NO_DEVICES = {
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
    "ROCR_VISIBLE_DEVICES": "",
}
# OpenBLAS threads spin while they wait, from the moment numpy is imported, which makes the start of two
# workers on two processors 1.5 times slower. With this timeout they sleep.
_NO_SPINNING = {"OPENBLAS_THREAD_TIMEOUT": "4"}
_SOCKET_BYTES = 1 << 20


class WorkerProcesses:
    """Running workers, one channel to each, and one queue of tasks for all of them.

    `end`, which is also called when the interpreter exits, leaves no process and no descriptor behind.

    Args:
        job: Pickled job, which every worker loads.
        init: Pickled `worker_init_fn`, if there is one.
        count: Number of workers.
        budget: Most bytes of slots per worker and direction.
        grace: Seconds that a worker has to exit by itself, and again after SIGTERM.
    """

    def __init__(
        self, job: Pickled, init: Pickled | None, *, count: int, budget: int, grace: float
    ) -> None:
        _require_posix()
        require_started()
        self.count = count
        self.channels: list[Channel] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.pages: list[WorkerPage] = []
        self.cancelled: CancelledTickets | None = None
        self.started = time.monotonic()
        self._grace = grace
        self._owner = os.getpid()
        self.ended = False
        self._ending = threading.Lock()
        self._open: contextlib.ExitStack = contextlib.ExitStack()
        _all_workers.add(self)
        try:
            self._start(job, init, budget)
        except BaseException:
            self.end()
            raise

    def _start(self, job: Pickled, init: Pickled | None, budget: int) -> None:
        with (
            contextlib.ExitStack() as inherited
        ):  # closed in the parent once every worker has a copy
            job_fd, setup_bytes = job_file.write(job, init)
            inherited.callback(os.close, job_fd)
            control_fd = segments.unnamed_file(control_size(self.count))
            inherited.callback(os.close, control_fd)
            control = segments.map_shared(control_fd, control_size(self.count))
            self.pages = [WorkerPage(control, index) for index in range(self.count)]
            self.cancelled = CancelledTickets(control)
            life_fd, hold_fd = os.pipe()
            inherited.callback(os.close, life_fd)
            self._open.callback(os.close, hold_fd)
            self.tasks, tasks_out = socket.socketpair(socket.AF_UNIX, _PACKETS)
            self._open.callback(self.tasks.close)
            inherited.callback(tasks_out.close)
            self.tasks.setblocking(False)
            self.tasks.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
            environment = _environment()
            with _sigint_blocked():
                for index, page in enumerate(self.pages):
                    ours, theirs = socket.socketpair()
                    channel = Channel(
                        ours, sending=page.tasks, receiving=page.results, budget=budget
                    )
                    self.channels.append(channel)
                    self._open.callback(channel.close)
                    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
                    with theirs:
                        fds = (theirs.fileno(), tasks_out.fileno(), life_fd, control_fd)
                        words = (job_fd, setup_bytes, index, self.count, *fds, budget)
                        self.processes.append(
                            subprocess.Popen(
                                [*_interpreter(), "grain-worker", *map(str, words)],
                                stdin=subprocess.DEVNULL,
                                pass_fds=(job_fd, *fds),
                                env=environment,
                            )
                        )

    @property
    def ours(self) -> bool:
        """False in a fork of the process that started the workers."""
        return os.getpid() == self._owner

    def exit_code(self, worker: int, timeout: float) -> int | None:
        """Return the exit code of a worker (-N: signal N), or None if it runs after `timeout` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.processes[worker].wait(timeout)
        return None

    def find_dead(self) -> int | None:
        """Return the index of a worker that has exited, if one has."""
        for index, process in enumerate(self.processes):
            if process.poll() is not None:
                return index
        return None

    def find_not_started(self) -> int | None:
        """Return the index of a worker whose interpreter is still starting, if there is one."""
        return next((index for index, page in enumerate(self.pages) if not page.running), None)

    def close_channels(self) -> None:
        """Let all workers exit, and wake threads that poll a socket of theirs."""
        for channel in self.channels:
            with contextlib.suppress(OSError):
                channel.socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End all workers and wait until they have exited. Idempotent."""
        if not self.ours:
            return
        with self._ending:
            if self.ended:
                return
            try:
                self.ended = True
                _all_workers.discard(self)
                self.close_channels()
                self._signal_starting()
                self._wait(self._grace)
                self._signal(signal.SIGTERM)
                self._wait(self._grace)
            finally:  # also after an interrupt of the wait
                try:
                    self._signal(signal.SIGKILL)
                    for process in self.processes:
                        process.wait()
                finally:
                    self._open.close()

    def release_shared_memory(self) -> None:
        """Drop the memory shared with the workers, once they have exited.

        Arrays that were received keep their own references, so that holding this object holds no memory.
        """
        with self._ending:
            self.channels = []
            self.pages = []
            self.cancelled = None

    def abandon(self) -> None:
        """Drop everything without disturbing the workers, in a fork of the process that owns them."""
        self.ended = True
        for process in self.processes:
            process.returncode = 0  # not a child of this process; keeps Popen from warning
        self._open.close()

    def _signal_starting(self) -> None:
        """Terminate workers whose interpreter is still starting: they would notice closed channels late."""
        for process, page in zip(self.processes, self.pages, strict=False):
            if not page.running and process.poll() is None:
                process.terminate()

    def _signal(self, number: int) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for process in self.processes:
            if not _wait_for(process, max(0.0, deadline - time.monotonic())):
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


def _require_posix() -> None:
    if os.name != "posix":
        raise RuntimeError(
            f"Worker processes need a POSIX system, and this is {sys.platform}. Use threads: "
            "`to_iter_dataset(grain.ReadOptions(num_threads=...))`."
        )
    if not sys.executable:
        raise RuntimeError(
            "Worker processes need a Python interpreter, and sys.executable is empty. "
            "Set it to the path of one."
        )


def _interpreter() -> list[str]:
    # multiprocessing uses the same function to pass on -W, -X, -O and similar flags.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-c", _BOOTSTRAP]


def _environment() -> dict[str, str]:
    environment = {**_NO_SPINNING, **os.environ}
    if not config.worker_keep_devices:
        environment.update(_NO_DEVICES)
    return environment


@contextlib.contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT for workers started in the `with` block, until they set up their handling."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_for(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Return whether the process exits within the time; faster than the polling of `Popen.wait`."""
    if process.poll() is not None:
        return True
    try:
        fd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.poll() is not None
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(seconds * 1000)
    finally:
        os.close(fd)
    return process.poll() is not None
