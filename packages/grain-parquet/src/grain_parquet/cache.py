"""A bounded cache that counts what is being made and what is in use, too."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# How long a thread waits before it looks again by itself: whom it waits for may have been
# interrupted (Ctrl-C) just before saying that it is done.
_PATIENCE_SECONDS = 0.5


class _Lease:
    """That somebody makes or uses a value; ended by one assignment, which nothing can interrupt."""

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
    """Values of known size, the least recently used given up first, made once for all threads.

    All values in use, being made, or kept are within `limit` bytes together; threads wait for room.
    A value larger than the limit is made when nothing else is in use, and not kept. Each thread may
    use one value at a time, so that a thread that waits holds nothing another one waits for.

    Ctrl-C may come between any two steps. Who uses what is therefore told by leases, not counted,
    and what was left half done is found and done anew.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._entries: collections.OrderedDict[K, _Entry[V]] = collections.OrderedDict()
        self._changed = threading.Condition()
        # Whether values in use are more than the limit, so that some have to go when they no longer are.
        self._over = False

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def used(self) -> int:
        """The bytes of all values that are in use, being made or kept."""
        with self._changed:
            return sum(entry.size for entry in self._entries.values())

    @contextlib.contextmanager
    def use(self, key: K, expected_size: int, make: Callable[[], tuple[V, int]]) -> Iterator[V]:
        """The value of `key`, safe from being given up meanwhile.

        `make` gives the value and its true size, `expected_size` being what is set aside for it
        before that is known.
        """
        lease = _Lease()
        try:
            entry = self._pin(key, lease, expected_size, make)
            assert entry.value is not None
            yield entry.value
        finally:
            lease.live = False
            with self._changed:
                self._drop_if_abandoned(key)
                if self._over:
                    self._trim()
                self._changed.notify_all()

    def _pin(
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
                # Another thread makes it, or uses the room for it.
                self._changed.wait(_PATIENCE_SECONDS)
            entry = self._entries[key] = _Entry(expected_size, lease)
        value, size = make()
        with self._changed:
            entry.size = size
            entry.value = value
            self._trim()
            self._changed.notify_all()
        return entry

    def _drop_if_abandoned(self, key: K) -> None:
        """Forgets a value that whoever was making it could not, or was kept from."""
        entry = self._entries.get(key)
        if entry is not None and not entry.in_use() and entry.value is None:
            self._entries.pop(key, None)

    def _make_room(self, size: int) -> bool:
        """Whether `size` bytes more are within the limit, or nothing else is in the way."""
        self._trim(size)
        return self.used + size <= self.limit or not self._entries

    def _trim(self, wanted: int = 0) -> None:
        """Gives up unused values, the least recently used first, until `wanted` bytes are free."""
        used = self.used
        if used + wanted > self.limit:
            for key in [key for key, entry in self._entries.items() if not entry.in_use()]:
                used -= self._entries.pop(key).size
                if used + wanted <= self.limit:
                    break
        self._over = used > self.limit

    def clear(self) -> None:
        """Gives up all values that are not in use."""
        with self._changed:
            for key in [key for key, entry in self._entries.items() if not entry.in_use()]:
                del self._entries[key]
            self._changed.notify_all()
