"""The messages between a pool and its workers, and how they are laid out on a socket.

A frame is a header, news about slots, a table of parts, and a body of bytes. Part 0 is a pickle,
the others are the buffers it refers to; each lies in a slot or in the body. A frame without a table
is a pickle alone. Descriptors of new slots ride along with the first byte of their frame.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from grain.execution.processes.array_pickling import Pickled
from grain.execution.processes.slots import SlotUpdate


class Kind:
    """What a frame means. Plain numbers, as they are packed and compared for every frame."""

    TASK = 1
    RESULT = 2
    ERROR = 3
    """The task (or, with ticket 0, the start of the worker) raised."""
    SKIPPED = 4
    """The task was cancelled before the worker came to it."""
    WARNING = 5
    """A text to be given to the user as a warning."""


class Part(NamedTuple):
    """Where one buffer lies: in slot `slot` or, if that is -1, among the bytes of the frame."""

    slot: int
    readonly: bool
    offset: int
    length: int


class Frame(NamedTuple):
    """A message as it was received."""

    kind: int
    ticket: int
    parts: list[Part]
    body: bytearray | memoryview


_HEADER = struct.Struct("<BxHIQQ8x")  # kind, news, parts, ticket, bytes of the body
_NEWS = struct.Struct("<QQ")
_PART = struct.Struct("<qQQQ")
# All sizes are multiples of 16 and parts start at multiples of ALIGNMENT, so that arrays over a
# received body are aligned.
ALIGNMENT = 64
HEADER_BYTES = _HEADER.size


def head(
    kind: int,
    ticket: int,
    body_bytes: int,
    news: Iterable[SlotUpdate] = (),
    parts: Iterable[Part] = (),
) -> bytes:
    """All of a frame that comes before its body."""
    news_bytes = b"".join([_NEWS.pack(item.slot, item.capacity) for item in news])
    part_bytes = b"".join([_PART.pack(*part) for part in parts])
    return b"".join(
        (
            _HEADER.pack(
                kind,
                len(news_bytes) // _NEWS.size,
                len(part_bytes) // _PART.size,
                ticket,
                body_bytes,
            ),
            news_bytes,
            part_bytes,
        )
    )


def inline_rest(
    pieces: list[memoryview], parts: list[Part | None]
) -> tuple[list[Part], list[bytes | memoryview]]:
    """Puts the pieces that have no place yet into a body; the full table, and that body."""
    table: list[Part] = []
    body: list[bytes | memoryview] = []
    at = 0
    for piece, part in zip(pieces, parts, strict=True):
        table.append(part or Part(-1, piece.readonly, at, piece.nbytes))
        if part is None:
            padding = -piece.nbytes % ALIGNMENT
            body.extend((piece, bytes(padding)))
            at += piece.nbytes + padding
    return table, body


def inline_frame(kind: int, ticket: int, pickled: Pickled) -> bytes:
    """A frame that needs no slots, in one piece."""
    stream, buffers = pickled
    if not buffers:
        return head(kind, ticket, len(stream)) + stream
    pieces = [memoryview(stream), *buffers]
    parts, body = inline_rest(pieces, [None] * len(pieces))
    return b"".join([head(kind, ticket, sum(map(len, body)), parts=parts), *body])


def frame_size(data: memoryview) -> int:
    """The length of the frame that starts here; `data` holds its header at least."""
    _, news, parts, _, body = _HEADER.unpack_from(data)
    size: int = HEADER_BYTES + news * _NEWS.size + parts * _PART.size + body
    return size


def parse(data: memoryview, *, own: bool) -> tuple[Frame, list[tuple[int, int]]]:
    """A whole frame and its news, as (slot, capacity) pairs.

    With `own` the frame's body is part of `data`, else a copy of it.
    """
    kind, news_count, part_count, ticket, body_bytes = _HEADER.unpack_from(data)
    at = HEADER_BYTES
    news: list[tuple[int, int]] = []
    if news_count:
        end = at + news_count * _NEWS.size
        news.extend(_NEWS.iter_unpack(data[at:end]))
        at = end
    parts: list[Part] = []
    if part_count:
        end = at + part_count * _PART.size
        for slot, readonly, offset, length in _PART.iter_unpack(data[at:end]):
            parts.append(Part(slot, bool(readonly), offset, length))
        at = end
    body = data[at : at + body_bytes]
    return Frame(kind, ticket, parts, body if own else bytearray(body)), news


def aligned(offset: int) -> int:
    """The next multiple of ALIGNMENT."""
    return -(-offset // ALIGNMENT) * ALIGNMENT
