"""The queue of tasks that any worker may take: a socket, and a backlog for what it does not accept."""

from __future__ import annotations

import socket
from collections import deque

from grain.execution.processes import framing
from grain.execution.processes.channel import MAX_DATAGRAM


class TaskQueue:
    """Tasks in one queue for all workers.

    Args:
        sending: The pool's end of the queue, which does not block.
        receiving: The workers' end.
    """

    def __init__(self, sending: socket.socket, receiving: socket.socket) -> None:
        self._sending = sending
        self._receiving = receiving
        self._backlog: deque[bytes] = deque()

    @property
    def full_fd(self) -> int | None:
        """The descriptor to poll until the queue accepts more; None without a backlog."""
        return self._sending.fileno() if self._backlog else None

    def put(self, frame: bytes) -> None:
        """Add a task."""
        self._backlog.append(frame)
        self.flush()

    def flush(self) -> None:
        """Send as much of the backlog as the socket accepts."""
        while self._backlog:
            try:
                self._sending.send(self._backlog[0])
            except BlockingIOError:
                return
            self._backlog.popleft()

    def take_back(self) -> set[int]:
        """Return the tickets of the tasks that no worker has taken; `flush` offers them again."""
        queued: list[bytes] = []
        while True:
            try:
                queued.append(self._receiving.recv(MAX_DATAGRAM, socket.MSG_DONTWAIT))
            except BlockingIOError:
                break
        self._backlog.extendleft(reversed(queued))
        return {framing.ticket_of(frame) for frame in self._backlog}
