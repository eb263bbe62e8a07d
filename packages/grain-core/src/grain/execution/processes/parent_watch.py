"""Termination of a worker when its parent process dies, however the parent dies.

The parent holds the write end of a pipe that is never written to. Linux signals the worker when the pipe
closes, even while the worker runs C code; PR_SET_PDEATHSIG would follow the thread that created the pool
instead of the process.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import threading


def exit_with_parent(fd: int) -> None:
    """Kill this process as soon as the write end of pipe `fd` is closed."""
    if not _watch_by_signal(fd):
        watch_by_thread(fd)


def _watch_by_signal(fd: int) -> bool:
    if not hasattr(fcntl, "F_SETSIG"):
        return False
    try:
        # Owner and signal belong to the open file description, which the workers of a pool share.
        # Reopening makes a separate one, which stays open for the life of the process.
        own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(own, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(own, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    except OSError:
        return False
    poll = select.poll()
    poll.register(own, select.POLLIN)
    if poll.poll(0):  # closed before the signal was set up
        os._exit(1)
    os.close(fd)
    return True


def watch_by_thread(fd: int) -> None:
    """Wait for the end of the pipe in a thread, for systems without signals on pipes."""

    def watch() -> None:
        os.read(fd, 1)
        os._exit(1)

    threading.Thread(target=watch, name="grain-parent-watch", daemon=True).start()
