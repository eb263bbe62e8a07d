"""A worker's tie to the process that started it: when that one dies, by whatever death, so does it.

The starter holds the write end of a pipe that nothing is ever written to. Linux is asked to signal
the worker when the pipe closes. That works while the worker is deep in C code; and it watches the
starting process, where PR_SET_PDEATHSIG would watch the thread that happened to make the pool.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import threading


def tie(fd: int) -> None:
    """Ends this process, unasked and at once, as soon as the write end of pipe `fd` is closed."""
    if not _tie_by_signal(fd):
        _tie_by_thread(fd)


def _tie_by_signal(fd: int) -> bool:
    if not hasattr(fcntl, "F_SETSIG"):
        return False
    try:
        # Owner and signal belong to the open file, which the workers of a pool would share:
        # opening it anew makes one of our own. It stays open for the life of the process.
        own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.fcntl(own, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(own, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(own, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    except OSError:
        return False
    poll = select.poll()
    poll.register(own, select.POLLIN)
    if poll.poll(0):  # closed before we asked
        os._exit(1)
    os.close(fd)
    return True


def _tie_by_thread(fd: int) -> None:
    def watch() -> None:
        os.read(fd, 1)
        os._exit(1)

    threading.Thread(target=watch, name="grain-lifeline", daemon=True).start()
