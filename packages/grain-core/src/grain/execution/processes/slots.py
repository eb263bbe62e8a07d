"""Slots: shared memory that is created once, lent to the receiver with each message, and reused.

The sender owns its slots (`SlotPool`); the receiver maps them and reads in place (`SlotViews`). A slot is
free when the receiver has returned it and the sender holds no array over it either. The byte of the slot
in the `SlotTable` records the loan: the sender sets it, the receiver clears it, and neither waits for the
other. Nothing here blocks: when no slot is free and none can be created, arrays travel over the socket.

A sender may let other processes of its machine write for it (`take_shared`): it passes them the descriptor
of a slot, and keeps the memory that it took until they have written and hold no array over the slot. A slot
whose writer was lost is retired: that process may still write, so the slot is never taken again.

Lifetime: arrays over a slot keep its mapping alive after pool, views and worker are gone. A fork of either
process must not return slots, so leases remember the process they belong to.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from grain._policy import current_policy
from grain.execution.processes import segments
from grain.execution.processes.control import MAX_SLOTS, SlotTable
from grain.memory.allocation import Shape

# Smaller arrays get no slot of their own: they are packed with others, or sent over the socket.
MIN_SLOT_BYTES = 64 * 1024

_MAX_UPDATES = 200  # fewer than the descriptors that fit in one message


class SlotUpdate(NamedTuple):
    """A slot that was created (with its descriptor for the receiver) or dropped (capacity 0, fd -1)."""

    slot: int
    capacity: int
    fd: int


class SharedSlot(NamedTuple):
    """A slot that was taken for another process; the serial number is that of no other slot, ever."""

    serial: int
    memory: memoryview
    fd: segments.OwnedDescriptor


class Slot:
    """One segment of the sender."""

    __slots__ = (
        "address",
        "capacity",
        "fd",
        "index",
        "last_taken",
        "lease",
        "memory",
        "retired",
        "serial",
    )

    def __init__(self, index: int, serial: int, memory: memoryview) -> None:
        self.index = index
        self.serial = serial
        self.fd: segments.OwnedDescriptor | None = None  # of slots for other processes only
        self.retired = False
        self.memory = memory
        self.capacity = memory.nbytes
        self.address: int = _lease(memory).ctypes.data
        self.last_taken = 0
        self.lease: weakref.ref[Any] | None = None


class SlotPool:
    """The sender's slots, created when needed.

    Args:
        table: Records which slots are lent.
        budget: Most bytes of all slots together.

    Attributes:
        failure: The error that ended the creation of slots, if one did; what does not fit into the
            existing slots then travels over the socket.
    """

    def __init__(self, table: SlotTable, budget: int) -> None:
        policy = current_policy()
        self.failure: OSError | None = None
        self.table = table
        self._trim_interval = policy.slot_trim_interval
        self._trim_age = policy.slot_trim_age
        self._owner = os.getpid()
        self._budget = budget
        self._slots: dict[int, Slot] = {}
        self._bytes = 0
        self._updates: list[SlotUpdate] = []
        self._takes = 0
        self._serials = itertools.count(1)
        self._lock = threading.Lock()

    def allocate(self, shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
        """Return an uninitialised array, in its own slot if it is large and a slot is available."""
        dtype = np.dtype(dtype)
        nbytes = dtype.itemsize * (shape if isinstance(shape, int) else math.prod(shape))
        if nbytes < MIN_SLOT_BYTES or dtype.hasobject:
            return np.empty(shape, dtype)
        memory = self.take(nbytes)
        if memory is None:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, memory)

    def take(self, nbytes: int) -> memoryview | None:
        """Return memory of a free slot with room for `nbytes`, or None if no slot is available.

        The slot is not free again before the memory and all arrays over it are gone.
        """
        if os.getpid() != self._owner:  # in a fork, the slots belong to the parent
            return None
        with self._lock:
            slot = self._free_slot(nbytes)
            return None if slot is None else self._use(slot)

    def take_shared(self, nbytes: int) -> SharedSlot | None:
        """Return a free slot that another process can map, or None if no slot is available.

        The slot is not free again before its memory here and all arrays over it are gone; the caller knows
        how long the other process needs it.
        """
        if os.getpid() != self._owner:
            return None
        with self._lock:
            slot = self._free_slot(nbytes, shared=True)
            if slot is None or slot.fd is None:
                return None
            return SharedSlot(slot.serial, self._use(slot), slot.fd)

    def retire(self, serial: int) -> None:
        """Never take a slot again, because another process may still write to it."""
        with self._lock:
            for slot in self._slots.values():
                if slot.serial == serial:
                    slot.retired = True

    def serials(self) -> set[int]:
        """Return the serial numbers of all slots that exist."""
        with self._lock:
            return {slot.serial for slot in self._slots.values()}

    def _use(self, slot: Slot) -> memoryview:
        self._takes += 1
        slot.last_taken = self._takes
        lease = _lease(slot.memory)
        slot.lease = weakref.ref(lease)
        if self._takes % self._trim_interval == 0:
            self._trim()
        return memoryview(lease)

    def slot_of(self, buffer: memoryview) -> tuple[int, int] | None:
        """Return the slot and offset of `buffer` if it can be sent from there.

        A buffer in a lent slot cannot: the receiver may return the slot at any moment.
        """
        address = np.frombuffer(buffer, np.uint8).ctypes.data
        for slot in list(self._slots.values()):
            offset = address - slot.address
            if offset >= 0 and offset + buffer.nbytes <= slot.capacity:
                return None if self.table.lent[slot.index] else (slot.index, offset)
        return None

    def lend(self, index: int) -> None:
        """Mark the slot as lent to the receiver."""
        self.table.lent[index] = 1

    def take_updates(self) -> list[SlotUpdate]:
        """Return the slots created and dropped since the last call, for the receiver."""
        if not self._updates:
            return []
        with self._lock:
            updates, self._updates = self._updates, []
        return updates

    def close(self) -> None:
        """Close the descriptors that were never sent and drop all slots."""
        for item in self.take_updates():
            if item.fd >= 0:
                os.close(item.fd)
        self._slots.clear()
        self._budget = 0

    def _free_slot(self, nbytes: int, *, shared: bool = False) -> Slot | None:
        fitting: Slot | None = None
        others: list[Slot] = []
        for slot in list(self._slots.values()):
            if not self._is_free(slot):
                continue
            if slot.retired:
                self._drop(slot)
            elif slot.capacity < nbytes or (shared and slot.fd is None):
                others.append(slot)
            elif fitting is None:
                fitting = slot
            elif slot.capacity < fitting.capacity:
                others.append(fitting)
                fitting = slot
            else:
                others.append(slot)
        # A much larger slot is used only if a fitting one cannot be created.
        if fitting is not None and fitting.capacity <= 4 * max(nbytes, MIN_SLOT_BYTES):
            return fitting
        return self._create(_rounded(nbytes), others, shared) or fitting

    def _create(self, size: int, replaceable: list[Slot], shared: bool) -> Slot | None:
        if self.failure is not None or self.table.refused or len(self._updates) >= _MAX_UPDATES:
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
        slot = Slot(index, next(self._serials), memory)
        if shared:
            with contextlib.suppress(OSError):  # Too many open files: it is a slot of this process.
                slot.fd = segments.OwnedDescriptor(os.dup(fd))
        self._slots[index] = slot
        self._bytes += size
        self._updates.append(SlotUpdate(index, size, fd))
        return slot

    def _is_free(self, slot: Slot) -> bool:
        if self.table.lent[slot.index]:
            return False
        return slot.lease is None or slot.lease() is None

    def _drop(self, slot: Slot) -> None:
        del self._slots[slot.index]
        self._bytes -= slot.capacity
        for item in self._updates:
            if item.slot == slot.index and item.fd >= 0:
                os.close(item.fd)
        self._updates = [item for item in self._updates if item.slot != slot.index]
        self._updates.append(SlotUpdate(slot.index, 0, -1))

    def _trim(self) -> None:
        """Free slots that were not used for a long time."""
        horizon = self._takes - self._trim_age
        for slot in list(self._slots.values()):
            if slot.last_taken < horizon and self._is_free(slot):
                self._drop(slot)


_own_slots: SlotPool | None = None


def install_own_slots(pool: SlotPool) -> None:
    """Record the slots in which this worker process sends its results."""
    global _own_slots
    _own_slots = pool


def own_slots() -> SlotPool | None:
    """Return the slots in which this worker process sends its results; None if it is no worker."""
    return _own_slots


class SlotViews:
    """The receiver's mappings of the sender's slots.

    Attributes:
        failure: The error of the last slot that could not be mapped, if one could not.
    """

    def __init__(self, table: SlotTable) -> None:
        self.failure: OSError | None = None
        self._table = table
        self._mapped: dict[int, memoryview] = {}
        self._unmapped: dict[int, tuple[segments.OwnedDescriptor, int]] = {}
        self._leases: dict[int, weakref.ref[Any]] = {}

    def update(self, index: int, capacity: int, fd: segments.OwnedDescriptor | None) -> None:
        """Map a new slot, or unmap a dropped one (without a descriptor)."""
        self._unmap(index)
        if fd is None:
            return
        try:
            self._mapped[index] = segments.map_shared(fd, capacity)
        except OSError as error:
            # No address space for it: it is read by copying, and the sender creates no more.
            self._unmapped[index] = (fd, capacity)
            self._table.refuse()
            self.failure = error

    def lease(self, index: int) -> memoryview:
        """Return the slot's memory; the slot is returned when this and all arrays over it are gone."""
        if index in self._unmapped:
            copy = _read(*self._unmapped[index])
            self.give_back(index)
            return copy
        lease = _lease(self._mapped[index])
        lent, owner, getpid = self._table.lent, os.getpid(), os.getpid

        def give_back(_: object) -> None:  # in any thread, at any time: one store, no lock
            if getpid() == owner:  # a fork's copies of the arrays do not count
                lent[index] = 0

        self._leases[index] = weakref.ref(lease, give_back)
        return memoryview(lease)

    def give_back(self, index: int) -> None:
        """Return a slot that was not read."""
        self._table.lent[index] = 0

    def close(self) -> None:
        """Unmap all slots; arrays over them stay valid."""
        for index in [*self._mapped, *self._unmapped]:
            self._unmap(index)

    def _unmap(self, index: int) -> None:
        self._mapped.pop(index, None)
        self._unmapped.pop(index, None)


def _rounded(nbytes: int) -> int:
    """Return the size of a slot for `nbytes`, rounded up so that batches of similar size share slots."""
    step = max(MIN_SLOT_BYTES, 1 << max(0, nbytes.bit_length() - 4))
    return -(-nbytes // step) * step


def _lease(memory: memoryview) -> NDArray[np.uint8]:
    """Return a new object that lives exactly as long as there are arrays over it.

    It is a view of the memory itself: numpy sets the base of a view to the owner of the memory, and would
    skip an array in between.
    """
    return np.frombuffer(memory, np.uint8)


def _read(fd: int, size: int) -> memoryview:
    memory, done = memoryview(bytearray(size)), 0
    while done < size:
        done += os.preadv(fd, [memory[done:]], done)
    return memory


def explain_failure(failure: OSError) -> str:
    """Return the warning for a pool that cannot create or map slots."""
    return (
        f"Could not allocate shared memory for worker processes ({failure}); falling back to sockets, which "
        "is slower. Use fewer workers or smaller buffers."
    )
