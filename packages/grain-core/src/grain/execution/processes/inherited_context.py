"""What a child process takes over from its parent when it starts, besides descriptors."""

from __future__ import annotations

import contextlib
import os
import sys

from grain.execution.processes.interpreter import interpreter_flags, worker_environment

# Lines of /proc/self/status with attributes that children take over.
_STATUS = (b"Umask", b"Uid", b"Gid", b"Groups", b"SigIgn", b"Cap", b"NoNewPrivs", b"Seccomp:")
_MORE_STATUS = (b"Cpus_allowed:", b"Mems_allowed:")


def inherited_context() -> tuple[object, ...]:
    """Return a value that changes whenever a child started now would differ from one started before.

    It covers the interpreter and its flags, the environment, the working directory, the identity and the
    limits of the process, its processors and priority, and whether its output is a terminal.
    """
    directory = ""
    with contextlib.suppress(OSError):  # It was removed.
        directory = os.getcwd()
    status = _read("/proc/self/status").splitlines()
    return (
        sys.executable,
        tuple(interpreter_flags()),
        tuple(worker_environment().items()),
        directory,
        tuple(line for line in status if line.startswith(_STATUS + _MORE_STATUS)),
        _read("/proc/self/limits"),
        _read("/proc/self/cgroup"),
        os.getpriority(os.PRIO_PROCESS, 0),
        os.sched_getscheduler(0),
        tuple(_is_terminal(fd) for fd in (1, 2)),
    )


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _is_terminal(fd: int) -> bool:
    return os.isatty(fd)
