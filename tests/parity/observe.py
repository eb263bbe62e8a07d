"""Observation of a fact's builder, in the form that is recorded and compared."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

from .encoding import decode_state, encode
from .registry import Fact, Kind


def observe(fact: Fact) -> dict[str, Any]:
    """Return the behaviour of `fact` with the installed grain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        match fact.kind:
            case Kind.STREAM:
                return _observe_stream(fact)
            case Kind.VALUE:
                return {"value": encode(fact.build())}
            case Kind.ERROR:
                return _observe_error(fact)


def resume(fact: Fact, state: Any, elements: int) -> list[Any]:
    """Return at most `elements` elements of a new iterator that was set to the recorded `state`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        iterator = iter(fact.build())
        plain = decode_state(state)
        # A loader's state is the JSON itself, as bytes.
        as_bytes = isinstance(iterator.get_state(), bytes)
        iterator.set_state(json.dumps(plain).encode() if as_bytes else plain)
        return _take(iterator, elements)


def _observe_stream(fact: Fact) -> dict[str, Any]:
    iterator = iter(fact.build())
    elements: list[Any] = []
    states: dict[str, Any] = {}
    position = 0
    for step in (*sorted(fact.steps), fact.limit):
        elements += _take(iterator, step - position)
        if len(elements) < step:
            break
        if step in fact.steps:
            states[str(step)] = _state_of(iterator)
        position = step
    return {"elements": elements, "states": states}


def _take(iterator: Any, count: int) -> list[Any]:
    taken: list[Any] = []
    while len(taken) < count:
        try:
            taken.append(encode(next(iterator)))
        except StopIteration:
            break
    return taken


def _state_of(iterator: Any) -> Any:
    state = iterator.get_state()
    return encode(json.loads(state) if isinstance(state, bytes) else state)


def _observe_error(fact: Fact) -> dict[str, Any]:
    try:
        result = fact.build()
    except Exception as caught:
        found: dict[str, Any] = {"error": _names_of(type(caught))}
        if fact.compare_message:
            found["message"] = one_line(str(caught))
        return found
    return {"error": None, "result": repr(result)}


def one_line(text: str) -> str:
    """Return `text` with normalised whitespace, so that wrapping makes no difference."""
    return re.sub(r"\s+", " ", text).strip()


def _names_of(kind: type[BaseException]) -> list[str]:
    return [cls.__name__ for cls in kind.__mro__ if cls not in (Exception, BaseException, object)]
