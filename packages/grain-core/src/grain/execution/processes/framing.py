"""Layout of the messages between a pool and its workers.

A frame is a header, slot updates, a table of buffer locations, and a body of bytes. Buffer 0 is a pickle, the
others are the buffers it refers to; each lies in a slot or in the body. A frame without a table is a pickle
alone. Descriptors of new slots travel with the first byte of their frame.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from grain.execution.processes.array_pickling import Pickled
from grain.execution.processes.slots import SlotUpdate


class FrameKind:
    """Meaning of a frame. Plain numbers, as they are packed and compared for every frame."""

    TASK = 1
    RESULT = 2
    ERROR = 3
    """The task (or, with ticket 0, the start of the worker) raised."""
    SKIPPED = 4
    """The task was cancelled before the worker started it."""
    WARNING = 5
    """A text to be shown to the user as a warning."""
    DEFINE = 6
    """A part for the job; the ticket is its number, an empty body only advances the sequence."""
    RELEASE = 7
    """The end of a part; the ticket is its number."""
    ACCEPTED = 8
    """The worker computes the task in the background and reads further tasks meanwhile."""
    RETIRE = 9
    """The worker exits for a reason of its own; a text."""


class BufferLocation(NamedTuple):
    """Location of one buffer: in slot `slot` or, if that is -1, in the body of the frame."""

    slot: int
    readonly: bool
    offset: int
    length: int


class Frame(NamedTuple):
    """A received message.

    `sequence` is the number of definitions for all workers sent before the frame (for a definition: up to
    and including it). Tasks and definitions travel over different sockets.
    """

    kind: int
    ticket: int
    buffers: list[BufferLocation]
    body: bytearray | memoryview
    sequence: int


_HEADER = struct.Struct("<BxHIQQQ")  # kind, updates, buffers, ticket, bytes of the body, sequence
_UPDATE = struct.Struct("<QQ")
_BUFFER = struct.Struct("<qQQQ")
# All sizes are multiples of 16 and buffers start at multiples of ALIGNMENT, so that arrays over a
# received body are aligned.
ALIGNMENT = 64
HEADER_BYTES = _HEADER.size


def head(
    kind: int,
    ticket: int,
    body_bytes: int,
    updates: Iterable[SlotUpdate] = (),
    buffers: Iterable[BufferLocation] = (),
    sequence: int = 0,
) -> bytes:
    """Return the bytes of a frame before its body."""
    update_bytes = b"".join([_UPDATE.pack(item.slot, item.capacity) for item in updates])
    buffer_bytes = b"".join([_BUFFER.pack(*location) for location in buffers])
    return b"".join(
        (
            _HEADER.pack(
                kind,
                len(update_bytes) // _UPDATE.size,
                len(buffer_bytes) // _BUFFER.size,
                ticket,
                body_bytes,
                sequence,
            ),
            update_bytes,
            buffer_bytes,
        )
    )


def inline_rest(
    buffers: list[memoryview], locations: list[BufferLocation | None]
) -> tuple[list[BufferLocation], list[bytes | memoryview]]:
    """Put the buffers without a location into a body; return the full table and the body."""
    table: list[BufferLocation] = []
    body: list[bytes | memoryview] = []
    offset = 0
    for buffer, location in zip(buffers, locations, strict=True):
        table.append(location or BufferLocation(-1, buffer.readonly, offset, buffer.nbytes))
        if location is None:
            padding = -buffer.nbytes % ALIGNMENT
            body.extend((buffer, bytes(padding)))
            offset += buffer.nbytes + padding
    return table, body


def inline_frame(kind: int, ticket: int, pickled: Pickled, sequence: int = 0) -> bytes:
    """Return a frame without slots, as one bytes object."""
    stream, buffers = pickled
    if not buffers:
        return head(kind, ticket, len(stream), sequence=sequence) + stream
    buffers = [memoryview(stream), *buffers]
    locations, body = inline_rest(buffers, [None] * len(buffers))
    body_bytes = sum(map(len, body))
    return b"".join([head(kind, ticket, body_bytes, buffers=locations, sequence=sequence), *body])


def frame_size(data: memoryview) -> int:
    """Return the length of the frame that starts at `data`, which holds its header at least."""
    _, updates, buffers, _, body, _ = _HEADER.unpack_from(data)
    size: int = HEADER_BYTES + updates * _UPDATE.size + buffers * _BUFFER.size + body
    return size


def ticket_of(data: bytes) -> int:
    """Return the ticket of a frame."""
    ticket: int = _HEADER.unpack_from(data)[3]
    return ticket


def parse(data: memoryview, *, own: bool) -> tuple[Frame, list[tuple[int, int]]]:
    """Return a whole frame and its slot updates, as (slot, capacity) pairs.

    Args:
        data: The bytes of the frame.
        own: Whether the frame's body may be a view of `data`; otherwise it is a copy.
    """
    kind, update_count, buffer_count, ticket, body_bytes, sequence = _HEADER.unpack_from(data)
    offset = HEADER_BYTES
    updates: list[tuple[int, int]] = []
    if update_count:
        end = offset + update_count * _UPDATE.size
        updates.extend(_UPDATE.iter_unpack(data[offset:end]))
        offset = end
    buffers: list[BufferLocation] = []
    if buffer_count:
        end = offset + buffer_count * _BUFFER.size
        for slot, readonly, start, length in _BUFFER.iter_unpack(data[offset:end]):
            buffers.append(BufferLocation(slot, bool(readonly), start, length))
        offset = end
    body = data[offset : offset + body_bytes]
    frame = Frame(kind, ticket, buffers, body if own else bytearray(body), sequence)
    return frame, updates


def aligned(offset: int) -> int:
    """Return the next multiple of ALIGNMENT."""
    return -(-offset // ALIGNMENT) * ALIGNMENT
