"""Errors of a pool that are not errors of a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class PoolClosed(RuntimeError):  # noqa: N818 - read as a sentence
    """The pool was used after it was closed."""


class PoolInterrupted(RuntimeError):  # noqa: N818 - read as a sentence
    """The pool was interrupted mid-message; in-flight results may be lost."""


class NotOutstanding(KeyError):  # noqa: N818 - read as a sentence
    """The ticket has no result to wait for: it was taken or discarded, or belongs to another pool."""


ErrorFactory = Callable[[], BaseException]


def error_factory(kind: Callable[..., BaseException], *arguments: Any) -> ErrorFactory:
    """Return a function that creates a new error each time, so that tracebacks do not accumulate on one."""
    return lambda: kind(*arguments)


def interrupted() -> BaseException:
    """Return the error of a pool that was interrupted."""
    return PoolInterrupted(
        "The worker pool was interrupted in the middle of a message and cannot be used any more."
    )
