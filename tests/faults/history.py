"""The history checker: each element exactly once, in order, and every state where it belongs.

One run without faults records the expected stream. Whatever happens to another iterator of the same
pipeline afterwards, its elements and states are compared with that stream.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tests.parity.encoding import encode


class BrokenHistory(AssertionError):
    """An iterator lost, doubled or reordered an element, or its state belongs elsewhere."""


def plain_state(state: Any) -> Any:
    """Return a state the way a checkpoint file gives it back."""
    return json.loads(state if isinstance(state, bytes) else json.dumps(state))


def _without_past(state: Any) -> Any:
    """Return a state without the fields of a cache that depend on what its iterator has read before.

    An iterator whose cache is full keeps it in `set_state`, as in google/grain 0.2.18.
    """
    if isinstance(state, list):
        return [_without_past(item) for item in state]
    if not isinstance(state, dict):
        return state
    if "cache_filled" in state:
        return {"position": state["position"]}
    return {key: _without_past(item) for key, item in state.items()}


def raw_state(state: Any, like: Any) -> Any:
    """Return a plain state in the form that `set_state` takes, which is that of `like`."""
    return json.dumps(state).encode() if isinstance(like, bytes) else state


@dataclasses.dataclass(frozen=True)
class Stream:
    """What a pipeline gives without faults.

    Attributes:
        elements: the elements, encoded.
        states: the state after so many elements; one more than there are elements.
        end: the state after the end was reached.
    """

    elements: list[Any]
    states: list[Any]
    end: Any

    def positions(self, state: Any) -> set[int]:
        """Return the positions that a state belongs to."""
        state = _without_past(plain_state(state))
        known = [_without_past(state) for state in (*self.states, self.end)]
        last = len(self.elements)
        return {min(position, last) for position, one in enumerate(known) if one == state}


def record(dataset: Any) -> Stream:
    """Read a dataset to its end, without faults."""
    iterator = iter(dataset)
    elements, states = [], [plain_state(iterator.get_state())]
    for element in iterator:
        elements.append(encode(element))
        states.append(plain_state(iterator.get_state()))
    end = plain_state(iterator.get_state())
    close(iterator)
    return Stream(elements, states, end)


def close(iterator: Any) -> None:
    """Close an iterator, if its class has anything to close."""
    if hasattr(iterator, "close"):
        iterator.close()


class Checker:
    """Follows one iterator along the expected stream.

    Attributes:
        position: the number of elements before the next one.
    """

    def __init__(self, stream: Stream, iterator: Any, position: int = 0):
        self.stream, self.iterator, self.position = stream, iterator, position

    def advance(self) -> bool:
        """Take the next element and compare it; return False at the end."""
        try:
            element = next(self.iterator)
        except StopIteration:
            if self.position != len(self.stream.elements):
                raise BrokenHistory(
                    f"ended after {self.position} of {len(self.stream.elements)} elements"
                ) from None
            return False
        self.accept(element)
        return True

    def accept(self, element: Any) -> None:
        """Compare an element that the iterator gave, and count it."""
        expected = self.stream.elements[self.position : self.position + 1]
        if [encode(element)] != expected:
            elsewhere = [i for i, e in enumerate(self.stream.elements) if e == encode(element)]
            raise BrokenHistory(
                f"element {self.position} is {encode(element)!r}, expected {expected!r}; "
                f"it belongs to the positions {elsewhere}"
            )
        self.position += 1

    def finish(self) -> None:
        """Take all elements that are left."""
        while self.advance():
            pass

    def check_state(self) -> None:
        """Compare the iterator's state with the one of its position."""
        state = self.iterator.get_state()
        if self.position not in self.stream.positions(state):
            raise BrokenHistory(
                f"the state after {self.position} elements is {plain_state(state)!r}, expected "
                f"{self.stream.states[self.position]!r}; it belongs to the positions "
                f"{sorted(self.stream.positions(state))}"
            )

    def jump(self, position: int) -> None:
        """Set the state of another position."""
        like = self.iterator.get_state()
        self.iterator.set_state(raw_state(self.stream.states[position], like))
        self.position = position
