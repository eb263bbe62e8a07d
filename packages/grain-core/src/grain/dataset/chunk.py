"""Runs: how elements travel inside the library.

A chunk is a list of consecutive elements, together with the state of the iterator right after each of
them. Operations work on whole chunks, so that they pay per chunk and not per element; a state is made
only when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Chunk:
    """Consecutive elements of an iterator; an empty chunk is the end of the stream.

    Attributes:
      elements: the elements.
      state_after: gives the iterator's state right after the element at a place of this chunk.
      live: whether states can be asked only until the iterator is advanced again, as for iterators
        that users write. Who holds a live chunk must not read ahead.
    """

    __slots__ = ("elements", "live", "state_after")

    def __init__(self, elements: list[Any], state_after: Callable[[int], Any], live: bool = False):
        self.elements = elements
        self.state_after = state_after
        self.live = live

    def replace(self, elements: list[Any]) -> Chunk:
        """The same places with other elements."""
        return Chunk(elements, self.state_after, self.live)

    def pick(self, elements: list[Any], places: list[int]) -> Chunk:
        """Elements that came from some of the places."""
        state_after = self.state_after
        return Chunk(elements, lambda place: state_after(places[place]), self.live)

    def snapshot(self, place: int) -> Callable[[], Any]:
        """A function that gives the state after the element at `place`, when it is asked."""
        state_after = self.state_after  # The elements need not live as long as their states.
        return lambda: state_after(place)

    def rest(self, taken: int) -> Chunk:
        """What is left when the first `taken` elements are gone."""
        if not taken:
            return self
        state_after = self.state_after
        return Chunk(self.elements[taken:], lambda place: state_after(place + taken), self.live)

    def first(self, count: int) -> Chunk:
        """The first `count` elements."""
        return Chunk(self.elements[:count], self.state_after, self.live)


def _no_state(place: int) -> Any:
    raise IndexError(f"An empty chunk has no state at place {place}.")


END = Chunk([], _no_state)


class EndOfDataError(Exception):
    """Raised by a dataset that does not know its length ahead: there are no more elements."""


class PartialRead(list[Any]):
    """The elements before one that failed, and the error it failed with."""

    def __init__(self, elements: list[Any], error: Exception):
        super().__init__(elements)
        self.error = error


def apply_each(
    function: Callable[[Any], Any], elements: list[Any], out: list[Any]
) -> Exception | None:
    """Appends `function(element)` of each element to `out`; returns the error that stopped it.

    `list.extend` keeps what it appended before an error, so results of earlier elements survive and
    the failing one is `elements[len(out)]`.
    """
    before = len(out)
    try:
        out.extend(map(function, elements))
    except Exception as error:
        return error
    if len(out) - before < len(elements):
        return RuntimeError(
            f"{function!r} raised StopIteration; return a value or raise another exception."
        )
    return None
