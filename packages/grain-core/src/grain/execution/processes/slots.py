"""Slots: shared memory that is made once, lent to the other side with each message, and used again.

The sender owns its slots (`SlotPool`); the receiver maps them and reads in place (`SlotViews`). A
slot is free when the receiver has handed it back and the sender holds no array over it either.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from grain.execution.processes import segments
from grain.execution.processes.control import MAX_SLOTS, SlotTable
from grain.memory.allocation import Shape

# Smaller arrays are not worth a slot of their own: they are packed with others, or sent directly.
MIN_SLOT_BYTES = 64 * 1024

_MAX_NEWS = 200  # descriptors that fit in one message, with room to spare
_TRIM_EVERY = 64
_TRIM_AFTER = 512


class SlotUpdate(NamedTuple):
    """A slot that was made (its descriptor to be passed on), or dropped (capacity 0, fd -1)."""

    slot: int
    capacity: int
    fd: int


class Slot:
    """One segment of the sender's."""

    __slots__ = ("address", "capacity", "index", "last_taken", "lease", "memory")

    def __init__(self, index: int, memory: memoryview) -> None:
        self.index = index
        self.memory = memory
        self.capacity = memory.nbytes
        self.address: int = _lease(memory).ctypes.data
        self.last_taken = 0
        self.lease: weakref.ref[Any] | None = None


class SlotPool:
    """The sender's slots, at most `budget` bytes of them, made as they are needed.

    `failure` is the error that ended the making of slots, if one did; what does not fit into the
    slots there are then travels by the socket.
    """

    def __init__(self, lending: SlotTable, budget: int) -> None:
        self.failure: OSError | None = None
        self._lending = lending
        self._owner = os.getpid()
        self._budget = budget
        self._slots: dict[int, Slot] = {}
        self._bytes = 0
        self._news: list[SlotUpdate] = []
        self._takes = 0
        self._lock = threading.Lock()

    def allocate(self, shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
        """An uninitialised array, in a slot of its own if it is large and a slot can be had."""
        dtype = np.dtype(dtype)
        nbytes = dtype.itemsize * (shape if isinstance(shape, int) else math.prod(shape))
        if nbytes < MIN_SLOT_BYTES or dtype.hasobject:
            return np.empty(shape, dtype)
        memory = self.take(nbytes)
        if memory is None:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, memory)

    def take(self, nbytes: int) -> memoryview | None:
        """Memory of a free slot with room for `nbytes`, or None if there is and can be none.

        The slot is not free again before the memory and all arrays over it are gone.
        """
        if os.getpid() != self._owner:  # a fork of the sender: the slots are not its own
            return None
        with self._lock:
            slot = self._free_slot(nbytes)
            if slot is None:
                return None
            self._takes += 1
            slot.last_taken = self._takes
            lease = _lease(slot.memory)
            slot.lease = weakref.ref(lease)
            if self._takes % _TRIM_EVERY == 0:
                self._trim()
        return memoryview(lease)

    def slot_of(self, buffer: memoryview) -> tuple[int, int] | None:
        """The slot in which `buffer` lies and where in it, if it can be sent as it lies there.

        It cannot while the slot is with the receiver, who may hand it back at any moment.
        """
        address = np.frombuffer(buffer, np.uint8).ctypes.data
        for slot in list(self._slots.values()):
            offset = address - slot.address
            if offset >= 0 and offset + buffer.nbytes <= slot.capacity:
                return None if self._lending.lent[slot.index] else (slot.index, offset)
        return None

    def lend(self, index: int) -> None:
        """Marks the slot as being with the receiver."""
        self._lending.lent[index] = 1

    def take_news(self) -> list[SlotUpdate]:
        """What the receiver has to be told about slots made and dropped since the last call."""
        if not self._news:
            return []
        with self._lock:
            news, self._news = self._news, []
        return news

    def close(self) -> None:
        """Closes the descriptors that were never sent and forgets all slots."""
        for item in self.take_news():
            if item.fd >= 0:
                os.close(item.fd)
        self._slots.clear()
        self._budget = 0

    def _free_slot(self, nbytes: int) -> Slot | None:
        fitting: Slot | None = None
        others: list[Slot] = []
        for slot in self._slots.values():
            if not self._is_free(slot):
                continue
            if slot.capacity < nbytes:
                others.append(slot)
            elif fitting is None:
                fitting = slot
            elif slot.capacity < fitting.capacity:
                others.append(fitting)
                fitting = slot
            else:
                others.append(slot)
        # A much larger slot is left for what needs it, as long as a fitting one can be made.
        if fitting is not None and fitting.capacity <= 4 * max(nbytes, MIN_SLOT_BYTES):
            return fitting
        return self._make(_rounded(nbytes), others) or fitting

    def _make(self, size: int, replaceable: list[Slot]) -> Slot | None:
        if self.failure is not None or self._lending.refused or len(self._news) >= _MAX_NEWS:
            return None
        replaceable.sort(key=lambda slot: slot.last_taken, reverse=True)
        while self._bytes + size > self._budget or len(self._slots) == MAX_SLOTS:
            if not replaceable:
                return None
            self._drop(replaceable.pop())
        index = next(i for i in range(MAX_SLOTS) if i not in self._slots)
        try:
            fd = segments.create(size)
            try:
                memory = segments.map_shared(fd, size)
            except BaseException:
                os.close(fd)
                raise
        except OSError as error:
            self.failure = error
            return None
        slot = Slot(index, memory)
        self._slots[index] = slot
        self._bytes += size
        self._news.append(SlotUpdate(index, size, fd))
        return slot

    def _is_free(self, slot: Slot) -> bool:
        if self._lending.lent[slot.index]:
            return False
        return slot.lease is None or slot.lease() is None

    def _drop(self, slot: Slot) -> None:
        del self._slots[slot.index]
        self._bytes -= slot.capacity
        for item in self._news:
            if item.slot == slot.index and item.fd >= 0:
                os.close(item.fd)
        self._news = [item for item in self._news if item.slot != slot.index]
        self._news.append(SlotUpdate(slot.index, 0, -1))

    def _trim(self) -> None:
        """Gives back the memory of slots that a passing need left behind."""
        horizon = self._takes - _TRIM_AFTER
        for slot in list(self._slots.values()):
            if slot.last_taken < horizon and self._is_free(slot):
                self._drop(slot)


class SlotViews:
    """The receiver's mappings of the sender's slots.

    `failure` is the error for which the last slot could not be mapped, if one could not.
    """

    def __init__(self, lending: SlotTable) -> None:
        self.failure: OSError | None = None
        self._lending = lending
        self._mapped: dict[int, memoryview] = {}
        self._unmapped: dict[int, tuple[int, int]] = {}
        self._leases: dict[int, weakref.ref[Any]] = {}

    def hear(self, index: int, capacity: int, fd: int) -> None:
        """Takes note of a slot made or dropped, and takes over `fd`."""
        self._forget(index)
        if capacity == 0:
            return
        try:
            self._mapped[index] = segments.map_shared(fd, capacity)
        except OSError as error:
            # No room for it in this process: it is read by copying, and no more are to be made.
            self._unmapped[index] = (fd, capacity)
            self._lending.refuse()
            self.failure = error
        else:
            os.close(fd)

    def lease(self, index: int) -> memoryview:
        """The slot's memory; the slot goes back when this and all arrays over it are gone."""
        if index in self._unmapped:
            copy = _read(*self._unmapped[index])
            self.hand_back(index)
            return copy
        lease = _lease(self._mapped[index])
        lent, owner, getpid = self._lending.lent, os.getpid(), os.getpid

        def hand_back(_: object) -> None:  # in any thread, at any time: one store, no lock
            if getpid() == owner:  # a fork's copies of the arrays do not count
                lent[index] = 0

        self._leases[index] = weakref.ref(lease, hand_back)
        return memoryview(lease)

    def hand_back(self, index: int) -> None:
        """Returns a slot that nobody looked at."""
        self._lending.lent[index] = 0

    def close(self) -> None:
        """Lets go of all slots; arrays over them stay valid."""
        for index in [*self._mapped, *self._unmapped]:
            self._forget(index)

    def _forget(self, index: int) -> None:
        self._mapped.pop(index, None)
        if index in self._unmapped:
            fd, _ = self._unmapped.pop(index)
            os.close(fd)


def _rounded(nbytes: int) -> int:
    """The size of a slot for `nbytes`: a little more, so that batches of like size share slots."""
    step = max(MIN_SLOT_BYTES, 1 << max(0, nbytes.bit_length() - 4))
    return -(-nbytes // step) * step


def _lease(memory: memoryview) -> NDArray[np.uint8]:
    """A new object that lives exactly as long as there are arrays over it.

    It must lie over the memory directly: an array made over an array that lies over a third one
    refers to the third and skips the one between.
    """
    return np.frombuffer(memory, np.uint8)


def _read(fd: int, size: int) -> memoryview:
    memory, done = memoryview(bytearray(size)), 0
    while done < size:
        done += os.preadv(fd, [memory[done:]], done)
    return memory


def explain_failure(failure: OSError) -> str:
    """What to tell the user when slots cannot be had."""
    return (
        f"Shared memory for worker processes could not be had ({failure}). Arrays are sent by "
        "socket instead, which is slower. Fewer workers or smaller buffers need less memory."
    )
