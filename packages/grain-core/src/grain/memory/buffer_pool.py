"""Reuse of the memory of freed arrays for new ones of about the same size.

A training loop drops one batch for each that it receives. Returned to the system and allocated again, the
same memory costs a page fault for every page and is cleared first, which takes longer than filling it
with data that is in memory.
"""

from __future__ import annotations

import functools
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from grain._policy import current_policy

if TYPE_CHECKING:
    from numpy.typing import NDArray

# JAX on CPU uses arrays that start at a multiple of this in place, and copies others.
ALIGNMENT = 64

# Once an array of this size was freed, glibc keeps that much freed memory in the process.
_FREED_ONCE = 8 << 20


@functools.cache
def keep_freed_memory() -> None:
    """Make malloc reuse some megabytes of freed memory for small arrays, instead of new pages.

    glibc raises its threshold to the size of the largest array that was freed. The array freed here is never
    written to, so it occupies no memory.
    """
    np.empty(_FREED_ONCE, np.uint8)


class BufferPool:
    """Pool of aligned buffers, with a bound on the unused memory that it keeps.

    Lock-free: a buffer returns when the last array over it is collected, in any thread and at any point.
    Single operations on a deque are atomic, and the loser of a race allocates new memory.

    Args:
        max_buffers: Most unused buffers that are kept; the policy's by default. One batch is with the
            consumer while the next is filled, so more than one unused buffer is rare without threads. With
            them, the consumer drops several batches that were ready before a thread runs again.
        max_bytes: Most bytes of unused buffers that are kept; the policy's by default.

    >>> pool = BufferPool()
    >>> first = pool.take(1_000_000)
    >>> address = first.ctypes.data
    >>> del first
    >>> pool.take(1_000_000).ctypes.data == address
    True
    """

    def __init__(self, max_buffers: int | None = None, max_bytes: int | None = None):
        policy = current_policy()
        self._max_buffers = policy.pooled_buffers if max_buffers is None else max_buffers
        self._max_bytes = policy.pooled_bytes if max_bytes is None else max_bytes
        self._kept: deque[memoryview] = deque()
        self._leases: dict[int, weakref.ref[Any]] = {}

    @property
    def kept_bytes(self) -> int:
        """Bytes of unused buffers."""
        return sum(memory.nbytes for memory in list(self._kept))

    def take(self, nbytes: int) -> NDArray[np.uint8]:
        """Return `nbytes` bytes or more, which return to the pool when all arrays over them are gone."""
        size = _rounded(nbytes)
        memory = self._find(size) or _aligned(size)
        # Over the memory itself: arrays over the lease then keep the lease alive, not the memory below it.
        lease = np.frombuffer(memory, np.uint8)
        key, leases = id(lease), self._leases

        def give_back(_: object) -> None:
            leases.pop(key, None)
            self._keep(memory)

        leases[key] = weakref.ref(lease, give_back)
        return lease

    def _find(self, size: int) -> memoryview | None:
        for _ in range(len(self._kept)):
            try:
                memory = self._kept.pop()
            except IndexError:
                break
            if memory.nbytes == size:
                return memory
            self._kept.appendleft(memory)  # First to be dropped when the bound is exceeded.
        return None

    def _keep(self, memory: memoryview) -> None:
        if memory.nbytes > self._max_bytes:
            return
        self._kept.append(memory)
        try:
            while len(self._kept) > self._max_buffers or self.kept_bytes > self._max_bytes:
                self._kept.popleft()
        except IndexError:
            pass  # Another thread took it.


def _rounded(nbytes: int) -> int:
    """Round up, so that batches of similar size share memory."""
    step = max(ALIGNMENT, 1 << max(0, nbytes.bit_length() - 4))
    return -(-nbytes // step) * step


def _aligned(size: int) -> memoryview:
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].data
