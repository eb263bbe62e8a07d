"""One end of the connection between a pool and one of its workers: a socket and two sets of slots.

The pool's end never blocks: what the socket does not accept at once is kept and sent by `flush`.
"""

from __future__ import annotations

# The C part of `socket`: the Python part defines hundreds of names, which would slow the start of workers.
import _socket
import array
import contextlib
import os
import select
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from grain.execution.processes import array_pickling, framing, segments
from grain.execution.processes.array_pickling import Pickled
from grain.execution.processes.control import SlotTable
from grain.execution.processes.framing import BufferLocation, Frame
from grain.execution.processes.slots import SlotPool, SlotViews

# Buffers of at most this size are sent over the socket, and copied out of a slot: a small array that the user
# keeps must not keep a large slot.
SMALL_BUFFER = 8 * 1024
# A larger frame goes into a slot: copying memory is faster than a socket.
MAX_INLINE = 32 * 1024
# The largest message of the queue of tasks.
MAX_DATAGRAM = 4 * MAX_INLINE

_RECEIVE_BYTES = 256 * 1024
_ANCILLARY_BYTES = _socket.CMSG_SPACE(253 * array.array("i").itemsize)
_MAX_VECTOR = 64
_CLOSE_ON_EXEC = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)


class ChannelLostError(OSError):
    """The connection can no longer be decoded; the message says why."""


class _Layout(NamedTuple):
    """Locations of the buffers of a message, and the bytes sent over the socket."""

    buffers: list[BufferLocation]
    body: list[bytes | memoryview]
    held: memoryview | None = None  # keeps the slot from being taken again before it is lent


class Channel:
    """Sender of pickles with their buffers, and receiver of frames.

    Args:
        sock: The connection.
        sending: Records which slots of this end are lent.
        receiving: Records which slots of the other end are lent.
        budget: Most bytes of slots that this end creates.
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
        self._fds: deque[segments.OwnedDescriptor] = deque()

    # Sending

    @property
    def backlog(self) -> bool:
        """Whether bytes wait for `flush`."""
        return bool(self._backlog)

    def send(self, kind: int, ticket: int, pickled: Pickled, sequence: int = 0) -> None:
        """Send a frame, large buffers in slots; keep a copy of what the socket does not accept."""
        self._enqueue(kind, ticket, pickled, sequence)
        self.flush()
        if self._backlog:  # arrays may change before they are sent; bytes cannot
            kept = [v if isinstance(v.obj, bytes) else memoryview(bytes(v)) for v in self._backlog]
            self._backlog = deque(kept)

    def send_all(self, kind: int, ticket: int, pickled: Pickled) -> None:
        """Send a frame and block until the socket has accepted all of it."""
        self._enqueue(kind, ticket, pickled)
        self.flush()
        if self._backlog:
            writable = select.poll()
            writable.register(self.socket, select.POLLOUT)
            while self._backlog:
                writable.poll()
                self.flush()

    def _enqueue(self, kind: int, ticket: int, pickled: Pickled, sequence: int = 0) -> None:
        layout = self._lay_out(pickled)
        updates = self.slots.take_updates()
        body_bytes = sum(map(len, layout.body))
        head = framing.head(kind, ticket, body_bytes, updates, layout.buffers, sequence)
        for index in {location.slot for location in layout.buffers if location.slot >= 0}:
            self.slots.lend(index)
        small = body_bytes <= MAX_INLINE
        vector = [b"".join([head, *layout.body])] if small else [head, *layout.body]
        views = [memoryview(data) for data in vector if len(data)]
        fds = [item.fd for item in updates if item.fd >= 0]
        if fds:
            self._backlog_fds.append((views[0], fds))
        self._backlog.extend(views)

    def flush(self) -> None:
        """Send as much of the backlog as the socket accepts; raise OSError if the peer is gone."""
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

    def _lay_out(self, pickled: Pickled) -> _Layout:
        stream, buffers = pickled
        if not buffers and len(stream) <= MAX_INLINE:
            return _Layout([], [stream])
        buffers = [memoryview(stream), *buffers]
        small = sum(buffer.nbytes for buffer in buffers if buffer.nbytes <= SMALL_BUFFER)
        limit = SMALL_BUFFER if small <= MAX_INLINE else 0
        locations: list[BufferLocation | None] = []
        to_pack: list[int] = []
        room = 0
        for number, buffer in enumerate(buffers):
            locations.append(None)
            size = buffer.nbytes
            if size <= limit or (number == 0 and size <= MAX_INLINE):
                continue
            if size > SMALL_BUFFER:
                found = self.slots.slot_of(buffer)
                if found is not None:
                    locations[number] = BufferLocation(found[0], buffer.readonly, found[1], size)
                    continue
            to_pack.append(number)
            room += framing.aligned(size)
        memory = self.slots.take(room) if to_pack else None
        if memory is not None:
            self._pack(buffers, to_pack, locations, memory)
        return _Layout(*framing.inline_rest(buffers, locations), memory)

    def _pack(
        self,
        buffers: list[memoryview],
        numbers: list[int],
        locations: list[BufferLocation | None],
        memory: memoryview,
    ) -> None:
        found = self.slots.slot_of(memory)
        assert found is not None, "a slot just taken is not lent"
        target = np.frombuffer(memory, np.uint8)
        offset = 0
        for number in numbers:
            buffer = buffers[number]
            size = buffer.nbytes
            target[offset : offset + size] = np.frombuffer(buffer, np.uint8)
            locations[number] = BufferLocation(found[0], buffer.readonly, offset, size)
            offset += framing.aligned(size)

    # Receiving

    def receive(self) -> list[Frame]:
        """Return the frames that have arrived completely; raise EOFError when the peer is gone."""
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
            whole.append(self._parse(data[:size], own=False))
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
        return [self._parse(large, own=True)]

    def _receive_into(self, target: memoryview) -> int:
        """Read once; return 0 if there is nothing to read now."""
        try:
            count, ancillary, flags, _ = self.socket.recvmsg_into(
                [target], _ANCILLARY_BYTES, _CLOSE_ON_EXEC
            )
        except BlockingIOError:
            return 0
        try:
            self._fds.extend(map(segments.OwnedDescriptor, _descriptors(ancillary)))
        except BaseException:  # An interrupt came before all of them had an owner.
            for fd in set(_descriptors(ancillary)).difference(self._fds):
                with contextlib.suppress(OSError):
                    os.close(fd)
            raise
        if flags & _socket.MSG_CTRUNC:
            raise ChannelLostError(
                "a descriptor of shared memory could not be received, because this process has reached its "
                "limit of open files. Close some, or raise the limit (ulimit -n)"
            )
        if count == 0:
            raise EOFError
        return count

    def _parse(self, data: memoryview, *, own: bool) -> Frame:
        frame, updates = framing.parse(data, own=own)
        for index, capacity in updates:
            self.views.update(index, capacity, self._fds.popleft() if capacity else None)
        return frame

    def decode(self, frame: Frame) -> Any:
        """Return the object of a frame; its large arrays are views of their slots."""
        stream, *buffers = self.open(frame)
        return array_pickling.loads(stream, buffers)

    def open(self, frame: Frame) -> list[memoryview]:
        """Return the pickle and the buffers of a frame; references to them keep their slots lent."""
        if not frame.buffers:
            return [memoryview(frame.body)]
        body = memoryview(frame.body)
        leases: dict[int, memoryview] = {}
        buffers: list[memoryview] = []
        for slot, readonly, offset, length in frame.buffers:
            if slot < 0:
                memory = body
            elif slot in leases:
                memory = leases[slot]
            else:
                memory = leases[slot] = self.views.lease(slot)
            buffer = memory[offset : offset + length]
            if slot >= 0 and length <= SMALL_BUFFER:
                buffer = memoryview(bytearray(buffer))
            buffers.append(buffer.toreadonly() if readonly else buffer)
        return buffers

    def drop(self, frame: Frame) -> None:
        """Return the slots of a frame that is not read."""
        for index in {location.slot for location in frame.buffers if location.slot >= 0}:
            self.views.give_back(index)

    def stop_sending(self) -> None:
        """Let the peer find the end of the messages, after those that were sent completely."""
        self._backlog.clear()
        with contextlib.suppress(OSError):
            self.socket.shutdown(_socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket and every descriptor; arrays already decoded stay valid."""
        self.socket.close()
        for _, fds in self._backlog_fds:
            for fd in fds:
                os.close(fd)
        self._fds.clear()
        self._backlog_fds.clear()
        self._backlog.clear()
        self.slots.close()
        self.views.close()


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> array.array[int]:
    """Return the file descriptors that came with a message."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return fds
