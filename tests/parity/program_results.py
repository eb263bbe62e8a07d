"""What a random program does with the installed grain: its elements, states and errors, as JSON."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import grain

from .encoding import decode_state, encode
from .observe import one_line
from .program_pipelines import build

_MOST = 40
_PLAIN = (type(None), bool, int, float, complex, str, bytes, list, tuple, dict)


def failure(error: BaseException) -> dict[str, Any]:
    """Return the form of an error: the names of its classes, and its message."""
    names = [cls.__name__ for cls in type(error).__mro__ if issubclass(cls, Exception)]
    return {"$error": [names, one_line(str(error))[:400]]}


def is_failure(value: Any) -> bool:
    """Return whether an observed value is an error."""
    return isinstance(value, dict) and "$error" in value


def encoded(element: Any) -> Any:
    """Return the form of an element; objects of other classes by class and text."""
    if isinstance(element, np.ndarray) and element.dtype.kind in "OmMV":
        values = [encoded(item) for item in element.ravel().tolist()]
        return {"$nd": [str(element.dtype), list(element.shape), values]}
    if isinstance(element, dict):
        pairs = [[encoded(key), encoded(item)] for key, item in element.items()]
        return {"$dict": [type(element).__name__, pairs]}
    if isinstance(element, (list, tuple)):
        return {f"${type(element).__name__}": [encoded(item) for item in element]}
    if isinstance(element, (*_PLAIN, np.ndarray)):
        return encode(element)
    if isinstance(element, np.generic):
        return {"$np": [str(element.dtype), repr(element.tolist())]}
    return {"$object": [type(element).__name__, repr(element)]}


def _attempt(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except StopIteration:
        raise
    except Exception as error:
        return failure(error)


def _read(iterator: Any, most: int) -> list[Any]:
    """Return elements, and the error that ended them, if there is one."""
    found: list[Any] = []
    while len(found) < most:
        try:
            found.append(_attempt(lambda: encoded(next(iterator))))
        except StopIteration:
            break
        if is_failure(found[-1]):
            break
    return found


def observe_program(program: dict[str, Any]) -> dict[str, Any]:
    """Return the elements of a program, its states, and its errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ds = build(program)
        except Exception as error:
            return {"build": failure(error)}
        found: dict[str, Any] = {}
        if isinstance(ds, grain.MapDataset):
            length = found["length"] = len(ds)
            indices = dict.fromkeys((0, 1, length, 2 * length + 1))
            found["single"] = [_attempt(lambda i=i: encoded(ds[i])) for i in indices]  # type: ignore[misc]
        try:
            iterator = iter(ds)
        except Exception as error:
            return {**found, "iter": failure(error)}
        stream = _stream(iterator)
        if worker_count(program):
            # Workers of the reference sort dictionaries.
            stream["elements"] = [_with_sorted_keys(element) for element in stream["elements"]]
        return {**found, **stream}


def worker_count(program: dict[str, Any]) -> int:
    """Return the number of worker processes of a program."""
    if "loader" in program:
        return int(program["loader"]["workers"])
    return int(program.get("workers", [0])[0])


def _with_sorted_keys(value: Any) -> Any:
    match value:
        case {"$dict": [name, pairs]}:
            pairs = [[key, _with_sorted_keys(item)] for key, item in pairs]
            return {"$dict": [name, sorted(pairs, key=lambda pair: json.dumps(pair[0]))]}
        case dict():
            return {key: _with_sorted_keys(item) for key, item in value.items()}
        case list():
            return [_with_sorted_keys(item) for item in value]
    return value


def _stream(iterator: Any) -> dict[str, Any]:
    elements: list[Any] = []
    states: dict[str, Any] = {}
    for position in (0, 1, 3, 8):
        elements += _read(iterator, position - len(elements))
        if len(elements) < position or (elements and is_failure(elements[-1])):
            break
        states[str(position)] = _attempt(lambda: _plain(iterator.get_state()))
    if not (elements and is_failure(elements[-1])):
        elements += _read(iterator, _MOST - len(elements))
    return {"elements": elements, "states": states}


def _plain(state: Any) -> Any:
    as_bytes = isinstance(state, bytes)
    return [as_bytes, json.loads(json.dumps(encode(json.loads(state) if as_bytes else state)))]


def resume_program(program: dict[str, Any], states: dict[str, Any]) -> dict[str, Any]:
    """Return the elements after restoring each of some states, which another grain may have made."""
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for position, (as_bytes, state) in states.items():
            try:
                iterator = iter(build(program))
                plain = decode_state(state)
                iterator.set_state(json.dumps(plain).encode() if as_bytes else plain)
                found[position] = _read(iterator, _MOST - int(position))
            except Exception as error:
                found[position] = [failure(error)]
    return found
