"""The descriptors that a pool polls: sockets of its workers, process descriptors, the queue of tasks."""

from __future__ import annotations

import select

from grain.execution.processes.local_worker import LocalWorker


class PollSet:
    """Descriptors of workers, and a poll object for them.

    Attributes:
        poll: The poll object.
    """

    def __init__(self) -> None:
        self.poll = select.poll()
        self._workers: dict[int, LocalWorker] = {}
        self._writing: set[int] = set()

    def add(self, worker: LocalWorker) -> None:
        """Poll the socket and the process of a worker."""
        for fd in (worker.channel.socket.fileno(), worker.process.fd):
            if fd >= 0:
                self._workers[fd] = worker
                self.poll.register(fd, select.POLLIN)

    def remove(self, worker: LocalWorker) -> None:
        """Stop polling a worker."""
        for fd in [fd for fd, watched in self._workers.items() if watched is worker]:
            self.poll.unregister(fd)
            self._writing.discard(fd)
            del self._workers[fd]

    def worker(self, fd: int) -> LocalWorker | None:
        """Return the worker of a descriptor; None for the queue of tasks."""
        return self._workers.get(fd)

    def watch_for_room(self, queue_fd: int | None) -> None:
        """Make `poll` return also when a socket accepts more of its backlog.

        Args:
            queue_fd: The queue of tasks, if it has a backlog.
        """
        wanted = {
            fd
            for fd, worker in self._workers.items()
            if worker.channel.backlog and fd == worker.channel.socket.fileno()
        }
        if queue_fd is not None:
            wanted.add(queue_fd)
        for fd in wanted ^ self._writing:
            base = select.POLLIN if fd in self._workers else 0
            if fd in wanted:
                self.poll.register(fd, base | select.POLLOUT)
            elif base:
                self.poll.register(fd, base)
            else:
                self.poll.unregister(fd)
        self._writing = wanted

    def clear(self) -> None:
        """Drop all workers; the descriptors are closed."""
        self._workers.clear()
