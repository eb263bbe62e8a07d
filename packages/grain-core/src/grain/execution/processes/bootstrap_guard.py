"""Whether this process is a worker that has not started yet, and must not start workers of its own.

A worker imports the modules that hold the user's classes. A module that begins to read with workers
as soon as it is imported would do so in each of them, and theirs in theirs, without end.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

_starting = False


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """While a worker takes over its job."""
    global _starting
    _starting = True
    try:
        yield
    finally:
        _starting = False


def require_started() -> None:
    """Raises an error that names the module, if this is a worker that still imports what it needs."""
    if _starting:
        raise RuntimeError(
            "Worker processes were asked for while a worker process, which was starting, imported "
            f"{_imported_module()}. What a module does when it is imported is done in every worker "
            "that needs something of it. Put the code that reads the data into a function, or below "
            '`if __name__ == "__main__":`.'
        )


def _imported_module() -> str:
    """The module that is being imported by whoever called, and where it stands."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            name = frame.f_globals.get("__name__", "a module")
            return f"`{name}` ({frame.f_code.co_filename}, line {frame.f_lineno})"
        frame = frame.f_back  # type: ignore[assignment]
    return "what its job needs"
