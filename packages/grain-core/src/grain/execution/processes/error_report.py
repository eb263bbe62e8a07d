"""Errors of workers, and the form in which an exception travels between processes."""

from __future__ import annotations

import pickle
import signal
import traceback
from typing import NamedTuple

from grain.execution.processes import array_pickling
from grain.execution.processes.worker_frames import (
    Frames,
    frames_of,
    operation_of,
    traceback_of,
)


class WorkerError(RuntimeError):
    """Stands for an exception of a worker that could not be pickled."""


class WorkerDied(RuntimeError):  # noqa: N818 - a user reads it as a sentence
    """A worker process exited before its pool was closed.

    Attributes:
        worker: Index of the worker.
        pid: Its process id.
        exitcode: Its exit status; -N if signal N ended it; None if the status is unknown.
        ticket: The task that it was computing, or None.
        detail: A further sentence of the message, or "".
    """

    is_worker_failure = True

    def __init__(
        self,
        worker: int,
        count: int,
        pid: int,
        exitcode: int | None,
        ticket: int | None,
        detail: str = "",
    ) -> None:
        super().__init__(worker, count, pid, exitcode, ticket, detail)
        self.worker = worker
        self.count = count
        self.pid = pid
        self.exitcode = exitcode
        self.ticket = ticket
        self.detail = detail

    def __str__(self) -> str:
        doing = "" if self.ticket is None else " while it was computing an element"
        return (
            f"Worker {self.worker} of {self.count} (process {self.pid}) "
            f"{describe_exit(self.exitcode)}{doing}.{self.detail and f' {self.detail}.'}"
        )


class TaskLost(RuntimeError):  # noqa: N818 - read as a sentence
    """The worker that had a task was lost before it returned the result; submit the task again.

    Attributes:
        ticket: The task.
        worker: Index of the worker.
        cause: What happened to the worker; `str(cause)` says it in a few words.
        started: Whether the worker was computing the task, as far as the pool knows.
    """

    is_worker_failure = True

    def __init__(self, ticket: int, worker: int, cause: object, started: bool) -> None:
        super().__init__(ticket, worker, cause, started)
        self.ticket = ticket
        self.worker = worker
        self.cause = cause
        self.started = started

    def __str__(self) -> str:
        doing = "was computing the task" if self.started else "had not started the task"
        return f"Worker {self.worker} was lost: {self.cause}. It {doing} (ticket {self.ticket})."


class RemoteTraceback(Exception):  # noqa: N818 - not raised, only shown
    """The traceback of an exception raised in a worker; set as the cause of that exception in the parent."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class ErrorReport(NamedTuple):
    """An exception in transit: a pickle if it has one that loads, and a summary in text."""

    payload: bytes | None
    summary: str
    text: str
    frames: Frames = ()


def report(error: BaseException, *, where: str) -> ErrorReport:
    """Return a report of `error`, raised in the worker that `where` names."""
    text = f"In {where}:\n\n" + "".join(traceback.format_exception(error))
    frames = frames_of(error)
    if isinstance(error, SystemExit):
        error = _exit_error(error)
    return ErrorReport(_payload(error), f"{type_name(error)}: {_message(error)}", text, frames)


def _exit_error(error: SystemExit) -> WorkerError:
    """Return the error for a `sys.exit()` in a worker, which must not end the program."""
    operation = operation_of(error)
    return WorkerError(
        f"sys.exit({'' if error.code is None else repr(error.code)}) was called in a worker process"
        f"{f', in {operation}' if operation else ''}. Raise an exception instead."
    )


def rebuild(report: ErrorReport) -> BaseException:
    """Return the reported exception, with the worker's traceback as its cause."""
    error: BaseException
    try:
        error = pickle.loads(report.payload or b"")
        if not isinstance(error, BaseException):
            raise TypeError(type(error))
    except Exception:  # the constructor of a user's exception may raise anything
        error = WorkerError(report.summary)
    error.__cause__ = RemoteTraceback(report.text)
    return error.with_traceback(traceback_of(report.frames))


def type_name(value: object) -> str:
    """Return the importable name of a value's type.

    >>> type_name(1), type_name(signal.SIGINT)
    ('int', 'signal.Signals')
    """
    kind = type(value)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _payload(error: BaseException) -> bytes | None:
    try:
        stream, buffers = array_pickling.dumps_by_value(error)
        if buffers:
            return None
        if not isinstance(array_pickling.loads(stream), type(error)):
            return None
    except Exception:  # not picklable: the summary is sent instead
        return None
    return stream


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a broken __str__ must not hide the error it belongs to
        return "(no message: its __str__ raised)"


def describe_exit(code: int | None) -> str:
    """Return how a process ended, given its exit status."""
    if code is None:
        return "exited; its exit status is unknown (SIGCHLD is ignored, or another wait was faster)"
    if code >= 0:
        return f"exited with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = ""
    if -code == signal.SIGKILL:
        hint = "; the system kills a process that way when memory runs out"
    return f"was killed by signal {-code} ({name}{hint})"
