"""Calls of a session, and their submission to the pool in use.

A *call* is a task with a number that survives the loss of workers and of pools. The scheduler submits it,
again if a worker that had it was lost or the pool was replaced, and a second time (a *hedge*) if it takes
much longer than the calls before it while workers are idle. The first result of a call wins; the others
are discarded. A call at whose turn several workers were lost fails with `PoisonTaskError`, so that its
owner can divide the task. A call with an affinity depends on the state of its worker: it is never
submitted again, and fails with `CallLostError` instead.

The scheduler starts no thread, takes no lock and never blocks. The session calls it with its lock held and
waits in between for the tickets that `step` returns. An interrupt at any point leaves each call finished,
outstanding, or without a ticket, in which case the next step submits it again.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import weakref
from collections.abc import Callable, Collection
from typing import Any

from grain._policy import Policy
from grain.execution.executor import (
    NotOutstanding,
    PoolClosed,
    PoolInterrupted,
    TaskLost,
    TaskPool,
    WorkerDied,
)

# Raised by the pool for one task: its transfer failed, or the function of the user ended the worker's loop.
TASK_ERRORS = (Exception, SystemExit)


class CallLostError(Exception):
    """The worker of a call with affinity was lost, with the state that the call depends on.

    Attributes:
        loss: The loss of the worker; None if the call was lost with an interrupted pool.
    """

    def __init__(self, loss: TaskLost | None):
        super().__init__(loss)
        self.loss = loss


class PoisonTaskError(WorkerDied):
    """Several workers were lost, one after the other, while they computed the same task.

    Attributes:
        losses: The losses.
        where: The operation and the elements of the task.
    """

    def __init__(self, losses: tuple[TaskLost, ...], where: str = "one task"):
        RuntimeError.__init__(self, losses, where)
        self.losses = losses
        self.where = where

    def __str__(self) -> str:
        causes = "; ".join(f"worker {loss.worker}: {loss.cause}" for loss in self.losses)
        return (
            f"{len(self.losses)} workers were lost while they computed {self.where} ({causes}). Computing it "
            "once more would cost another worker: find out what ends the process there, or leave out that "
            "record."
        )


@dataclasses.dataclass
class SessionCounts:
    """Events of a session so far.

    Attributes:
        calls: Calls submitted.
        losses: Tasks whose worker was lost.
        resubmitted: Calls submitted again, after a loss or to another pool.
        hedged: Calls submitted a second time because they took long.
        duplicates: Results that were not needed because another copy was first.
        pools: Pools opened.
    """

    calls: int = 0
    losses: int = 0
    resubmitted: int = 0
    hedged: int = 0
    duplicates: int = 0
    pools: int = 0


class SessionCall:
    """A task with a number that survives the loss of workers and pools.

    Attributes:
        number: Number of the call, in the order of submission.
        task: The task.
        affinity: Calls with equal affinity are computed by one worker, in order; None for any worker.
        nbytes: Expected size of the result.
        losses: Losses of workers that were computing the call.
        pool: The pool that the tickets belong to.
        tickets: Tickets of the copies that are outstanding.
        awaited: Time since when its result is needed; None before that.
        done: Whether there is a value or an error.
    """

    __slots__ = (
        "__weakref__",
        "affinity",
        "awaited",
        "done",
        "error",
        "losses",
        "nbytes",
        "number",
        "pool",
        "task",
        "tickets",
        "value",
    )

    def __init__(
        self,
        number: int,
        task: Any,
        affinity: int | None,
        nbytes: int,
        losses: tuple[TaskLost, ...],
    ):
        self.number = number
        self.task = task
        self.affinity = affinity
        self.nbytes = nbytes
        self.losses = losses
        self.pool: TaskPool | None = None
        self.tickets: list[int] = []
        self.awaited: float | None = None
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None


class TaskScheduler:
    """Submission of calls to one pool at a time.

    Args:
        policy: Tuning constants.
        clock: Returns the time in seconds.
        seconds_of: Returns how long a result took to compute, or None if that is unknown.

    Attributes:
        counts: Events so far.
        new_losses: Losses of workers since the list was last cleared.
    """

    def __init__(
        self,
        policy: Policy,
        clock: Callable[[], float],
        seconds_of: Callable[[Any], float | None],
    ):
        self.counts = SessionCounts()
        self.new_losses: list[TaskLost] = []
        self._policy = policy
        self._clock = clock
        self._seconds_of = seconds_of
        self._pool: TaskPool | None = None
        # Iterators hold their calls; those of a dropped iterator are forgotten.
        self._calls: weakref.WeakValueDictionary[int, SessionCall] = weakref.WeakValueDictionary()
        self._numbers = itertools.count(1)
        self._durations: collections.deque[float] = collections.deque(maxlen=policy.hedge_samples)
        self._bytes = 0

    @property
    def pool(self) -> TaskPool | None:
        """The pool in use."""
        return self._pool

    def attach(self, pool: TaskPool) -> None:
        """Use a pool; calls of the one before are submitted to it, in order."""
        self._pool = pool
        self.counts.pools += 1
        for call in self._outstanding():
            if call.affinity is None and call.pool is not pool:
                self._resubmit(call)

    def detach(self) -> None:
        """Use no pool until another one is attached."""
        self._pool = None

    def has_room(self, nbytes: int) -> bool:
        """Return whether a further result of `nbytes` is within the byte budget of the pool."""
        assert self._pool is not None
        most = self._pool.costs.max_bytes
        if self._bytes + nbytes > most:  # An interrupt may have left the sum too large.
            self._bytes = sum(call.nbytes for call in self._calls.values())
        return self._bytes + nbytes <= most

    def submit(
        self,
        task: Any,
        *,
        affinity: int | None = None,
        nbytes: int = 0,
        losses: tuple[TaskLost, ...] = (),
    ) -> SessionCall:
        """Submit a call. An error of the submission becomes the error of the call.

        Args:
            task: The task.
            affinity: Calls with equal affinity are computed by one worker, in order.
            nbytes: Expected size of the result.
            losses: Losses that a larger task which contained this one has caused.
        """
        call = SessionCall(next(self._numbers), task, affinity, nbytes, losses)
        self.counts.calls += 1
        self._send(call)
        self._calls[call.number] = call
        self._bytes += nbytes
        return call

    def fail(self, error: BaseException) -> SessionCall:
        """Return a call that was not submitted because of an error."""
        call = SessionCall(next(self._numbers), None, None, 0, ())
        call.error, call.done = error, True
        return call

    def step(self, call: SessionCall, ready: Collection[int] | None) -> Wait | None:
        """Advance a call; return what to wait for, or None when the call is done.

        Args:
            call: The call whose result is needed.
            ready: The tickets that the last wait returned; None before the first wait.
        """
        for ticket in ready or ():
            if not call.done and call.pool is self._pool:
                self._collect(call, ticket)
        if ready is not None and not ready:
            self._sweep()
        if not call.done and (call.pool is not self._pool or not call.tickets):
            self._resubmit(call)
        patience = None if call.done else self._patience(call, waited=ready is not None)
        return None if call.done else Wait(tuple(call.tickets), patience)

    def take(self, call: SessionCall) -> Any:
        """Return the value of a call that is done, or raise its error.

        An error is raised once, unless the call was never submitted: the traceback of an error that the
        call still held would keep the call and the pool alive. After that the call would be computed again.
        """
        self._forget(call)
        if call.error is None:
            return call.value
        error = call.error
        if call.pool is not None:
            call.error, call.done, call.pool = None, False, None
        try:
            raise error
        finally:
            del error, call, self  # The traceback holds this frame.

    def cancel(self, call: SessionCall) -> None:
        """Discard the result of a call."""
        self._forget(call)
        pool = self._pool
        if call.pool is pool and pool is not None and not pool.closed:
            for ticket in call.tickets:
                pool.discard(ticket)

    def _forget(self, call: SessionCall) -> None:
        if self._calls.pop(call.number, None) is not None:
            self._bytes -= call.nbytes

    def _outstanding(self) -> list[SessionCall]:
        return sorted(
            (call for call in self._calls.values() if not call.done), key=lambda call: call.number
        )

    def _send(self, call: SessionCall) -> None:
        """Submit one copy of a call."""
        pool = self._pool
        assert pool is not None
        if call.pool is not pool:
            # In this order: after an interrupt in between, the tickets of another pool must not stay.
            call.tickets = []
            call.pool = pool
        try:
            call.tickets.append(pool.submit(call.task, affinity=call.affinity))
        except (PoolInterrupted, PoolClosed):
            raise
        except TASK_ERRORS as error:
            self._finish(call, error=error.with_traceback(None))

    def _resubmit(self, call: SessionCall, loss: TaskLost | None = None) -> None:
        """Submit a call again if it has no copy left; one with affinity is lost."""
        if call.pool is self._pool and call.tickets:
            return
        if call.affinity is not None:
            self._finish(call, error=CallLostError(loss))
            return
        self.counts.resubmitted += 1
        self._send(call)

    def _collect(self, call: SessionCall, ticket: int) -> None:
        """Take the result of one copy of a call."""
        pool = call.pool
        assert pool is not None
        if ticket not in call.tickets:
            return
        value, error, loss = None, None, None
        try:
            value = pool.result(ticket)
        except TaskLost as lost:
            loss = lost.with_traceback(None)  # Whose frames would keep the pool alive.
        except NotOutstanding:  # An interrupt came after the result was taken.
            call.tickets.remove(ticket)
            self._resubmit(call)
            return
        except (PoolInterrupted, PoolClosed):
            raise
        except TASK_ERRORS as failure:
            error = failure.with_traceback(None)
        # Not earlier: an interrupt of `result` may leave the ticket outstanding.
        call.tickets.remove(ticket)
        if loss is not None:
            self._record_loss(call, loss)
            return
        if call.affinity is None and error is None:
            seconds = self._seconds_of(value)
            if seconds is not None:
                self._durations.append(seconds)
        self._finish(call, value, error)

    def _record_loss(self, call: SessionCall, loss: TaskLost) -> None:
        self.counts.losses += 1
        self.new_losses.append(loss)
        if loss.started:
            call.losses += (loss,)
        if call.affinity is None and len(call.losses) >= self._policy.poison_losses:
            self._finish(call, error=PoisonTaskError(call.losses))
        else:
            self._resubmit(call, loss)

    def _finish(
        self, call: SessionCall, value: Any = None, error: BaseException | None = None
    ) -> None:
        call.value, call.error, call.done = value, error, True
        for ticket in call.tickets:
            self.counts.duplicates += 1
            if call.pool is not None:
                call.pool.discard(ticket)
        call.tickets = []

    def _sweep(self) -> None:
        """Take the results of all calls that are ready, and submit those again that were lost."""
        pool = self._pool
        assert pool is not None
        outstanding = [call for call in self._outstanding() if call.pool is pool]
        owners = {ticket: call for call in outstanding for ticket in call.tickets}
        for ticket in sorted(pool.wait(owners.keys(), 0)):
            if not owners[ticket].done:
                self._collect(owners[ticket], ticket)

    def _patience(self, call: SessionCall, *, waited: bool) -> float | None:
        """Return how long to wait for a call before it is submitted a second time; submit it if it is due."""
        policy = self._policy
        if (
            call.affinity is not None
            or len(call.tickets) != 1
            or policy.hedge_factor <= 0
            or len(self._durations) < policy.hedge_samples
        ):
            return None
        # All earlier calls are done, so a worker has computed this one since then, or longer.
        now = self._clock()
        if call.awaited is None:
            call.awaited = now
        patience = max(policy.hedge_seconds, policy.hedge_factor * max(self._durations))
        remaining = call.awaited + patience - now
        if remaining > 0:
            return remaining
        if waited and self._has_idle_worker():
            self.counts.hedged += 1
            self._send(call)
            return None
        return policy.hedge_seconds

    def _has_idle_worker(self) -> bool:
        assert self._pool is not None
        busy = sum(len(call.tickets) for call in self._calls.values() if call.pool is self._pool)
        return busy < self._pool.capacity


@dataclasses.dataclass(frozen=True)
class Wait:
    """What a call waits for.

    Attributes:
        tickets: Tickets of its copies.
        timeout: Seconds after which the call needs attention; None for no limit.
    """

    tickets: tuple[int, ...]
    timeout: float | None
