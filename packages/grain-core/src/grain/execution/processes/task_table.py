"""The outstanding tasks of a pool, by ticket: where each is, and what has become of it."""

from __future__ import annotations

from typing import NamedTuple

from grain.execution.processes.bindings import Bindings, Loss
from grain.execution.processes.channel import Channel
from grain.execution.processes.control import TAKING
from grain.execution.processes.error_report import TaskLost
from grain.execution.processes.framing import Frame
from grain.execution.processes.local_worker import LocalWorker


class Arrival(NamedTuple):
    """A result that was received and not taken.

    `buffers` holds the opened frame once the worker is gone, and with it the channel.
    """

    channel: Channel
    frame: Frame
    buffers: list[memoryview] | None = None


class TaskTable:
    """The tasks of a pool that are outstanding. Its methods are called with the pool's lock held.

    Attributes:
        next_ticket: The ticket of the next task.
        waiting: The worker that has the task, for every outstanding ticket; None if any worker may take it
            from the queue.
        arrived: Results that were received; a subset of `waiting`, as `lost` is.
        lost: Tasks that were lost with their worker.
        affinities: The affinity of each task that has one.
        bindings: The worker of each affinity.
    """

    def __init__(self) -> None:
        self.next_ticket = 1
        self.waiting: dict[int, LocalWorker | None] = {}
        self.arrived: dict[int, Arrival] = {}
        self.lost: dict[int, Loss] = {}
        self.affinities: dict[int, int] = {}
        self.bindings = Bindings()

    def settled(self, ticket: int) -> bool:
        """Return whether the task has a result, was lost, or is not outstanding."""
        return ticket in self.arrived or ticket in self.lost or ticket not in self.waiting

    def record_arrival(self, channel: Channel, frame: Frame) -> None:
        """Record a result, or drop it if the task was lost or discarded."""
        ticket = frame.ticket
        if ticket in self.waiting and ticket not in self.lost:
            self.arrived[ticket] = Arrival(channel, frame)
        else:
            channel.drop(frame)

    def take_arrival(self, ticket: int) -> tuple[int, list[memoryview]]:
        """Remove a task that has a result; return the kind and the buffers of the result."""
        channel, frame, buffers = self.arrived[ticket]
        if buffers is None:
            buffers = channel.open(frame)
        self.affinities.pop(ticket, None)
        del self.arrived[ticket]
        del self.waiting[ticket]
        return frame.kind, buffers

    def take_loss(self, ticket: int) -> TaskLost:
        """Remove a task that was lost; return its error."""
        error = TaskLost(ticket, *self.lost[ticket])
        affinity = self.affinities.get(ticket)
        if affinity is not None:
            self.bindings.acknowledge(affinity)
            self.affinities.pop(ticket, None)
        del self.lost[ticket]
        del self.waiting[ticket]
        return error

    def discard(self, ticket: int) -> bool:
        """Remove a task, whatever has become of it; return whether a worker may still compute it."""
        if ticket not in self.waiting:
            return False
        del self.waiting[ticket]
        self.affinities.pop(ticket, None)
        if self.lost.pop(ticket, None) is not None:
            return False
        arrival = self.arrived.pop(ticket, None)
        if arrival is None:
            return True
        if arrival.buffers is None:
            arrival.channel.drop(arrival.frame)
        return False

    def record_losses(self, worker: LocalWorker, cause: str, untraced: set[int]) -> set[int]:
        """Record the tasks that are lost with a worker, and return them.

        Args:
            worker: The worker.
            cause: Why the worker was lost.
            untraced: Tasks in no known place, which the worker has taken if it was taking one.
        """
        current = worker.page.current[0]
        lost = {ticket for ticket, assigned in self.waiting.items() if assigned is worker}
        if current == TAKING:
            lost |= untraced
        elif current in self.waiting:
            lost.add(current)
        lost -= self.arrived.keys() | self.lost.keys()
        for ticket in lost:
            started = ticket == current or ticket in worker.background
            self.lost[ticket] = Loss(worker.index, cause, started)
        self.bindings.unbind(worker, Loss(worker.index, cause, started=False))
        return lost

    def open_arrivals(self, channel: Channel) -> None:
        """Open the results that came through a channel, which is about to be closed."""
        for ticket, arrival in self.arrived.items():
            if arrival.channel is channel and arrival.buffers is None:
                self.arrived[ticket] = arrival._replace(buffers=channel.open(arrival.frame))

    def forget_workers(self) -> None:
        """Drop everything that refers to a worker, and so to memory shared with it."""
        self.bindings = Bindings()
        self.waiting = dict.fromkeys(self.waiting)
