"""Memory of arrays that are gone, kept for the next ones of about the same size.

A loop that takes batches drops one for each that it gets. Handed back to the system and asked for
again, the same memory costs a page fault for every page and is cleared first, which takes longer than
filling it with data that is at hand.
"""

from __future__ import annotations

import functools
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# jax on CPU takes arrays that start at such an address as they are, and copies others.
ALIGNMENT = 64

# One is in the consumer's hands while the next is filled, so there is seldom more than one to keep.
_MOST_KEPT = 2
_MOST_BYTES_KEPT = 128 << 20
# What the C library has once been given back of this size it does not return to the system again.
_FREED_ONCE = 8 << 20


@functools.cache
def keep_freed_memory() -> None:
    """Has small arrays take memory that was freed before, some megabytes of it, not new pages.

    glibc learns from the largest array that was freed how much to keep, and from small ones alone
    never learns. This one is not written to, so it takes no memory.
    """
    np.empty(_FREED_ONCE, np.uint8)


class BufferPool:
    """Aligned memory; what is not used any more is kept for the next that asks, within bounds.

    There is no lock: memory comes back whenever the last array over it goes, in any thread and in the
    middle of anything. Single steps on a deque are atomic, and who loses a race makes new memory.

    >>> recycler = BufferPool()
    >>> first = recycler.take(1_000_000)
    >>> address = first.ctypes.data
    >>> del first
    >>> recycler.take(1_000_000).ctypes.data == address
    True
    """

    def __init__(self, most: int = _MOST_KEPT, most_bytes: int = _MOST_BYTES_KEPT):
        self._most = most
        self._most_bytes = most_bytes
        self._kept: deque[memoryview] = deque()
        self._lent: dict[int, weakref.ref[Any]] = {}

    @property
    def kept_bytes(self) -> int:
        """How much memory is kept that nobody uses."""
        return sum(memory.nbytes for memory in list(self._kept))

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """At least `nbytes` bytes; they come back when this array and all over it are gone."""
        size = _rounded(nbytes)
        memory = self._find(size) or _aligned(size)
        # Over the memory directly, so that arrays made over this one refer to it and to nothing below.
        lease = np.frombuffer(memory, np.uint8)
        key, lent = id(lease), self._lent

        def come_back(_: object) -> None:
            lent.pop(key, None)
            self._keep(memory)

        lent[key] = weakref.ref(lease, come_back)
        return lease

    def _find(self, size: int) -> memoryview | None:
        for _ in range(len(self._kept)):
            try:
                memory = self._kept.pop()
            except IndexError:
                break
            if memory.nbytes == size:
                return memory
            self._kept.appendleft(memory)  # The first to go, when there is too much.
        return None

    def _keep(self, memory: memoryview) -> None:
        if memory.nbytes > self._most_bytes:
            return
        self._kept.append(memory)
        try:
            while len(self._kept) > self._most or self.kept_bytes > self._most_bytes:
                self._kept.popleft()
        except IndexError:
            pass  # Taken by another thread meanwhile.


def _rounded(nbytes: int) -> int:
    """A little more, so that batches of like size share memory."""
    step = max(ALIGNMENT, 1 << max(0, nbytes.bit_length() - 4))
    return -(-nbytes // step) * step


def _aligned(size: int) -> memoryview:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].data
