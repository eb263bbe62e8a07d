"""Chunks: how elements travel inside the library.

A chunk is a list of consecutive elements, together with the state of the iterator right after each of
them. Operations work on whole chunks, so that they pay per chunk and not per element; a state is made
only when it is requested.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from grain._user_code import calls_user_code


class Chunk:
    """Consecutive elements of an iterator; an empty chunk is the end of the stream.

    Attributes:
        elements: The elements.
        state_after: Function that returns the iterator's state right after the element at an offset.
        live: Whether states are available only until the iterator is advanced again, as for iterators
            that users write. The holder of a live chunk must not read ahead.
    """

    __slots__ = ("elements", "live", "state_after")

    def __init__(self, elements: list[Any], state_after: Callable[[int], Any], live: bool = False):
        self.elements = elements
        self.state_after = state_after
        self.live = live

    def replace(self, elements: list[Any]) -> Chunk:
        """Return a chunk of other elements with the same states."""
        return Chunk(elements, self.state_after, self.live)

    def pick(self, elements: list[Any], offsets: list[int]) -> Chunk:
        """Return a chunk of elements that were made of those at some offsets of this chunk."""
        state_after = self.state_after
        return Chunk(elements, lambda offset: state_after(offsets[offset]), self.live)

    def snapshot(self, offset: int) -> Callable[[], Any]:
        """Return a function that makes the state after the element at `offset`."""
        # It does not hold the elements, which need not live as long as their states.
        return partial(self.state_after, offset)

    def rest(self, taken: int) -> Chunk:
        """Return the chunk without its first `taken` elements."""
        if not taken:
            return self
        return Chunk(self.elements[taken:], _ShiftedStates(self.state_after, taken), self.live)

    def first(self, count: int) -> Chunk:
        """Return the first `count` elements."""
        return Chunk(self.elements[:count], self.state_after, self.live)


class _ShiftedStates:
    """The states of a chunk without its first elements."""

    __slots__ = ("_shift", "_state_after")

    def __init__(self, state_after: Callable[[int], Any], shift: int):
        self._state_after: Callable[[int], Any] = state_after
        self._shift: int = shift
        if isinstance(state_after, _ShiftedStates):
            # A chunk may be cut thousands of times; nested calls would exceed the recursion limit.
            self._shift += state_after._shift
            self._state_after = state_after._state_after

    def __call__(self, offset: int) -> Any:
        return self._state_after(offset + self._shift)


def _no_state(offset: int) -> Any:
    raise IndexError(f"An empty chunk has no state at offset {offset}.")


END = Chunk([], _no_state)


def chunk_of(elements: list[Any], states: list[Callable[[], Any]], live: bool = False) -> Chunk:
    """Return a chunk of elements and a state function for each; `END` without elements."""
    return Chunk(elements, lambda offset: states[offset](), live) if elements else END


class EndOfDataError(Exception):
    """Raised by a dataset of unknown length: there are no more elements."""


class PartialRead(list[Any]):
    """The elements before one that failed, and the error it failed with."""

    def __init__(self, elements: list[Any], error: Exception):
        super().__init__(elements)
        self.error = error


@calls_user_code
def apply_each(
    function: Callable[[Any], Any], elements: list[Any], out: list[Any]
) -> Exception | None:
    """Append `function(element)` of each element to `out`; return the error that stopped it, if any.

    `list.extend` keeps what it appended before an error, so results of earlier elements survive and
    the failing one is `elements[len(out)]`.
    """
    before = len(out)
    try:
        out.extend(map(function, elements))
    except Exception as error:
        return error
    if len(out) - before < len(elements):
        return stopped(function)
    return None


def stopped(function: Callable[..., Any]) -> RuntimeError:
    """Return the error of a function that raised StopIteration, which would end the stream silently."""
    return RuntimeError(
        f"{function!r} raised StopIteration; return a value or raise another exception."
    )
