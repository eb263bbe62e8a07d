"""A bounded cache that counts what is being made and what is in use, too."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Entry(Generic[V]):
    __slots__ = ("failed", "pins", "size", "value")

    def __init__(self, size: int) -> None:
        self.size = size
        self.pins = 1
        self.value: V | None = None
        self.failed = False


class BoundedCache(Generic[K, V]):
    """Values of known size, the least recently used given up first, made once for all threads.

    All values in use, being made, or kept are within `limit` bytes together; threads wait for room.
    A value larger than the limit is made when nothing else is in use, and not kept. Each thread may
    use one value at a time, so that a thread that waits holds nothing another one waits for.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._entries: collections.OrderedDict[K, _Entry[V]] = collections.OrderedDict()
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._entries)

    @contextlib.contextmanager
    def use(self, key: K, expected_size: int, make: Callable[[], tuple[V, int]]) -> Iterator[V]:
        """The value of `key`, safe from being given up meanwhile.

        `make` gives the value and its true size, `expected_size` being what is set aside for it
        before that is known.
        """
        entry = self._pin(key, expected_size, make)
        try:
            assert entry.value is not None
            yield entry.value
        finally:
            with self._changed:
                entry.pins -= 1
                self._trim()
                self._changed.notify_all()

    def _pin(self, key: K, expected_size: int, make: Callable[[], tuple[V, int]]) -> _Entry[V]:
        with self._changed:
            while True:
                entry = self._entries.get(key)
                if entry is None:
                    if self._make_room(expected_size):
                        break
                elif entry.value is not None:
                    entry.pins += 1
                    self._entries.move_to_end(key)
                    return entry
                # Another thread makes it, or uses the room for it.
                self._changed.wait()
            entry = self._entries[key] = _Entry(expected_size)
            self.used += expected_size
        try:
            value, size = make()
        except BaseException:
            with self._changed:
                del self._entries[key]
                self.used -= entry.size
                self._changed.notify_all()
            raise
        with self._changed:
            entry.value = value
            self.used += size - entry.size
            entry.size = size
            self._trim()
            self._changed.notify_all()
        return entry

    def _make_room(self, size: int) -> bool:
        """Whether `size` bytes more are within the limit, or nothing else is in the way."""
        self._trim(size)
        return self.used + size <= self.limit or not self._entries

    def _trim(self, wanted: int = 0) -> None:
        """Gives up unused values, the least recently used first, until `wanted` bytes are free."""
        if self.used + wanted <= self.limit:
            return
        for key in [key for key, entry in self._entries.items() if not entry.pins]:
            self.used -= self._entries.pop(key).size
            if self.used + wanted <= self.limit:
                return

    def clear(self) -> None:
        """Gives up all values that are not in use."""
        with self._changed:
            for key in [key for key, entry in self._entries.items() if not entry.pins]:
                self.used -= self._entries.pop(key).size
            self._changed.notify_all()
