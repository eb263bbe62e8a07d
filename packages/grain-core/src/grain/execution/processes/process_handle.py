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


class ProcessHandle:
    """A child process.

    Args:
        popen: The process, just started.

    Attributes:
        pid: Process id.
        fd: Descriptor that is readable once the process has exited; -1 where the system has none.
        exited: Whether the process was seen to have exited.
        returncode: Exit status; -N if signal N ended the process; None while it runs and when the
            status is unknown because another part of the program, or the system, has collected it.
    """

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.pid = popen.pid
        self.exited = False
        self.returncode: int | None = None
        self._popen = popen
        self._lock = threading.Lock()
        try:
            self.fd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            self.fd = -1

    def poll(self) -> bool:
        """Return whether the process has exited."""
        if self.exited:
            return True
        with self._lock:
            if not self.exited:
                self._collect()
        return self.exited

    def _collect(self) -> None:
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            # SIGCHLD is ignored, or another wait was faster. The status is lost.
            self._popen.returncode = 0
            self.exited = True
            return
        if found is not None:
            status = found.si_status
            code = status if found.si_code == os.CLD_EXITED else -status
            self._popen.returncode = code  # keeps Popen from warning
            self.returncode = code
            self.exited = True

    def wait(self, seconds: float) -> bool:
        """Wait for the exit; return whether the process has exited."""
        deadline = time.monotonic() + seconds
        delay = 0.0005
        while not self.poll():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            if self.fd >= 0:
                poll = select.poll()
                poll.register(self.fd, select.POLLIN)
                poll.poll(min(remaining, 3600.0) * 1000)
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
        self._popen.returncode = 0  # not a child of this process; keeps Popen from warning
        self.exited = True
        self.close()
