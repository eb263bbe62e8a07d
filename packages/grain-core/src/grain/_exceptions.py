"""Notes on exceptions: where in a pipeline an exception was raised."""

from __future__ import annotations

import contextlib
import os
from typing import Any

_PREFIX = "grain: "


def add_note(error: BaseException, text: str) -> None:
    """Add a note that locates an error, unless an inner operation has added one."""
    notes = getattr(error, "__notes__", ())
    if not any(note.startswith(_PREFIX) for note in notes):
        error.add_note(_PREFIX + text)


def note_element(error: BaseException, operation: Any, index: Any, sources: str = "") -> None:
    """Add a note that `operation` failed on the element at `index`."""
    add_note(
        error, f"raised in {operation} at index {index}{f', over {sources}' if sources else ''}."
    )


def note_component(error: BaseException, component: str) -> None:
    """Add a note that names the dataset, of several that are combined, which an error comes from."""
    note = f"{_PREFIX}read from {component}."
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def mark_worker_failure(error: BaseException) -> None:
    """Mark an error of the worker processes, for which no element is to blame."""
    error.is_worker_failure = True  # type: ignore[attr-defined]


def is_worker_failure(error: BaseException) -> bool:
    """Return whether the worker processes failed, and not an element."""
    return getattr(error, "is_worker_failure", False) is True


def mark_unfinished_batch(error: BaseException) -> None:
    """Mark an error of an element below a batch: other elements of the batch were read and not delivered."""
    with contextlib.suppress(
        AttributeError, TypeError
    ):  # A class of the user may have no attributes.
        error.left_batch_unfinished = True  # type: ignore[attr-defined]


def loses_other_elements(error: BaseException) -> bool:
    """Return whether resuming after an error would lose elements that did not fail."""
    return is_worker_failure(error) or getattr(error, "left_batch_unfinished", False) is True


def as_failure(error: Exception) -> Exception:
    """Return the error; a StopIteration, which would silently end the stream, as a RuntimeError."""
    if not isinstance(error, StopIteration):
        return error
    failure = RuntimeError(
        "A user's function raised StopIteration; return a value or raise another exception."
    )
    failure.__cause__ = error
    return failure


def transform_name(transform: Any) -> str:
    """Return a short, readable name of a function or a transformation object.

    >>> transform_name(len)
    'len'
    """
    code = getattr(transform, "__code__", None)
    if code is not None:
        path = code.co_filename.split(os.sep)
        shown = "/".join(path[-3:])
        return f"{transform.__name__} @ .../{shown}:{code.co_firstlineno}"
    kind: Any = type(transform)
    if kind.__repr__ is not object.__repr__ and not hasattr(transform, "__name__"):
        return repr(transform)
    return str(getattr(transform, "__name__", kind.__name__))
