"""The actor's side of loans: an allocator of slots that the consumer reads, if it is on the same machine.

Batches are assembled in borrowed slots, as in a local worker process. Large arrays of a result that are
elsewhere are copied into one. Where no slot is available, or the gateway is gone, memory of this process
takes its place and travels through Ray.

A slot is returned when no array over it is left, and is sent once: afterwards the consumer may write to it.
The slots of a result are held until the request that hands them over, whatever other threads borrow until
then.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from grain.execution.processes import segments
from grain.memory.allocation import Shape, plain_allocator
from grain_ray.loans import (
    CONNECT_SECONDS,
    MIN_LOAN_BYTES,
    Answer,
    Invitation,
    Request,
    SlotRegion,
    receive,
    send,
)


class _Loan:
    """A slot that this process has mapped."""

    __slots__ = ("address", "lease", "memory", "sent")

    def __init__(self, memory: memoryview):
        self.memory = memory
        self.address: int = np.frombuffer(memory, np.uint8).ctypes.data
        self.lease: weakref.ref[Any] | None = None
        self.sent = False


class SlotBorrower:
    """Slots of the gateway in an actor of the same machine.

    Args:
        invitation: Where to connect. Raises OSError or EOFError where that is another machine.
    """

    def __init__(self, invitation: Invitation):
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._loans: dict[int, _Loan] = {}
        self._returned: deque[int] = deque()
        self._outgoing: dict[int, Any] = {}
        self._connection: socket.socket | None = None
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.settimeout(CONNECT_SECONDS)
            connection.connect(invitation.address)
            send(connection, (invitation.token,))
            receive(connection)
            connection.settimeout(None)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def allocate(self, shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
        """Return an uninitialised array, in a slot if it is large and a slot is available."""
        dtype = np.dtype(dtype)
        nbytes = dtype.itemsize * (shape if isinstance(shape, int) else math.prod(shape))
        if nbytes >= MIN_LOAN_BYTES and not dtype.hasobject:
            memory = self._take(nbytes)
            if memory is not None:
                return np.ndarray(shape, dtype, memory)
        return plain_allocator(shape, dtype)

    def place(self, array: int, buffer: memoryview) -> SlotRegion | None:
        """Return where a buffer of a result lies, copied into a slot if needed; None without a slot.

        The slot is held until `hand_over` or `forget`.
        """
        if buffer.nbytes < MIN_LOAN_BYTES:
            return None
        memory = np.frombuffer(buffer, np.uint8)
        region = self._hold(array, memory)
        if region is not None:
            return region
        lease = self._take(buffer.nbytes)
        if lease is None:
            return None
        copy = np.frombuffer(lease, np.uint8)[: buffer.nbytes]
        np.copyto(copy, memory)
        return self._hold(array, copy)

    def hand_over(self) -> int | None:
        """Pass the slots that are held to the gateway; return their number, or None if it is gone."""
        with self._lock:
            held, self._outgoing = self._outgoing, {}
            for serial in held:
                self._loans[serial].sent = True
            serials = list(held)
            # The gateway reads what is handed over before what is returned.
            held.clear()
            answer = self._ask(0, serials)
            return None if answer is None else answer.number

    def memory_of(self, region: SlotRegion) -> NDArray[np.uint8]:
        """Return the memory of a buffer whose slot could not be handed over."""
        memory = self._loans[region.serial].memory
        return np.frombuffer(memory, np.uint8)[region.offset : region.offset + region.size]

    def forget(self) -> None:
        """Hold no slots for a result: there is none."""
        self._outgoing.clear()

    def close(self) -> None:
        """Borrow nothing more; arrays over slots stay valid."""
        with self._lock:
            self._hang_up()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _hold(self, array: int, memory: NDArray[np.uint8]) -> SlotRegion | None:
        """Hold the slot in which an array lies; return None if it can not be sent from there."""
        address = memory.ctypes.data
        with self._lock:
            for serial, loan in self._loans.items():
                offset = address - loan.address
                if offset >= 0 and offset + memory.nbytes <= loan.memory.nbytes:
                    lease = None if loan.lease is None else loan.lease()
                    if loan.sent or lease is None:
                        return None
                    self._outgoing[serial] = lease
                    return SlotRegion(array, serial, offset, memory.nbytes)
        return None

    def _take(self, nbytes: int) -> memoryview | None:
        if os.getpid() != self._owner:  # In a fork, the slots belong to the parent.
            return None
        with self._lock:
            answer = self._ask(nbytes, [])
            if answer is None or not answer.serial:
                return None
            loan = self._loans[answer.serial]
            lease = np.frombuffer(loan.memory, np.uint8)
            returned, serial = self._returned, answer.serial

            def give_back(_: object) -> None:  # in any thread, at any time: no lock
                returned.append(serial)

            loan.lease = weakref.ref(lease, give_back)
            loan.sent = False
            return memoryview(lease)

    def _ask(self, nbytes: int, hand_over: list[int]) -> Answer | None:
        """Send a request; return the answer, or None if the gateway is gone. Called with the lock held."""
        if self._connection is None:
            return None
        returned = []
        while self._returned:
            returned.append(self._returned.popleft())
        try:
            send(self._connection, Request(nbytes, hand_over, returned))
            message, fd = receive(self._connection)
            answer = Answer(*message)
            for serial in answer.dropped:
                self._loans.pop(serial, None)
            if fd is not None:
                self._loans[answer.serial] = _Loan(segments.map_shared(fd, answer.size))
        except (OSError, EOFError):
            # What was borrowed stays valid here, and the gateway does not use it again.
            self._hang_up()
            return None
        return answer
