"""Marking of functions that call user code, by their file names.

Other programs ask whether they are called by a pipeline: Keras pins layers to the CPU if the file name of a
frame of the stack contains `grain/_src/python/dataset`. A marked function has a file name that leads through
that folder to its own file: tracebacks and debuggers find the source, and a call costs nothing more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_DETOUR = os.path.join("_src", "python", "dataset", "..", "..", "..")


def calls_user_code(function: F) -> F:
    """Mark a function that calls user code, in this process or in a worker.

    >>> def call(function):
    ...     return function()
    >>> calls_user_code(call)(lambda: 3)
    3
    """
    marked: Any = function
    code = marked.__code__
    own = os.path.relpath(code.co_filename, _PACKAGE) if os.path.isabs(code.co_filename) else ""
    if own and not own.startswith(os.pardir):
        path = os.path.join(_PACKAGE, _DETOUR, own)
        marked.__code__ = code.replace(co_filename=path)
    return function
