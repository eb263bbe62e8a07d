"""The pool's side of the process that forks workers."""

from __future__ import annotations

import contextlib
import itertools
import marshal
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from grain.execution.processes.template import FORK, MAX_MESSAGE, RUNNING, STATUS, UNKNOWN

_OUR_MODULES = re.compile(rb"grain(?:\.[a-z_]+)+")
_SECONDS_TO_ANSWER = 60.0


def can_fork_workers() -> bool:
    """Return whether the system has what is needed: Linux, with process descriptors."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def modules_to_preload(pickled: bytes) -> str:
    """Return the modules of this library that a pickle mentions, separated by commas."""
    found = {match.decode() for match in _OUR_MODULES.findall(pickled)}
    return ",".join(sorted(name for name in found if name in sys.modules))


class TemplateLostError(OSError):
    """The process that forks workers does not answer."""


class Template:
    """A process that forks workers.

    Args:
        start: Starts the process; is given the descriptor of its end of the connection.
        timeout: Seconds until it must have imported its modules.
    """

    def __init__(self, start: Callable[[int], subprocess.Popen[bytes]], timeout: float) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as opened:
            opened.callback(self._control.close)
            self._popen = start(theirs.fileno())
            opened.pop_all()
        self._timeout = timeout
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def request_fork(self, words: tuple[int, ...], fds: list[int]) -> int:
        """Request a fork; return the number of the request."""
        with self._lock:
            return self._request(FORK, words, fds)

    def receive_fork(self, number: int) -> tuple[int, int]:
        """Wait for a fork; return the process id and process descriptor."""
        with self._lock:
            return self._answer(number, self._timeout)

    def status(self, pid: int) -> tuple[bool, int | None]:
        """Return whether a worker has exited, and its exit code if it is known."""
        try:
            with self._lock:
                status, _ = self._answer(self._request(STATUS, pid, []), _SECONDS_TO_ANSWER)
        except OSError:
            return True, None
        return status != RUNNING, None if status in (RUNNING, UNKNOWN) else status

    def _request(self, kind: int, words: Any, fds: list[int]) -> int:
        number = next(self._numbers)
        socket.send_fds(self._control, [marshal.dumps((number, kind, words))], fds)
        return number

    def _answer(self, number: int, seconds: float) -> tuple[Any, int]:
        deadline = time.monotonic() + seconds
        while True:
            self._control.settimeout(max(0.001, deadline - time.monotonic()))
            data, fds, _, _ = socket.recv_fds(self._control, MAX_MESSAGE, 1)
            if not data:
                raise TemplateLostError("the process that starts workers has exited")
            found, answer = marshal.loads(data)
            if found == number:
                return answer, fds[0] if fds else -1
            for fd in fds:  # The wait for this answer was interrupted.
                os.close(fd)

    def close(self) -> None:
        """End the process; its workers must have exited or be about to."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(1.0)
        if self._popen.returncode is None:
            self._popen.kill()
            self._popen.wait()

    def abandon(self) -> None:
        """Drop the process without disturbing it, in a fork of its parent."""
        self._control.close()
        self._popen.returncode = 0
