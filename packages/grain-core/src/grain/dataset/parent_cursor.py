"""Taking a parent's elements one by one, with the parent's state before each of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from grain.dataset.chunk import END
from grain.dataset.iterator import DatasetIterator

# Elements are asked for in stretches that take about this long, so that slow ones are not waited for
# before they are needed.
_STRETCH_SECONDS = 0.001
_MAX_STRETCH = 256


class ParentCursor:
    """What an operation reads from its parent, when its own state begins at one of the elements.

    `pull` gives a stretch of elements and `before(place)` tells where one of them starts. A state
    that could not be asked for later is asked for at once, so what `before` returns holds for good.
    """

    def __init__(self, parent: DatasetIterator[Any]):
        self._parent = parent
        self._stretch = 1
        self.reset()

    def reset(self) -> None:
        """Forgets what was read; the parent was set to another state."""
        self._chunk = END
        self._held = END
        # Where the current chunk starts; None where the parent itself must be asked.
        self._start: Callable[[], Any] | None = None

    def pull(self, limit: int = _MAX_STRETCH) -> list[Any]:
        """The next elements, as many as come quickly, about `limit` at most; none at the end."""
        if self._held.elements:
            self._chunk, self._held = self._held, END
            return self._chunk.elements
        start = self.end()
        self._chunk = END
        self._start = None
        asked = max(1, min(limit, self._stretch))
        begun = time.perf_counter()
        self._chunk = self._parent.next_chunk(asked)
        taken = time.perf_counter() - begun
        if taken > 4 * _STRETCH_SECONDS:
            self._stretch = max(1, self._stretch // 2)
        elif taken < _STRETCH_SECONDS and asked == self._stretch:
            self._stretch = min(_MAX_STRETCH, 2 * self._stretch)
        self._start = start
        return self._chunk.elements

    def before(self, place: int) -> Callable[[], Any]:
        """How to find the parent's state before the element at `place` of what was pulled last."""
        if place == 0:
            return self._start or constant(self._parent.get_state())
        if self._chunk.live:
            return constant(self._chunk.state_after(place - 1))
        return self._chunk.snapshot(place - 1)

    def keep(self, place: int) -> None:
        """Lets the next `pull` give the elements from `place` on again."""
        self._start = self.before(place)
        self._held = self._chunk.rest(place)

    def end(self) -> Callable[[], Any]:
        """How to find the parent's state after everything that was pulled."""
        chunk = self._chunk
        if not chunk.elements:
            return constant(self._parent.get_state())
        return self.before(len(chunk.elements))


def constant(value: Any) -> Callable[[], Any]:
    """A function that always returns `value`."""
    return lambda: value
