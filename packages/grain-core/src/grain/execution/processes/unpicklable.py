"""Search for the part of an object that cannot be pickled."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from grain.execution.processes import array_pickling
from grain.execution.processes.error_report import type_name

NameOwner = Callable[[object], str | None]

_MAX_DEPTH = 50


def explain_unpicklable(
    value: object, name: str, error: BaseException, name_owner: NameOwner | None = None
) -> str:
    """Return a message that names the unpicklable part of `value`, known to the user as `name`.

    >>> import threading
    >>> def f(lock=threading.Lock()): ...
    >>> print(explain_unpicklable({"fn": f}, "job", TypeError("cannot pickle")))
    Cannot send job to worker processes: job['fn'].__defaults__[0] is a _thread.lock, which cannot \
be pickled (TypeError: cannot pickle). Create it inside the worker instead, in the function that \
uses it or in `worker_init_fn`; in a class of yours, exclude it by defining __getstate__.
    """
    path, offender, owner = find_unpicklable(value, name, name_owner)
    if owner is not None:
        # `_transform` is an attribute of this library's operations, not of the user's code.
        path = path.removeprefix("._transform").lstrip(". ") or "its function"
    return (
        f"Cannot send {owner or name} to worker processes: {path} is a {type_name(offender)}, "
        f"which cannot be pickled ({type_name(error)}: {error}). Create it inside the worker "
        "instead, in the function that uses it or in `worker_init_fn`; in a class of yours, exclude "
        "it by defining __getstate__."
    )


def find_unpicklable(
    value: object, name: str, name_owner: NameOwner | None = None
) -> tuple[str, object, str | None]:
    """Return the deepest part that cannot be pickled: its path, itself, and the name of its owner.

    The owner is the last object on the path for which `name_owner` returns a name; the path then starts
    there.
    """
    path, owner = name, None
    seen: set[int] = set()
    for _ in range(_MAX_DEPTH):
        seen.add(id(value))
        named = None if name_owner is None else name_owner(value)
        if named is not None:
            owner, path = named, ""
        for step, part in _parts(value):
            if id(part) not in seen and not _can_be_pickled(part):
                path, value = path + step, part
                break
        else:
            break
    return path, value, owner


def _can_be_pickled(value: object) -> bool:
    try:
        array_pickling.dumps_job(value)
    except Exception:  # pickling runs code of the object, which may raise anything
        return False
    return True


def _parts(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"[{key!r}]", item
            yield f" key {key!r}", key
    elif isinstance(value, (list, tuple, set, frozenset)):
        for number, item in enumerate(value):
            yield f"[{number}]", item
    elif isinstance(value, functools.partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
    elif isinstance(value, types.MethodType):
        yield ".__self__", value.__self__
    elif isinstance(value, types.FunctionType):
        yield from _function_parts(value)
    if hasattr(value, "__getstate__") and type(value).__getstate__ is not object.__getstate__:
        try:
            yield ".__getstate__()", value.__getstate__()
        except Exception:  # then the object itself cannot be pickled
            return
        return
    for name, item in getattr(value, "__dict__", {}).items():
        yield f".{name}", item
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                yield f".{name}", getattr(value, name)


def _function_parts(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f" variable {name!r}", cell.cell_contents
        except ValueError:  # an empty cell
            continue
    if function.__defaults__:
        yield ".__defaults__", function.__defaults__
    if function.__kwdefaults__:
        yield ".__kwdefaults__", function.__kwdefaults__
    for name in code.co_names:
        if name in function.__globals__:
            yield f" global {name!r}", function.__globals__[name]
