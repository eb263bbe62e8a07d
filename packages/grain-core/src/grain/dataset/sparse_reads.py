"""How operations that drop elements read their input: in chunks of their own size.

A consumer that requests few elements of a filter that keeps few of many would read its input in as small
chunks. So the size of what is read follows the time of reading, and elements that were kept beyond those
requested are delivered by the next calls, without reading.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from grain._chunk_size import ChunkSizeController
from grain._policy import current_policy
from grain.dataset.chunk import END, Chunk


class SparseReads:
    """Size of the next read, and elements of earlier ones that were not delivered."""

    def __init__(self) -> None:
        policy = current_policy()
        self._chunk_size = ChunkSizeController(policy.chunk_seconds, policy.max_chunk)
        self._requested = 0
        self._started = 0.0
        self.reset()

    def reset(self) -> None:
        """Discard the elements that were not delivered."""
        self._chunk = END
        self._delivered = 0

    def start(self, limit: int) -> int:
        """Return how many elements to read where `limit` are requested; `end` follows."""
        self._requested = max(limit, self._chunk_size.size)
        self._started = time.perf_counter()
        return self._requested

    def end(self) -> None:
        """Adapt the size to the time of reading and filtering."""
        self._chunk_size.observe(range(self._requested), time.perf_counter() - self._started)

    def put(self, chunk: Chunk, limit: int) -> Chunk:
        """Return the first elements of a chunk, and keep the others for `take`."""
        if len(chunk.elements) <= limit or chunk.live:
            return chunk
        self._chunk, self._delivered = chunk, 0
        return self.take(limit)

    def take(self, limit: int) -> Chunk:
        """Return the next elements that were kept, `limit` at most; none if there are none."""
        chunk, begin = self._chunk, self._delivered
        elements = chunk.elements[begin : begin + max(1, limit)]
        if not elements:
            return END
        if begin + len(elements) < len(chunk.elements):
            self._delivered = begin + len(elements)
        else:
            self.reset()
        state_after = chunk.state_after
        return Chunk(elements, lambda offset: state_after(begin + offset))

    def state_function(self) -> Callable[[], Any] | None:
        """Return a function of the state after the elements delivered; None if all were."""
        return self._chunk.snapshot(self._delivered - 1) if self._delivered else None
