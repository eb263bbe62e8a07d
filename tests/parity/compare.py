"""Comparison of a fact's behaviour with its recording, and a description of each difference."""

from __future__ import annotations

from typing import Any

from .encoding import difference, without_tuples
from .observe import observe, one_line, resume
from .registry import Fact, Kind


def compare(fact: Fact, recorded: dict[str, Any]) -> list[str]:
    """Return the differences between `fact` as it runs here and its recording."""
    observed = observe(fact)
    match fact.kind:
        case Kind.STREAM:
            return _compare_stream(fact, recorded, observed)
        case Kind.VALUE:
            found = difference(recorded["value"], observed["value"])
            return [found] if found else []
        case Kind.ERROR:
            return _compare_error(fact, recorded, observed)


def _compare_stream(fact: Fact, recorded: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    problems = []
    found = difference(recorded["elements"], observed["elements"], "elements")
    if found:
        problems.append(found)
    for step, state in recorded["states"].items():
        if step not in observed["states"]:
            problems.append(f"no state after {step} elements: the stream ended before")
            continue
        # A checkpoint is JSON, where tuples and lists are equal.
        found = difference(
            without_tuples(state), without_tuples(observed["states"][step]), f"state after {step}"
        )
        if found:
            problems.append(found)
    for step, state in recorded["states"].items():
        expected = recorded["elements"][int(step) :]
        resumed = resume(fact, state, fact.limit - int(step))
        found = difference(
            expected, resumed, f"elements after restoring the recorded state of step {step}"
        )
        if found:
            problems.append(found)
    return problems


def _compare_error(fact: Fact, recorded: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    expected = recorded["error"][0]
    if observed["error"] is None:
        return [f"expected {expected}, but nothing was raised; got {observed['result']}"]
    problems = []
    if expected not in observed["error"]:
        problems.append(
            f"expected {expected}, got {observed['error'][0]}: {observed.get('message', '')}"
        )
    if fact.compare_message:
        # A message may add to the reference's message, not omit parts of it.
        message = one_line(recorded["message"]).rstrip(".")
        if message not in one_line(observed["message"]):
            problems.append(
                f"expected a message with\n      {message}\n    got\n      {observed['message']}"
            )
    return problems
