"""One end of the talk between a pool and one of its workers: a socket and two sets of slots.

Neither end ever blocks here: what the socket does not take at once is kept and sent by `flush`.
"""

from __future__ import annotations

# The part of `socket` that is written in C. The other one makes hundreds of names that a worker, which is
# to start quickly, has no use for.
import _socket
import array
import os
import select
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from grain.execution.processes import array_pickling, framing
from grain.execution.processes.array_pickling import Pickled
from grain.execution.processes.control import SlotTable
from grain.execution.processes.framing import Frame, Part
from grain.execution.processes.slots import SlotPool, SlotViews

# Buffers of at most this size are sent by the socket, and copied out of a slot rather than left in
# it: a user who keeps a small array must not thereby keep a large slot.
SMALL_BUFFER = 8 * 1024
# More than this in one frame goes into a slot: copying memory is quicker than a socket.
MAX_INLINE = 32 * 1024

_RECEIVE_BYTES = 256 * 1024
_ANCILLARY_BYTES = _socket.CMSG_SPACE(253 * array.array("i").itemsize)
_MAX_VECTOR = 64
_CLOSE_ON_EXEC = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)


class ChannelLostError(OSError):
    """The bytes received no longer make sense; the reason is in the message."""


class _Layout(NamedTuple):
    """Where the parts of a message go, and what of it is sent by the socket."""

    parts: list[Part]
    body: list[bytes | memoryview]
    held: memoryview | None = None  # keeps the slot from being taken again before it is lent


class Channel:
    """Sends pickles with their buffers, and receives frames.

    `sending` and `receiving` are the halves of the control page that tell whose slots are where;
    `budget` is how many bytes of slots this end may make.
    """

    def __init__(
        self, sock: _socket.socket, *, sending: SlotTable, receiving: SlotTable, budget: int
    ) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.slots = SlotPool(sending, budget)
        self.views = SlotViews(receiving)
        self._backlog: deque[memoryview] = deque()
        self._backlog_fds: deque[tuple[memoryview, list[int]]] = deque()
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))
        self._filled = 0
        self._large: memoryview | None = None
        self._large_filled = 0
        self._fds: deque[int] = deque()

    # Sending

    @property
    def backlog(self) -> bool:
        """Whether something still waits for `flush`."""
        return bool(self._backlog)

    def send(self, kind: int, ticket: int, pickled: Pickled) -> None:
        """Sends a frame, large buffers by slot; keeps a copy of what the socket does not take."""
        self._enqueue(kind, ticket, pickled)
        self.flush()
        if self._backlog:  # arrays may change before they are sent; bytes cannot
            kept = [v if isinstance(v.obj, bytes) else memoryview(bytes(v)) for v in self._backlog]
            self._backlog = deque(kept)

    def send_all(self, kind: int, ticket: int, pickled: Pickled) -> None:
        """Sends a frame and waits until the socket has taken all of it."""
        self._enqueue(kind, ticket, pickled)
        self.flush()
        if self._backlog:
            writable = select.poll()
            writable.register(self.socket, select.POLLOUT)
            while self._backlog:
                writable.poll()
                self.flush()

    def _enqueue(self, kind: int, ticket: int, pickled: Pickled) -> None:
        layout = self._place(pickled)
        news = self.slots.take_news()
        body_bytes = sum(map(len, layout.body))
        head = framing.head(kind, ticket, body_bytes, news, layout.parts)
        for index in {part.slot for part in layout.parts if part.slot >= 0}:
            self.slots.lend(index)
        small = body_bytes <= MAX_INLINE
        pieces = [b"".join([head, *layout.body])] if small else [head, *layout.body]
        views = [memoryview(piece) for piece in pieces if len(piece)]
        fds = [item.fd for item in news if item.fd >= 0]
        if fds:
            self._backlog_fds.append((views[0], fds))
        self._backlog.extend(views)

    def flush(self) -> None:
        """Sends as much of the backlog as the socket takes. Raises OSError if the peer is gone."""
        try:
            while self._backlog:
                self._send_some()
        except BlockingIOError:
            return

    def _send_some(self) -> None:
        first = self._backlog[0]
        if self._backlog_fds and self._backlog_fds[0][0] is first:
            fds = self._backlog_fds[0][1]
            rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", fds))
            sent = self.socket.sendmsg([first], [rights])
            self._backlog_fds.popleft()
            for fd in fds:
                os.close(fd)
        elif len(self._backlog) == 1:
            sent = self.socket.send(first)
        else:
            vector = [first]
            for view in list(self._backlog)[1:_MAX_VECTOR]:
                if self._backlog_fds and self._backlog_fds[0][0] is view:
                    break
                vector.append(view)
            sent = self.socket.sendmsg(vector)
        while self._backlog and sent >= len(self._backlog[0]):
            sent -= len(self._backlog.popleft())
        if sent:
            self._backlog[0] = self._backlog[0][sent:]

    def _place(self, pickled: Pickled) -> _Layout:
        stream, buffers = pickled
        if not buffers and len(stream) <= MAX_INLINE:
            return _Layout([], [stream])
        pieces = [memoryview(stream), *buffers]
        small = sum(piece.nbytes for piece in pieces if piece.nbytes <= SMALL_BUFFER)
        limit = SMALL_BUFFER if small <= MAX_INLINE else 0
        parts: list[Part | None] = []
        to_pack: list[int] = []
        room = 0
        for number, piece in enumerate(pieces):
            parts.append(None)
            if piece.nbytes <= limit or (number == 0 and piece.nbytes <= MAX_INLINE):
                continue
            if piece.nbytes > SMALL_BUFFER:
                found = self.slots.slot_of(piece)
                if found is not None:
                    parts[number] = Part(found[0], piece.readonly, found[1], piece.nbytes)
                    continue
            to_pack.append(number)
            room += framing.aligned(piece.nbytes)
        memory = self.slots.take(room) if to_pack else None
        if memory is not None:
            self._pack(pieces, to_pack, parts, memory)
        return _Layout(*framing.inline_rest(pieces, parts), memory)

    def _pack(
        self,
        pieces: list[memoryview],
        numbers: list[int],
        parts: list[Part | None],
        memory: memoryview,
    ) -> None:
        found = self.slots.slot_of(memory)
        assert found is not None, "a slot just taken is not lent"
        target = np.frombuffer(memory, np.uint8)
        at = 0
        for number in numbers:
            piece = pieces[number]
            target[at : at + piece.nbytes] = np.frombuffer(piece, np.uint8)
            parts[number] = Part(found[0], piece.readonly, at, piece.nbytes)
            at += framing.aligned(piece.nbytes)

    # Receiving

    def receive(self) -> list[Frame]:
        """The frames that have fully arrived. Raises EOFError when the peer is gone."""
        if self._large is not None:
            return self._receive_large(self._large)
        count = self._receive_into(self._buffer[self._filled :])
        self._filled += count
        whole: list[Frame] = []
        start = 0
        while self._filled - start >= framing.HEADER_BYTES:
            data = self._buffer[start : self._filled]
            size = framing.frame_size(data)
            if size > len(data):
                if size > len(self._buffer):
                    self._large = memoryview(bytearray(size))
                    self._large[: len(data)] = data
                    self._large_filled = len(data)
                    start = self._filled
                break
            whole.append(self._hear(data[:size], own=False))
            start += size
        rest = self._filled - start
        if start and rest:
            self._buffer[:rest] = bytes(self._buffer[start : self._filled])
        self._filled = rest
        return whole

    def _receive_large(self, large: memoryview) -> list[Frame]:
        self._large_filled += self._receive_into(large[self._large_filled :])
        if self._large_filled < len(large):
            return []
        self._large = None
        return [self._hear(large, own=True)]

    def _receive_into(self, target: memoryview) -> int:
        """Reads once. Returns 0 if there is nothing to read now."""
        try:
            count, ancillary, flags, _ = self.socket.recvmsg_into(
                [target], _ANCILLARY_BYTES, _CLOSE_ON_EXEC
            )
        except BlockingIOError:
            return 0
        for level, kind, data in ancillary:
            if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                fds = array.array("i")
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
                self._fds.extend(fds)
        if flags & _socket.MSG_CTRUNC:
            raise ChannelLostError(
                "a descriptor of shared memory could not be received: this process has as many "
                "files open as it may. Close some, or raise the limit (ulimit -n)"
            )
        if count == 0:
            raise EOFError
        return count

    def _hear(self, data: memoryview, *, own: bool) -> Frame:
        frame, news = framing.parse(data, own=own)
        for index, capacity in news:
            self.views.hear(index, capacity, self._fds.popleft() if capacity else -1)
        return frame

    def decode(self, frame: Frame) -> Any:
        """The object a frame carries; its large arrays lie in their slots."""
        stream, *buffers = self.open(frame)
        return array_pickling.loads(stream, buffers)

    def open(self, frame: Frame) -> list[memoryview]:
        """The pickle and the buffers of a frame; whoever holds them holds their slots."""
        if not frame.parts:
            return [memoryview(frame.body)]
        body = memoryview(frame.body)
        leases: dict[int, memoryview] = {}
        buffers: list[memoryview] = []
        for part in frame.parts:
            if part.slot < 0:
                memory = body
            elif part.slot in leases:
                memory = leases[part.slot]
            else:
                memory = leases[part.slot] = self.views.lease(part.slot)
            buffer = memory[part.offset : part.offset + part.length]
            if part.slot >= 0 and part.length <= SMALL_BUFFER:
                buffer = memoryview(bytearray(buffer))
            buffers.append(buffer.toreadonly() if part.readonly else buffer)
        return buffers

    def drop(self, frame: Frame) -> None:
        """Hands back the slots of a frame that nobody wants."""
        for index in {part.slot for part in frame.parts if part.slot >= 0}:
            self.views.hand_back(index)

    def close(self) -> None:
        """Closes the socket and every descriptor; arrays already decoded stay valid."""
        self.socket.close()
        for _, fds in self._backlog_fds:
            for fd in fds:
                os.close(fd)
        while self._fds:
            os.close(self._fds.popleft())
        self._backlog_fds.clear()
        self._backlog.clear()
        self.slots.close()
        self.views.close()
