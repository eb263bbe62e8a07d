"""Loans of shared memory: what a gateway and an actor on its machine say to each other.

The gateway owns the slots that the consumer maps. An actor of the same machine borrows some, writes its
results there, and hands them over; the reply that travels through Ray only says where the memory is. They
talk over a Unix socket, one request and one answer at a time. A descriptor can only be received from a
process of the same machine, so a slot that was borrowed is the proof that both are on one.
"""

from __future__ import annotations

import json
import socket
from typing import Any, NamedTuple

from grain.execution.processes import segments

# Of smaller arrays, copies through Ray cost less than a request.
MIN_LOAN_BYTES = 1 << 20
# Longest wait for the other side while a connection is made.
CONNECT_SECONDS = 10.0

# Requests are lists of numbers, of a few bytes each.
_MAX_MESSAGE = 1 << 17


class Invitation(NamedTuple):
    """Where an actor can borrow slots, and the secret that shows which actor it is."""

    address: str
    token: str


class SlotRegion(NamedTuple):
    """A buffer of a result in a slot: the array of the payload that it is, and where it lies."""

    array: int
    serial: int
    offset: int
    size: int


class Handover(NamedTuple):
    """The slots of one result: the number under which the gateway keeps them, and the buffers in them."""

    number: int
    regions: list[SlotRegion]


class Request(NamedTuple):
    """What an actor asks for.

    Attributes:
        take: Size of the slot that it wants; 0 for none.
        hand_over: Serial numbers of the slots of a result; empty for none.
        returned: Serial numbers of slots over which it has no arrays any more. Slots that are handed over
            with the same request stay with the gateway.
    """

    take: int
    hand_over: list[int]
    returned: list[int]


class Answer(NamedTuple):
    """What the gateway answers.

    Attributes:
        serial: Serial number of the slot that was lent; 0 for none.
        size: Its size.
        number: The number under which the slots of the result are kept.
        dropped: Serial numbers of slots that exist no more: the actor unmaps them.
    """

    serial: int = 0
    size: int = 0
    number: int = 0
    dropped: tuple[int, ...] = ()


def send(connection: socket.socket, message: tuple[Any, ...], fd: int | None = None) -> None:
    """Send a message, with a descriptor or without."""
    data = json.dumps(message).encode()
    socket.send_fds(connection, [data], [] if fd is None else [fd])


def receive(connection: socket.socket) -> tuple[list[Any], segments.OwnedDescriptor | None]:
    """Return the next message and its descriptor; raise EOFError if the other side is gone."""
    data, fds, flags, _ = socket.recv_fds(
        connection, _MAX_MESSAGE, 1, getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    )
    owned = [segments.OwnedDescriptor(fd) for fd in fds]
    if not data:
        raise EOFError
    if flags & (socket.MSG_CTRUNC | socket.MSG_TRUNC):
        raise OSError(f"a message of {len(data)} bytes or its descriptor was cut off")
    return json.loads(data), owned[0] if owned else None
