"""The parent's side of the process that forks workers.

Importing numpy and this library takes longer than everything else at the start of a worker, so one process
does it and is kept for the pools that come later: a second epoch starts several times faster than the first.
`start_early` starts it before the pipeline is planned and pickled. A template is used as long as a process
started now would inherit the same things (`inherited_context`); otherwise the next pool starts another one.
Templates in no use exit by themselves, and with this process however it ends.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import marshal
import os
import re
import select
import socket
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

from grain._config import config
from grain._policy import current_policy
from grain.execution.processes import segments
from grain.execution.processes.inherited_context import inherited_context
from grain.execution.processes.interpreter import (
    is_open,
    standard_descriptors_taken,
    start_python,
)
from grain.execution.processes.template_protocol import (
    FORK,
    IMPORT,
    MAX_MESSAGE,
    RUNNING,
    STATUS,
    UNKNOWN,
)
from grain.execution.processes.uninterrupted import run_uninterrupted

_OUR_MODULES = re.compile(rb"grain(?:\.[a-z_]+)+|cloudpickle\.cloudpickle")
_SECONDS_TO_ANSWER = 60.0


def can_fork_workers() -> bool:
    """Return whether the system has what is needed: Linux, with process descriptors."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open")


def modules_to_preload(pickled: bytes) -> list[str]:
    """Return the modules of this library, and of the library of pickles, that a pickle mentions."""
    found = {match.decode() for match in _OUR_MODULES.findall(pickled)}
    return sorted(name for name in found if name in sys.modules)


class TemplateLostError(OSError):
    """The process that forks workers does not answer."""


class Template:
    """A process that forks workers, for any number of pools in any number of threads.

    Args:
        timeout: Seconds until it must have imported its modules.
        idle_seconds: Time without use after which it exits.

    Attributes:
        users: Number of pools that use the process.
    """

    def __init__(self, timeout: float, idle_seconds: float) -> None:
        self.users = 0
        self._timeout = timeout
        self._numbers = itertools.count(1)
        self._answers: dict[int, tuple[Any, int]] = {}
        self._lock = threading.Lock()
        self._owner = os.getpid()
        _all_templates.add(self)
        path = marshal.dumps(([entry for entry in sys.path if isinstance(entry, str)],))
        with contextlib.ExitStack() as opened:
            with standard_descriptors_taken():
                self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                opened.callback(self._control.close)
                opened.callback(theirs.close)
                path_fd = segments.unnamed_file(len(path))
                opened.callback(os.close, path_fd)
            os.pwrite(path_fd, path, 0)
            idle = max(1, round(idle_seconds * 1000))
            self._popen = start_python(
                "template", (path_fd, len(path)), [theirs.fileno(), idle], (theirs.fileno(),)
            )
            opened.pop_all()
        theirs.close()
        os.close(path_fd)

    @property
    def locked(self) -> bool:
        """Whether a thread is talking to the process."""
        return self._lock.locked()

    @property
    def alive(self) -> bool:
        """Whether the process can be given requests; false after it has exited by itself."""
        if self._control.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        return not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))

    def import_modules(self, names: list[str]) -> None:
        """Import modules before later forks."""
        with self._lock:
            self._request(IMPORT, names, [])

    def request_fork(self, words: tuple[int, ...], fds: tuple[int, ...]) -> int:
        """Request a fork; return the number of the request.

        Args:
            words: Numbers that the worker receives.
            fds: Descriptors that it receives: the file of the job first.
        """
        with _standard_outputs() as standard, self._lock:
            return self._request(FORK, words, [*fds, *standard])

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

    def _request(self, kind: int, content: Any, fds: list[int]) -> int:
        number = next(self._numbers)
        socket.send_fds(self._control, [marshal.dumps((number, kind, content))], fds)
        return number

    def _answer(self, number: int, seconds: float) -> tuple[Any, int]:
        deadline = time.monotonic() + seconds
        while number not in self._answers:
            self._control.settimeout(max(0.001, deadline - time.monotonic()))
            data, fds, _, _ = socket.recv_fds(self._control, MAX_MESSAGE, 1)
            if not data:
                raise TemplateLostError("the process that starts workers has exited")
            found, answer = marshal.loads(data)
            self._answers[found] = answer, fds[0] if fds else -1
        return self._answers.pop(number)

    def close(self) -> None:
        """End the process; its workers must have exited or be about to."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            self._control.close()
            for _, fd in self._answers.values():  # of pools that could not wait for their workers
                if fd >= 0:
                    os.close(fd)
            self._answers.clear()
        with contextlib.suppress(Exception):  # a timeout, or an exiting interpreter
            self._popen.wait(1.0)
        if self._popen.returncode is None:
            self._popen.kill()
            self._popen.wait()

    def abandon(self) -> None:
        """Drop the process without disturbing it, in a fork of its parent."""
        self._control.close()
        self._popen.returncode = 0


class _Kept:
    """The template for the next pool, and what a process inherited when it was started."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.template: Template | None = None
        self.context: tuple[object, ...] = ()


_kept = _Kept()
_all_templates: weakref.WeakSet[Template] = weakref.WeakSet()


def acquire_template() -> Template:
    """Return the template for a pool that is about to start, which calls `release_template` later."""
    with _kept.lock:
        template = _current_template()
        template.users += 1
        return template


def release_template(template: Template, *, lost: bool = False) -> None:
    """Record that a pool needs the template no longer.

    Args:
        template: The template.
        lost: Whether it did not answer, so that other pools should start another one.
    """
    with _kept.lock:
        template.users -= 1
        if lost and _kept.template is template:
            _kept.template = None
        if template.users > 0 or _kept.template is template:
            return
    template.close()


def start_early() -> None:
    """Start the template that the next pool needs, without waiting for it, unless there is one."""
    if not current_policy().fork_workers or not can_fork_workers() or not sys.executable:
        return

    def start() -> None:
        with contextlib.suppress(OSError), _kept.lock:  # The pool will say what is wrong.
            _current_template()

    run_uninterrupted(start)


def any_lock_held() -> bool:
    """Return whether a thread holds a lock of this module: a finalizer may run in that very thread."""
    return _kept.lock.locked() or any(template.locked for template in list(_all_templates))


def end_idle_template() -> None:
    """End the template that is kept for later pools, if no pool uses it."""
    with _kept.lock:
        template, _kept.template = _kept.template, None
        if template is None or template.users > 0:  # Its last pool will end it.
            return
    template.close()


def _current_template() -> Template:
    context = inherited_context()
    template = _kept.template
    if template is not None and template.alive and context == _kept.context:
        return template
    _kept.template = None
    if template is not None and template.users == 0:
        template.close()
    _kept.template = Template(config.process_start_timeout, current_policy().idle_template_seconds)
    _kept.context = context
    return _kept.template


def _abandon_templates() -> None:
    for template in list(_all_templates):
        template.abandon()
    _all_templates.clear()
    _kept.__init__()  # type: ignore[misc]  # The lock may be held by a thread of the parent.


@contextlib.contextmanager
def _standard_outputs() -> Iterator[list[int]]:
    """Yield the descriptors that a worker takes as its output and error streams."""
    with contextlib.ExitStack() as opened:
        fds = []
        for fd in (1, 2):
            if not is_open(fd):
                fd = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
                opened.callback(os.close, fd)
            fds.append(fd)
        yield fds


atexit.register(end_idle_template)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_templates)
