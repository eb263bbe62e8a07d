"""A process that this process started: whether it runs, its exit code, signals to it.

Where the system has process descriptors (Linux), an exit wakes a poll, and a signal can never reach
another process that has received the same number.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable


class ProcessHandle:
    """A process that this process, or a child of it, has started.

    Args:
        pid: Process id.
        fd: Process descriptor, owned by this object; -1 where the system has none.
        collect: Returns whether the process has exited, and its exit code if it is known.
        forget: Called when the process is abandoned.

    Attributes:
        pid: Process id.
        fd: Descriptor that is readable once the process has exited; -1 where the system has none.
        exited: Whether the process was seen to have exited.
        returncode: Exit status; -N if signal N ended the process; None while it runs and when the
            status is unknown because another part of the program, or the system, has collected it.
    """

    def __init__(
        self,
        pid: int,
        fd: int,
        collect: Callable[[], tuple[bool, int | None]],
        forget: Callable[[], None] = lambda: None,
    ) -> None:
        self.pid = pid
        self.fd = fd
        self.exited = False
        self.returncode: int | None = None
        self._collect = collect
        self._forget = forget
        self._lock = threading.Lock()

    def poll(self) -> bool:
        """Return whether the process has exited."""
        if self.exited:
            return True
        if self.fd >= 0 and not _readable(self.fd, 0):
            return False
        with self._lock:
            if not self.exited:
                exited, self.returncode = self._collect()
                self.exited = exited
        return self.exited

    def wait(self, seconds: float) -> bool:
        """Wait for the exit; return whether the process has exited."""
        deadline = time.monotonic() + seconds
        delay = 0.0005
        while not self.poll():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            if self.fd >= 0:
                _readable(self.fd, min(remaining, 3600.0))
            else:
                delay = min(2 * delay, 0.05, remaining)
                time.sleep(delay)
        return True

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has exited."""
        if self.poll():
            return
        with contextlib.suppress(ProcessLookupError):
            if self.fd >= 0:
                signal.pidfd_send_signal(self.fd, number)
            else:
                os.kill(self.pid, number)

    def close(self) -> None:
        """Close the descriptor; the process must have exited."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def abandon(self) -> None:
        """Drop the process without disturbing it, in a fork of its parent."""
        self._forget()
        self.exited = True
        self.close()


class Spawned:
    """A direct child: how its exit code is collected.

    Args:
        popen: The process, just started.
    """

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen

    def handle(self) -> ProcessHandle:
        """Return the handle of the process."""
        try:
            fd = os.pidfd_open(self._popen.pid)
        except (AttributeError, OSError):
            fd = -1
        return ProcessHandle(self._popen.pid, fd, self.collect, self.forget)

    def collect(self) -> tuple[bool, int | None]:
        """Return whether the process has exited, and its exit code if it is known."""
        try:
            found = os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            # SIGCHLD is ignored, or another wait was faster. The status is lost.
            self._popen.returncode = 0
            return True, None
        if found is None:
            return False, None
        code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        self._popen.returncode = code  # keeps Popen from warning
        return True, code

    def forget(self) -> None:
        """Keep Popen from warning, in a fork whose child the process is not."""
        self._popen.returncode = 0


def _readable(fd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
