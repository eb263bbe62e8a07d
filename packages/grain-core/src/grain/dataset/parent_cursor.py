"""Reading a parent chunk by chunk, with the parent's state before each element."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from grain._chunk_size import ChunkSizeController
from grain._policy import current_policy
from grain.dataset.chunk import END
from grain.dataset.iterator import DatasetIterator


class ParentCursor:
    """The reading position of an operation whose state starts at one of its parent's elements.

    `pull` returns a chunk of elements and `before(offset)` the parent's state before one of them. A state
    that is available only now is captured at once, so a function that `before` returned stays valid.
    """

    def __init__(self, parent: DatasetIterator[Any]):
        policy = current_policy()
        self._parent = parent
        self._max_chunk = policy.max_cursor_chunk
        self._chunk_size = ChunkSizeController(policy.chunk_seconds, policy.max_cursor_chunk)
        self.reset()

    def reset(self) -> None:
        """Discard what was read, after the parent was set to another state."""
        self._chunk = END
        self._held = END
        # The state before the current chunk; None where only the parent itself has it.
        self._start: Callable[[], Any] | None = None

    def pull(self, limit: int | None = None) -> list[Any]:
        """Return the next elements that arrive quickly, about `limit` at most; none at the end."""
        if self._held.elements:
            self._chunk, self._held = self._held, END
            return self._chunk.elements
        start = self.end()
        self._chunk = END
        self._start = None
        limit = self._max_chunk if limit is None else limit
        requested = max(1, min(limit, self._chunk_size.size))
        started = time.perf_counter()
        self._chunk = self._parent.next_chunk(requested)
        # By the number requested: a filter returns fewer elements of larger chunks.
        self._chunk_size.observe(range(requested), time.perf_counter() - started)
        self._start = start
        return self._chunk.elements

    def before(self, offset: int) -> Callable[[], Any]:
        """Return a function of the parent's state before the element at `offset` of the last chunk."""
        if offset == 0:
            return self._start or constant(self._parent.get_state())
        if self._chunk.live:
            return constant(self._chunk.state_after(offset - 1))
        return self._chunk.snapshot(offset - 1)

    def keep(self, offset: int) -> None:
        """Make the next `pull` return the elements from `offset` on again."""
        self._start = self.before(offset)
        self._held = self._chunk.rest(offset)

    def end(self) -> Callable[[], Any]:
        """Return a function of the parent's state after everything that was pulled."""
        chunk = self._chunk
        if not chunk.elements:
            return constant(self._parent.get_state())
        return self.before(len(chunk.elements))


def constant(value: Any) -> Callable[[], Any]:
    """Return a function that always returns `value`."""
    return lambda: value
