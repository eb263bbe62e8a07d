"""A bounded cache that also counts values that are in use or under construction."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# How long a thread waits before it checks again without a notification: the thread it waits for may
# have been interrupted (Ctrl-C) just before notifying.
_POLL_SECONDS = 0.5


class _Lease:
    """The construction or use of a value; released by one assignment, which is uninterruptible."""

    __slots__ = ("live",)

    def __init__(self) -> None:
        self.live = True


class _Entry(Generic[V]):
    __slots__ = ("leases", "size", "value")

    def __init__(self, size: int, lease: _Lease) -> None:
        self.size = size
        self.leases = [lease]
        self.value: V | None = None

    def in_use(self) -> bool:
        self.leases = [lease for lease in self.leases if lease.live]
        return bool(self.leases)


class BoundedCache(Generic[K, V]):
    """Values of known size, evicted least recently used first, built once for all threads.

    All values that are cached, in use or under construction take at most `limit` bytes together;
    threads block until there is room. A value larger than the limit is built when nothing else is
    in use, and not kept. Each thread may use one value at a time, so that a blocked thread holds
    nothing that another thread waits for.

    KeyboardInterrupt may arrive between any two steps. Uses are therefore tracked by leases, not by
    a counter, and a construction that was interrupted is detected and started again.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._entries: collections.OrderedDict[K, _Entry[V]] = collections.OrderedDict()
        self._changed = threading.Condition()
        # Whether values in use exceed the limit, so that the next release has to evict.
        self._over = False

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def used(self) -> int:
        """Bytes of all values that are cached, in use or under construction."""
        with self._changed:
            return sum(entry.size for entry in self._entries.values())

    @contextlib.contextmanager
    def use(self, key: K, expected_size: int, make: Callable[[], tuple[V, int]]) -> Iterator[V]:
        """Yield the value of `key`, which is not evicted inside of the `with` block.

        Args:
            key: The key.
            expected_size: Bytes to reserve while the value is under construction.
            make: Returns the value and its actual size.
        """
        lease = _Lease()
        try:
            entry = self._acquire(key, lease, expected_size, make)
            assert entry.value is not None
            yield entry.value
        finally:
            lease.live = False
            with self._changed:
                self._drop_if_abandoned(key)
                if self._over:
                    self._trim()
                self._changed.notify_all()

    def _acquire(
        self, key: K, lease: _Lease, expected_size: int, make: Callable[[], tuple[V, int]]
    ) -> _Entry[V]:
        with self._changed:
            while True:
                self._drop_if_abandoned(key)
                entry = self._entries.get(key)
                if entry is None:
                    if self._make_room(expected_size):
                        break
                elif entry.value is not None:
                    entry.leases.append(lease)
                    self._entries.move_to_end(key)
                    return entry
                # Another thread builds the value, or uses the room for it.
                self._changed.wait(_POLL_SECONDS)
            entry = self._entries[key] = _Entry(expected_size, lease)
        value, size = make()
        with self._changed:
            entry.size = size
            entry.value = value
            self._trim()
            self._changed.notify_all()
        return entry

    def _drop_if_abandoned(self, key: K) -> None:
        """Remove an entry whose construction failed or was interrupted."""
        entry = self._entries.get(key)
        if entry is not None and not entry.in_use() and entry.value is None:
            self._entries.pop(key, None)

    def _make_room(self, size: int) -> bool:
        """Evict, and return whether `size` more bytes fit or nothing else is in the cache."""
        self._trim(size)
        return self.used + size <= self.limit or not self._entries

    def _trim(self, wanted: int = 0) -> None:
        """Evict unused values, least recently used first, until `wanted` bytes are free."""
        used = self.used
        if used + wanted > self.limit:
            for key in [key for key, entry in self._entries.items() if not entry.in_use()]:
                used -= self._entries.pop(key).size
                if used + wanted <= self.limit:
                    break
        self._over = used > self.limit

    def clear(self) -> None:
        """Evict all values that are not in use."""
        with self._changed:
            for key in [key for key, entry in self._entries.items() if not entry.in_use()]:
                del self._entries[key]
            self._changed.notify_all()
