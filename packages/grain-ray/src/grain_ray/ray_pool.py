"""The pool of a session on a Ray cluster: one gateway at a time, reconnected when it is lost.

Ordering: as for every pool, results are taken by ticket and may arrive in any order; tasks with one affinity
are computed in order.

Loss: the loss of an actor is reported for its tasks (`TaskLost`) and the gateway replaces it. When the
gateway or the cluster is lost, every outstanding task is reported as lost, and the pool starts another
gateway, with increasing delays. Until one has joined the cluster, tasks are held and `capacity` is 0, or,
with a fallback, local worker processes compute. An affinity that had no outstanding task when its worker
was lost has its next task reported as lost, so that the session restores its position.

Blocking: only `wait`, `result` and `close` block. There is no helper thread: the pool reconnects, switches
and resizes inside of calls. Interrupts are those of the local pools below.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
import warnings
from collections.abc import Callable, Collection
from typing import Any

from grain._config import config
from grain.execution.costs import Costs
from grain.execution.processes import array_pickling
from grain.execution.processes.error_report import TaskLost
from grain.execution.processes.job import Job
from grain.execution.processes.pool_errors import NotOutstanding, PoolClosed
from grain.execution.processes.unpicklable import NameOwner, explain_unpicklable
from grain_ray.backends import Backend, GatewayBackend, GatewayLostError, LocalBackend
from grain_ray.cluster import Cluster
from grain_ray.demand import DemandMonitor
from grain_ray.fleet import FleetOptions
from grain_ray.messages import ActorInfo, Definition
from grain_ray.payload import Payload, pack

# Variables that keep accelerators of a node from being initialised by actors.
_NO_DEVICES = {"JAX_PLATFORMS": "cpu"}


class ClusterLostError(ConnectionError):
    """A cluster that was joined is gone and did not return within `reconnect_seconds`."""

    is_worker_failure = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """Options of a pool.

    Attributes:
        join: Joins the cluster, in the gateway.
        fleet: Size and limits of the fleet.
        costs: The cost model.
        min_workers: Fewest actors.
        max_workers: Most actors.
        fallback: Whether local processes compute while the cluster is not available.
        reconnect_seconds: Longest wait for a cluster that was lost, without a fallback.
        first_delay: Seconds before the first attempt to reconnect; doubled after each.
        max_delay: Longest delay.
        poll_seconds: Interval at which a waiting thread looks after a new gateway.
        start_warning_seconds: Wait for the first result after which a warning says why there may be none.
    """

    join: Callable[[], Cluster]
    fleet: FleetOptions
    costs: Costs
    min_workers: int
    max_workers: int
    fallback: bool = False
    reconnect_seconds: float = 600.0
    first_delay: float = 1.0
    max_delay: float = 30.0
    poll_seconds: float = 0.1
    start_warning_seconds: float = 30.0


class _Call:
    """A task of the pool.

    Attributes:
        task: The task, while it is held.
        affinity: Its affinity.
        backend: Where it was submitted; None while it is held.
        number: Its number there.
        lost: The loss to report.
    """

    __slots__ = ("affinity", "backend", "lost", "number", "task")

    def __init__(self, task: Any, affinity: int | None):
        self.task = task
        self.affinity = affinity
        self.backend: Backend | None = None
        self.number = -1
        self.lost: TaskLost | None = None


class RayPool:
    """Workers of one session on a Ray cluster.

    Args:
        job: Loaded by every actor.
        options: Options of the pool.
        name_owner: Returns the user's name of an object, or None, for error messages.
    """

    def __init__(self, job: Job, options: PoolOptions, *, name_owner: NameOwner | None = None):
        self.costs = options.costs
        self._job = job
        self._options = options
        self._name_owner = name_owner
        self._pickled_job = _payload(job, "job", name_owner)
        self._definitions: dict[int, Definition] = {}
        self._calls: dict[int, _Call] = {}
        self._next_ticket = 1
        self._lock = threading.RLock()
        self._closed = False
        self._failure: Callable[[], BaseException] | None = None
        self._count = options.fleet.count
        self._demand = DemandMonitor(options.min_workers, options.max_workers)
        # Affinities of each backend, and those whose worker was lost while they had no task.
        self._affinities: dict[int, Backend] = {}
        self._orphans: set[int] = set()
        self._gateway: GatewayBackend | None = None
        self._local: LocalBackend | None = None
        # Backends that are still to finish tasks after the pool switched to another one.
        self._leaving: list[Backend] = []
        self._candidate: GatewayBackend | None = None
        self._connected_once = False
        self._lost_since: float | None = None
        self._retry_at = 0.0
        self._delay = options.first_delay
        self.gateway_losses = 0
        # When to warn that there is no result; None once there was one.
        self._warn_at: float | None = time.monotonic() + options.start_warning_seconds
        self._gateway = self._open_gateway()

    @property
    def capacity(self) -> int:
        """Number of workers that are ready, as far as it is known; 0 while the cluster is not available."""
        backend = self._gateway or self._local
        return 0 if backend is None else backend.capacity

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def gateway_pid(self) -> int | None:
        """The process id of the gateway, if there is one."""
        gateway = self._gateway
        return None if gateway is None else gateway.pid

    def workers(self) -> list[ActorInfo]:
        """Return the actors of the cluster that are ready; for diagnosis."""
        gateway = self._gateway
        return [] if gateway is None else gateway.describe()

    # Tasks

    def submit(self, task: Any, *, affinity: int | None = None) -> int:
        """Submit a task; return its ticket."""
        with self._lock:
            self._require_usable()
            self._advance()
            call = _Call(task, affinity)
            ticket = self._next_ticket
            if affinity is not None and affinity in self._orphans:
                self._orphans.discard(affinity)
                call.lost = TaskLost(
                    ticket, -1, "the worker that held its position was lost", False
                )
            else:
                self._send(call)
            self._next_ticket += 1
            self._calls[ticket] = call
            return ticket

    def define(self, number: int, part: bytes, *, affinity: int | None = None) -> None:
        """Give all workers, or the worker of an affinity, a part before any later task."""
        with self._lock:
            self._require_usable()
            definition = Definition(number, part, affinity)
            self._definitions[number] = definition
            self._tell(lambda backend: backend.define(definition))

    def release(self, number: int) -> None:
        """Remove a part from the workers."""
        with self._lock:
            if self._closed or self._failure is not None:
                return
            definition = self._definitions.pop(number, None)
            if definition is not None and definition.affinity is not None:
                self._affinities.pop(definition.affinity, None)
                self._orphans.discard(definition.affinity)
            self._tell(lambda backend: backend.release(number))

    def wait(self, tickets: Collection[int], timeout: float | None = None) -> set[int]:
        """Wait for one of the tasks; return those whose `result` would not block."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._demand.waiting():
            while True:
                found, groups, slowest = self._look(tickets)
                if found or not tickets:
                    return found
                self._warn_if_unstarted()
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left < 0:
                    return set()
                seconds = slowest if left is None else min(left, slowest)
                if not groups:
                    time.sleep(min(seconds, self._options.poll_seconds))
                for backend, numbers in groups:
                    try:
                        backend.wait(numbers, seconds / len(groups))
                    except GatewayLostError as error:
                        with self._lock:
                            self._lose(backend, error)
                if deadline is not None and time.monotonic() >= deadline:
                    return self._look(tickets)[0]

    def result(self, ticket: int) -> Any:
        """Wait for a task and return its result, or raise its error; possible once per ticket."""
        if ticket not in self._calls:
            raise NotOutstanding(
                f"Ticket {ticket} is not outstanding: it was never issued, or its result was already taken "
                "or discarded."
            )
        self.wait([ticket])
        with self._lock:
            self._require_usable()
            call = self._calls.get(ticket)
            if call is None:
                raise NotOutstanding(f"Ticket {ticket} was discarded while its result was awaited.")
            if call.lost is not None:
                del self._calls[ticket]
                raise call.lost
            backend = call.backend
        assert backend is not None, "`wait` returns no held task"
        try:
            value = backend.result(call.number, ticket)
        except GatewayLostError as error:
            with self._lock:
                self._calls.pop(ticket, None)
                self._lose(backend, error)
            raise TaskLost(ticket, -1, error, False) from None
        except (KeyboardInterrupt, PoolClosed):
            raise
        except BaseException:
            self._calls.pop(ticket, None)
            raise
        self._calls.pop(ticket, None)
        self._warn_at = None
        return value

    def ready(self, ticket: int) -> bool:
        """Return whether `result(ticket)` would not block."""
        found, groups, _ = self._look([ticket])
        if found:
            return True
        for backend, numbers in groups:
            try:
                return bool(backend.wait(numbers, 0))
            except GatewayLostError as error:
                with self._lock:
                    self._lose(backend, error)
                return True
        return False

    def discard(self, ticket: int) -> None:
        """Cancel a task and drop its result."""
        with self._lock:
            call = self._calls.pop(ticket, None)
            if call is None or call.backend is None or call.lost is not None or self._closed:
                return
            try:
                call.backend.discard(call.number)
            except GatewayLostError as error:
                self._lose(call.backend, error)

    def close(self) -> None:
        """End the gateway, its actors, and local workers. Idempotent."""
        with self._lock:
            self._closed = True
            backends = [self._gateway, self._local, self._candidate, *self._leaving]
        for backend in backends:
            if backend is not None:
                backend.close()

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Waiting

    def _look(
        self, tickets: Collection[int]
    ) -> tuple[set[int], list[tuple[Backend, list[int]]], float]:
        """Return the tickets that are done, the other ones by backend, and how long to wait at most."""
        with self._lock:
            if self._closed or self._failure is not None:
                return set(tickets), [], 0.0
            self._advance()
            if self._failure is not None:
                return set(tickets), [], 0.0
            found: set[int] = set()
            groups: dict[int, tuple[Backend, list[int]]] = {}
            numbers: dict[tuple[int, int], int] = {}
            for ticket in tickets:
                call = self._calls.get(ticket)
                if call is None or call.lost is not None:
                    found.add(ticket)
                elif call.backend is not None:
                    group = groups.setdefault(id(call.backend), (call.backend, []))
                    group[1].append(call.number)
                    numbers[id(call.backend), call.number] = ticket
            for backend, group_numbers in groups.values():
                try:
                    done = backend.wait(group_numbers, 0)
                except GatewayLostError as error:
                    self._lose(backend, error)
                    return self._look(tickets)
                found |= {numbers[id(backend), number] for number in done}
            busy = (
                self._candidate is not None
                or len(groups) > 1
                or not groups
                or self._gateway is None
            )
            return found, list(groups.values()), self._options.poll_seconds if busy else 1.0

    def _warn_if_unstarted(self) -> None:
        """Warn once if the first result is long in coming: Ray waits silently for resources."""
        if self._warn_at is None or time.monotonic() < self._warn_at:
            return
        self._warn_at = None
        warnings.warn(
            f"No Ray actor has returned a result for {self._options.start_warning_seconds:.0f} seconds. If "
            f"the first element is not that slow, the cluster may have no room for {self._count} actors: "
            "other pipelines and jobs use its processors too. `ray status` shows what is free; use fewer "
            "workers, or `ray_remote_args={'num_cpus': 0.5}`.",
            RuntimeWarning,
            stacklevel=3,
        )

    # All methods below are called with the lock held.

    def _require_usable(self) -> None:
        if self._closed:
            raise PoolClosed("The pool is closed and returns no more results.")
        if self._failure is not None:
            raise self._failure()

    def _send(self, call: _Call) -> None:
        """Submit a task where tasks are computed now; keep it if that is nowhere."""
        while True:
            backend: Backend | None = self._gateway or self._local
            if backend is None:
                return
            try:
                call.number = backend.submit(call.task, call.affinity)
            except GatewayLostError as error:
                self._lose(backend, error)
                self._require_usable()
                continue
            call.backend, call.task = backend, None
            if call.affinity is not None:
                self._affinities[call.affinity] = backend
            return

    def _tell(self, action: Callable[[Backend], None]) -> None:
        for backend in (self._gateway, self._local, self._candidate):
            if backend is None:
                continue
            try:
                action(backend)
            except GatewayLostError as error:
                self._lose(backend, error)

    def _open_gateway(self) -> GatewayBackend:
        environment = {} if config.worker_keep_devices else _NO_DEVICES
        return GatewayBackend(
            join=self._options.join,
            fleet=dataclasses.replace(self._options.fleet, count=self._count),
            job=self._pickled_job,
            definitions=self._definitions.values(),
            environment=environment,
        )

    def _advance(self) -> None:
        """Reconnect, switch and resize, if it is time to."""
        self._close_finished()
        gateway = self._gateway
        if gateway is not None:
            try:
                if not self._connected_once:
                    self._connected_once = gateway.connected
                count = self._demand.wanted(self._count)
                if count != self._count:
                    self._count = count
                    gateway.resize(count)
            except GatewayLostError as error:
                self._lose(gateway, error)
            return
        if self._candidate is None:
            if time.monotonic() >= self._retry_at:
                self._candidate = self._open_gateway()
            return
        try:
            if self._candidate.connected:
                self._switch(self._candidate)
        except GatewayLostError as error:
            self._lose(self._candidate, error)

    def _switch(self, gateway: GatewayBackend) -> None:
        """Use a gateway that has joined the cluster again."""
        self._gateway, self._candidate = gateway, None
        self._lost_since, self._delay = None, self._options.first_delay
        self._connected_once = True
        if self._local is not None:
            # It finishes its tasks; positions that its workers hold are left behind.
            self._leaving.append(self._local)
            self._orphans |= {a for a, owner in self._affinities.items() if owner is self._local}
            self._local = None
            self._affinities.clear()
        self._send_held()

    def _send_held(self) -> None:
        for ticket in sorted(self._calls):
            call = self._calls[ticket]
            if call.backend is None and call.lost is None:
                self._send(call)

    def _close_finished(self) -> None:
        for backend in list(self._leaving):
            if not any(call.backend is backend for call in self._calls.values()):
                self._leaving.remove(backend)
                backend.close()

    def _lose(self, backend: Backend, error: GatewayLostError) -> None:
        """Report the tasks of a gateway that is gone as lost, and plan to reconnect."""
        if backend is self._candidate:
            self._candidate = None
        elif backend is self._gateway:
            self._gateway = None
            self.gateway_losses += 1
        else:
            return
        backend.close()
        if not self._connected_once and not self._options.fallback:
            cause = error.__cause__ or error
            self._failure = lambda: type(cause)(*cause.args)
            return
        self._report_lost(backend, error)
        now = time.monotonic()
        if self._lost_since is None:
            self._lost_since = now
            self._warn(error)
        waited = now - self._lost_since
        if not self._options.fallback and waited > self._options.reconnect_seconds:
            text = (
                f"The Ray cluster was lost and did not return within {waited:.0f} seconds "
                f"(`reconnect_seconds`): {error}. Restart the cluster, or use `fallback='processes'`."
            )
            self._failure = lambda: ClusterLostError(text)
            return
        self._retry_at = now + self._delay
        self._delay = min(2 * self._delay, self._options.max_delay)
        if self._options.fallback and self._local is None:
            self._local = LocalBackend(
                self._job,
                num_workers=min(self._count, os.cpu_count() or 1),
                name_owner=self._name_owner,
                definitions=self._definitions.values(),
            )
            self._send_held()

    def _report_lost(self, backend: Backend, error: GatewayLostError) -> None:
        with_task: set[int | None] = set()
        for ticket, call in self._calls.items():
            if call.backend is backend and call.lost is None:
                call.lost = TaskLost(ticket, -1, error, False)
                with_task.add(call.affinity)
        lost = {affinity for affinity, owner in self._affinities.items() if owner is backend}
        self._orphans |= lost - with_task
        for affinity in lost:
            del self._affinities[affinity]

    def _warn(self, error: GatewayLostError) -> None:
        then = (
            "local worker processes" if self._options.fallback else "the cluster, when it is back,"
        )
        warnings.warn(
            f"The gateway to the Ray cluster was lost ({error}); {then} will compute the tasks that were "
            "in flight. The stream is not affected.",
            RuntimeWarning,
            stacklevel=2,
        )


def _payload(value: object, name: str, name_owner: NameOwner | None) -> Payload:
    try:
        return pack(array_pickling.dumps_by_value(value))
    except Exception as error:
        raise TypeError(explain_unpicklable(value, name, error, name_owner)) from error
