"""Guard against worker processes that start worker processes.

A worker imports the modules of the user's classes. A module that iterates with workers as soon as it is
imported would start workers in each worker, recursively.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

_in_worker = False
_starting = False


def in_worker() -> bool:
    """Return whether this process is a worker that has loaded its job; it starts no workers itself."""
    return _in_worker


def set_in_worker() -> None:
    """Record that this process is a worker that has loaded its job."""
    global _in_worker
    _in_worker = True


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Mark this process as a worker that loads its job inside the `with` block."""
    global _starting
    _starting = True
    try:
        yield
    finally:
        _starting = False


def require_started() -> None:
    """Raise an error that names the imported module if this process is a worker that is still starting."""
    if _starting:
        raise RuntimeError(
            "Worker processes were requested while a worker process, which was starting, imported "
            f"{_imported_module()}. Code at module level runs in every worker that imports the module. Move "
            'the code that reads the data into a function, or below `if __name__ == "__main__":`.'
        )


def _imported_module() -> str:
    """Return the name and position of the module that is being imported."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            name = frame.f_globals.get("__name__", "a module")
            return f"`{name}` ({frame.f_code.co_filename}, line {frame.f_lineno})"
        frame = frame.f_back  # type: ignore[assignment]
    return "a module of its job"
