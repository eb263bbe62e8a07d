"""The gateway's side of loans: slots for the actors that run on its machine.

A slot that an actor has borrowed stays with it until the actor returns it. The slots of a result are kept,
from the request that hands them over, until the reply to the task arrives through Ray and claims them. So a
slot is free again only when actor, reply and consumer are done with it.

Loss: an actor that is gone, or cut off, may still write to what it borrowed. These slots are retired: no
later result uses them, and their memory is freed when the consumer has none of it. A result that was not
claimed is dropped when the actor is given up.

Threads: one accepts connections and one serves each actor; the other methods may be called in any thread.
Nothing here waits for an actor.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import socket
import threading
from collections.abc import Iterator

from grain.execution.processes.slots import SlotPool
from grain_ray.loans import CONNECT_SECONDS, Answer, Invitation, Request, receive, send

# Descriptors are passed between processes of one machine only, and this system has unnamed memory to pass.
SUPPORTED = hasattr(os, "memfd_create") and hasattr(socket, "SOCK_SEQPACKET")


class _Borrower:
    """One actor: the slots that it has, and the results that were not claimed."""

    def __init__(self) -> None:
        self.connection: socket.socket | None = None
        self.borrowed: dict[int, memoryview] = {}
        self.results: dict[int, dict[int, memoryview]] = {}
        self.mapped: set[int] = set()
        self.revoked = False


class SlotLender:
    """Lends slots to the actors that were invited.

    Args:
        slots: The slots in which this process sends results to the consumer.
    """

    def __init__(self, slots: SlotPool):
        self._slots = slots
        self._lock = threading.Lock()
        self._borrowers: dict[str, _Borrower] = {}
        self._connections: set[socket.socket] = set()
        self._numbers = itertools.count(1)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The leading zero makes it a name without a file, which ends with this process.
        self._address = f"\0grain-{secrets.token_hex(16)}"
        self._listener.bind(self._address)
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept, name="grain-lender", daemon=True)]
        self._threads[0].start()

    @property
    def lent(self) -> int:
        """Number of slots that actors have, or that no reply has claimed."""
        with self._lock:
            return sum(
                len(borrower.borrowed) + sum(map(len, borrower.results.values()))
                for borrower in self._borrowers.values()
            )

    def invite(self) -> Invitation:
        """Return what one actor needs to borrow slots, until `revoke`."""
        token = secrets.token_hex(16)
        with self._lock:
            self._borrowers[token] = _Borrower()
        return Invitation(self._address, token)

    def claim(self, invitation: Invitation, number: int) -> dict[int, memoryview] | None:
        """Return the slots of a result by serial number, once; None if the actor was given up."""
        with self._lock:
            borrower = self._borrowers.get(invitation.token)
            return None if borrower is None else borrower.results.pop(number, None)

    def revoke(self, invitation: Invitation) -> None:
        """Give up an actor: it gets no more slots, and what it has is not used again."""
        with self._lock:
            borrower = self._borrowers.pop(invitation.token, None)
            if borrower is None:
                return
            borrower.revoked = True
            borrower.results.clear()
            self._retire_borrowed(borrower)
            _hang_up(borrower.connection)

    def close(self) -> None:
        """Give up all actors."""
        for token in list(self._borrowers):
            self.revoke(Invitation(self._address, token))
        with self._lock:
            connections = [self._listener, *self._connections]
        for connection in connections:
            _hang_up(connection)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _retire_borrowed(self, borrower: _Borrower) -> None:
        for serial in borrower.borrowed:
            self._slots.retire(serial)
        borrower.borrowed.clear()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # It was closed.
                return
            with self._lock:
                self._connections.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        """Answer the requests of one actor until it is gone."""
        # A request that makes no sense ends the connection, like its loss.
        failures = (OSError, EOFError, ValueError, TypeError, LookupError)
        with connection, contextlib.suppress(*failures), self._connected(connection):
            connection.settimeout(CONNECT_SECONDS)
            (token,), _ = receive(connection)
            connection.settimeout(None)
            with self._lock:
                borrower = self._borrowers.get(token)
                if borrower is None or borrower.connection is not None:
                    return
                borrower.connection = connection
            try:
                send(connection, Answer())
                while True:
                    message, _ = receive(connection)
                    self._answer(borrower, connection, Request(*message))
            finally:
                with self._lock:
                    self._retire_borrowed(borrower)
                    borrower.revoked = True

    @contextlib.contextmanager
    def _connected(self, connection: socket.socket) -> Iterator[None]:
        try:
            yield
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _answer(self, borrower: _Borrower, connection: socket.socket, request: Request) -> None:
        serial = size = number = 0
        fd = None
        with self._lock:
            if borrower.revoked:
                raise EOFError
            if request.hand_over:
                number = next(self._numbers)
                borrower.results[number] = {s: borrower.borrowed[s] for s in request.hand_over}
            for returned in request.returned:
                del borrower.borrowed[returned]
            taken = self._slots.take_shared(request.take) if request.take else None
            if taken is not None:
                serial, size = taken.serial, taken.memory.nbytes
                borrower.borrowed[serial] = taken.memory
                if serial not in borrower.mapped:
                    fd = taken.fd
                    borrower.mapped.add(serial)
            # The slot is free when the actor has returned it, not when this thread continues.
            del taken
            dropped = borrower.mapped - self._slots.serials()
            borrower.mapped -= dropped
        send(connection, Answer(serial, size, number, tuple(dropped)), fd)


def _hang_up(connection: socket.socket | None) -> None:
    """Wake the thread that waits for a socket; the thread closes it."""
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
