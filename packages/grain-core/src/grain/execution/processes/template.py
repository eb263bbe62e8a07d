"""A process that imports what workers need once, and forks them: the side of that process.

It runs no code of the user and starts no thread, so forking is safe, and the memory of the imported modules
is shared by all workers. The pool's side is `template_client`.
"""

from __future__ import annotations

import _socket
import array
import contextlib
import gc
import importlib
import marshal
import os
import sys
import warnings
from typing import Any

from grain.execution.processes import worker

FORK, STATUS = 1, 2
MAX_MESSAGE = 64 << 10
_INT_BYTES = array.array("i").itemsize


def main(control_fd: int, preload: str) -> None:
    """Serve requests until the pool closes the connection; called by the command line.

    Args:
        control_fd: The connection to the pool.
        preload: Names of modules to import, separated by commas.
    """
    for name in filter(None, preload.split(",")):
        with contextlib.suppress(ImportError):  # The worker that needs the module will explain it.
            importlib.import_module(name)
    gc.freeze()  # so that collections do not write to the memory that workers share
    control = _socket.socket(fileno=control_fd)
    children: set[int] = set()
    while True:
        data, fds = _receive(control)
        if not data:
            break
        number, kind, words = marshal.loads(data)
        if kind == FORK:
            pid = _fork(control, words, fds)
            children.add(pid)
            _send(control, (number, pid), os.pidfd_open(pid))
            for fd in fds:
                os.close(fd)
        else:
            status = _status(words)
            if status != RUNNING:
                children.discard(words)
            _send(control, (number, status), -1)
    for pid in children:  # No zombies are left to a system whose first process collects none.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    os._exit(0)


RUNNING, UNKNOWN = "running", "unknown"


def _fork(control: _socket.socket, words: tuple[int, ...], fds: list[int]) -> int:
    with warnings.catch_warnings():
        # Python counts the threads of BLAS, which survive a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        control.close()
        random = sys.modules.get("numpy.random")
        if random is not None:
            random.seed()  # Otherwise all workers would draw the same numbers.
        worker.main(*words, *fds)
    finally:
        os._exit(1)


def _status(pid: int) -> int | str:
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return UNKNOWN
    return os.waitstatus_to_exitcode(status) if found else RUNNING


def _receive(control: _socket.socket) -> tuple[bytes, list[int]]:
    data, ancillary, _, _ = control.recvmsg(MAX_MESSAGE, _socket.CMSG_SPACE(2 * _INT_BYTES))
    fds = array.array("i")
    for level, kind, content in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % _INT_BYTES])
    return data, list(fds)


def _send(control: _socket.socket, reply: Any, fd: int) -> None:
    rights = [] if fd < 0 else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [fd]))]
    with contextlib.suppress(ConnectionError):  # The next receive finds the end.
        control.sendmsg([marshal.dumps(reply)], rights)
    if fd >= 0:
        os.close(fd)
