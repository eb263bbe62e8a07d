"""What goes wrong with workers, and how an exception crosses from one process to another."""

from __future__ import annotations

import pickle
import signal
import traceback
from typing import NamedTuple

from grain.execution.processes import array_pickling


class WorkerError(RuntimeError):
    """Stands for a worker's exception that could not itself be carried over."""


class WorkerDied(RuntimeError):  # noqa: N818 - a user reads it as a sentence
    """A worker process ended though its work was not done.

    Attributes:
      worker: which worker it was.
      pid: its process id.
      exitcode: its exit status; -N if signal N ended it; None if the system would not tell.
      ticket: the task it was computing, or None.
    """

    def __init__(
        self, worker: int, count: int, pid: int, exitcode: int | None, ticket: int | None
    ) -> None:
        super().__init__(worker, count, pid, exitcode, ticket)
        self.worker = worker
        self.count = count
        self.pid = pid
        self.exitcode = exitcode
        self.ticket = ticket

    def __str__(self) -> str:
        doing = "" if self.ticket is None else " while it was computing an element"
        return (
            f"Worker {self.worker} of {self.count} (process {self.pid}) "
            f"{_describe_exit(self.exitcode)}{doing}."
        )


class RemoteTraceback(Exception):  # noqa: N818 - not raised, only shown
    """The traceback of an exception raised in a worker; the cause of what is raised here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class Report(NamedTuple):
    """An exception on its way: a pickle of it if it has one that loads, and words if not."""

    payload: bytes | None
    summary: str
    text: str


def report(error: BaseException, *, where: str) -> Report:
    """Describes `error`, raised in the worker that `where` names."""
    text = f"In {where}:\n\n" + "".join(traceback.format_exception(error))
    return Report(_payload(error), f"{type_name(error)}: {_message(error)}", text)


def rebuild(told: Report) -> BaseException:
    """The exception a report describes, with the worker's traceback as its cause."""
    error: BaseException
    try:
        error = pickle.loads(told.payload or b"")
        if not isinstance(error, BaseException):
            raise TypeError(type(error))
    except Exception:  # whatever the exception's own class does when it is made anew
        error = WorkerError(told.summary)
    error.__cause__ = RemoteTraceback(told.text)
    return error


def type_name(value: object) -> str:
    """The name of a value's type as one would import it.

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
    except Exception:  # any failure of the exception's own pickling: the summary goes instead
        return None
    return stream


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a broken __str__ must not hide the error it belongs to
        return "(no message: its __str__ raised)"


def _describe_exit(code: int | None) -> str:
    if code is None:
        return "ended; the system does not tell how"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = ""
    if -code == signal.SIGKILL:
        hint = "; the system does that to a process when memory runs out, or a user did"
    return f"was killed by signal {-code} ({name}{hint})"
