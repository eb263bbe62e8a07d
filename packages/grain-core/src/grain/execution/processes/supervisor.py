"""The worker processes of one pool: how they are started, watched and ended.

Workers are new interpreters, not forks, since the starting process may have threads. They are told
what to import by `sys.path` alone: the user's `__main__` is never run again.
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

from grain.execution.processes import job_file, segments
from grain.execution.processes.array_pickling import Pickled
from grain.execution.processes.bootstrap_guard import require_started
from grain.execution.processes.channel import Channel
from grain.execution.processes.control import Cancelled, WorkerPage, control_size

# The path must be complete before the first import, and only builtin modules are needed for that.
# What is imported stays: to look for garbage among it meanwhile takes up to a tenth of the time.
_BOOTSTRAP = (
    "import gc, marshal, os, sys;"
    "gc.disable();"
    "given = [int(word) for word in sys.argv[2:]];"
    "sys.path[:] = marshal.loads(os.pread(given[0], given[1], 0))[0];"
    "from grain.execution.processes.worker import main;"
    "main(*given)"
)

# Accelerators belong to the training process; a worker that touched one would take its memory.
_NO_DEVICES = {
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
    "ROCR_VISIBLE_DEVICES": "",
}
# Threads of numpy's linear algebra wait for work by running in circles, from the moment numpy is
# imported: two workers on two processors then take half as long again to start. So they sleep.
_NO_SPINNING = {"OPENBLAS_THREAD_TIMEOUT": "4"}
_SOCKET_BYTES = 1 << 20


class WorkerProcesses:
    """Running workers, one channel to each, and one queue of tasks that any of them may take.

    `end` (also called when the interpreter exits) leaves no process and no descriptor behind.
    `grace` is how many seconds a worker is given to finish by itself, and again after SIGTERM.
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
        self.cancelled: Cancelled | None = None
        self._grace = grace
        self._owner = os.getpid()
        self.ended = False
        self._ending = threading.Lock()
        self._open: contextlib.ExitStack = contextlib.ExitStack()
        _crews.add(self)
        try:
            self._start(job, init, budget)
        except BaseException:
            self.end()
            raise

    def _start(self, job: Pickled, init: Pickled | None, budget: int) -> None:
        with contextlib.ExitStack() as inherited:  # closed here once every worker has its copy
            job_fd, setup_bytes = job_file.write(job, init)
            inherited.callback(os.close, job_fd)
            control_fd = segments.unnamed_file(control_size(self.count))
            inherited.callback(os.close, control_fd)
            control = segments.map_shared(control_fd, control_size(self.count))
            self.pages = [WorkerPage(control, index) for index in range(self.count)]
            self.cancelled = Cancelled(control)
            life_fd, hold_fd = os.pipe()
            inherited.callback(os.close, life_fd)
            self._open.callback(os.close, hold_fd)
            self.tasks, tasks_out = socket.socketpair(socket.AF_UNIX, _PACKETS)
            self._open.callback(self.tasks.close)
            inherited.callback(tasks_out.close)
            self.tasks.setblocking(False)
            self.tasks.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
            environment = _environment()
            with _sigint_held():
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
        """How a worker ended (-N: by signal N), or None if it has not within `timeout` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.processes[worker].wait(timeout)
        return None

    def find_dead(self) -> int | None:
        """A worker that has ended, if one has."""
        for index, process in enumerate(self.processes):
            if process.poll() is not None:
                return index
        return None

    def close_channels(self) -> None:
        """Tells all workers to finish; whoever waits for a socket of this crew wakes up."""
        for channel in self.channels:
            with contextlib.suppress(OSError):
                channel.socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Ends all workers, and waits until they have ended. Safe to call again."""
        if not self.ours:
            return
        with self._ending:
            if self.ended:
                return
            try:
                self.ended = True
                _crews.discard(self)
                self.close_channels()
                self._signal_starting()
                self._wait(self._grace)
                self._signal(signal.SIGTERM)
                self._wait(self._grace)
            finally:  # also when interrupted while waiting
                try:
                    self._signal(signal.SIGKILL)
                    for process in self.processes:
                        process.wait()
                finally:
                    self._open.close()

    def release_shared_memory(self) -> None:
        """Forgets the memory that was common with the workers, once they have ended.

        Arrays that were received keep theirs, and who still holds the crew holds nothing more.
        """
        with self._ending:
            self.channels = []
            self.pages = []
            self.cancelled = None

    def abandon(self) -> None:
        """In a fork of the process that owns the crew: drops everything, disturbs nothing."""
        self.ended = True
        for process in self.processes:
            process.returncode = 0  # not our child; keeps Popen from complaining
        self._open.close()

    def _signal_starting(self) -> None:
        """Ends workers whose interpreter is still starting: they would notice too late."""
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


_crews: weakref.WeakSet[WorkerProcesses] = weakref.WeakSet()


def _abandon_all() -> None:
    for crew in list(_crews):
        crew.abandon()
    _crews.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)

# Message boundaries are kept, and a message goes to exactly one of the processes that read.
_PACKETS = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM


def _require_posix() -> None:
    if os.name != "posix":
        raise RuntimeError(
            f"Worker processes need a POSIX system, this is {sys.platform}. Use threads instead."
        )
    if not sys.executable:
        raise RuntimeError(
            "Worker processes need a Python interpreter to run, and sys.executable is empty. "
            "Set it to the path of one."
        )


def _interpreter() -> list[str]:
    # The same function that multiprocessing uses to carry -W, -X, -O and the like over.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return [sys.executable, *flags, "-c", _BOOTSTRAP]


def _environment() -> dict[str, str]:
    environment = {**_NO_SPINNING, **os.environ}
    if environment.get("GRAIN_WORKER_KEEP_DEVICES", "0") in ("", "0"):
        environment.update(_NO_DEVICES)
    return environment


@contextlib.contextmanager
def _sigint_held() -> Iterator[None]:
    """Processes started in here are deaf to Ctrl-C until they have set up their own handling."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait_for(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process ended within the time; without the growing naps of `Popen.wait`."""
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
