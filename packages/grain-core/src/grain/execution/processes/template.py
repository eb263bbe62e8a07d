"""A process that imports what workers need once, and forks them: the side of that process.

It runs no code of the user and starts no thread, so forking is safe, and the memory of the imported modules
is shared by all workers. It serves all pools of its parent, one after another or at the same time, and exits
when it has had nothing to do for some time, or when its parent exits. The parent's side is `template_client`.
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
from grain.execution.processes.template_protocol import (
    FORK,
    IMPORT,
    MAX_DESCRIPTORS,
    MAX_MESSAGE,
    RUNNING,
    STATUS,
    UNKNOWN,
)

_INT_BYTES = array.array("i").itemsize


def main(path_fd: int, path_bytes: int, control_fd: int, idle_milliseconds: int) -> None:
    """Serve requests until the parent closes the connection; called by the command line.

    Args:
        path_fd: The file with `sys.path`, which was read.
        path_bytes: Its length.
        control_fd: The connection to the parent.
        idle_milliseconds: Time without a worker and without a request after which this process exits.
    """
    os.close(path_fd)
    control = _socket.socket(fileno=control_fd)
    children: set[int] = set()
    gc.freeze()  # so that collections do not write to the memory that workers share
    while True:
        control.settimeout(None if children else idle_milliseconds / 1000)
        try:
            data, fds = _receive(control)
        except TimeoutError:
            break
        if not data:
            break
        number, kind, content = marshal.loads(data)
        if kind == FORK:
            pid = _fork(control, content, fds)
            children.add(pid)
            _send(control, (number, pid), os.pidfd_open(pid))
            for fd in fds:
                os.close(fd)
        elif kind == STATUS:
            status = _status(content)
            if status != RUNNING:
                children.discard(content)
            _send(control, (number, status), -1)
        elif kind == IMPORT:
            _import(content)
    control.close()
    for pid in children:  # No zombies are left to a system whose first process collects none.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    os._exit(0)


def _import(names: list[str]) -> None:
    for name in names:
        with contextlib.suppress(ImportError):  # The worker that needs the module will explain it.
            importlib.import_module(name)
    gc.freeze()


def _fork(control: _socket.socket, words: tuple[int, ...], fds: list[int]) -> int:
    with warnings.catch_warnings():
        # Python counts the threads of BLAS, which survive a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        control.close()
        own, standard = fds[:-2], fds[-2:]
        for number, fd in enumerate(standard, 1):
            os.dup2(fd, number)
            os.close(fd)
        random = sys.modules.get("numpy.random")
        if random is not None:
            random.seed()  # Otherwise all workers would draw the same numbers.
        worker.main(own[0], words[0], *words[1:], *own[1:])
    finally:
        os._exit(1)


def _status(pid: int) -> int | str:
    try:
        found, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return UNKNOWN
    return os.waitstatus_to_exitcode(status) if found else RUNNING


def _receive(control: _socket.socket) -> tuple[bytes, list[int]]:
    space = _socket.CMSG_SPACE(MAX_DESCRIPTORS * _INT_BYTES)
    data, ancillary, _, _ = control.recvmsg(MAX_MESSAGE, space)
    fds = array.array("i")
    for level, kind, content in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % _INT_BYTES])
    return data, list(fds)


def _send(control: _socket.socket, reply: Any, fd: int) -> None:
    rights = [] if fd < 0 else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [fd]))]
    control.settimeout(None)
    with contextlib.suppress(ConnectionError):  # The next receive finds the end.
        control.sendmsg([marshal.dumps(reply)], rights)
    if fd >= 0:
        os.close(fd)
