"""What a pool computes with: a gateway to a cluster, or local worker processes.

Both have the same members, so that the pool only decides which one to use. Only `wait`, `result` and `close`
block.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol

from grain._config import config
from grain.execution.processes import array_pickling
from grain.execution.processes.error_report import ErrorReport, TaskLost, rebuild
from grain.execution.processes.job import Job
from grain.execution.processes.pool import WorkerPool
from grain.execution.processes.pool_errors import NotOutstanding, PoolClosed, PoolInterrupted
from grain.execution.processes.unpicklable import NameOwner
from grain_ray.cluster import Cluster
from grain_ray.fleet import FleetOptions
from grain_ray.gateway import GatewayJob
from grain_ray.messages import (
    ActorInfo,
    ActorLoss,
    Definition,
    Describe,
    Reply,
    Resize,
    Submit,
    TaskOutcome,
)
from grain_ray.payload import Payload, pack, unpack

# All messages to a gateway have this affinity, so that they stay in order.
_IN_ORDER = 0
# Seconds that a gateway has to leave the cluster.
_GRACE = 10.0


class GatewayLostError(RuntimeError):
    """The gateway process has ended or could not join the cluster; the cause says why."""


class Backend(Protocol):
    """Workers that a pool can use."""

    @property
    def capacity(self) -> int:
        """Number of workers that are ready."""

    def submit(self, task: Any, affinity: int | None) -> int:
        """Submit a task; return its number."""

    def result(self, number: int, ticket: int) -> Any:
        """Wait for a task; return its result or raise its error, or `TaskLost` with `ticket`."""

    def wait(self, numbers: Collection[int], timeout: float | None) -> set[int]:
        """Wait for one of the tasks; return those whose `result` would not block."""

    def discard(self, number: int) -> None:
        """Cancel a task."""

    def define(self, definition: Definition) -> None:
        """Give the workers a part of the pipeline."""

    def release(self, number: int) -> None:
        """Remove a part."""

    def close(self) -> None:
        """End the workers."""


class GatewayBackend:
    """A gateway process and the actors behind it.

    Args:
        join: Joins the cluster, in the gateway.
        fleet: Size and limits of the fleet.
        job: The job of the actors, pickled.
        definitions: Parts that exist already.
        environment: Variables of actors.
    """

    def __init__(
        self,
        *,
        join: Callable[[], Cluster],
        fleet: FleetOptions,
        job: Payload,
        definitions: Collection[Definition],
        environment: dict[str, str],
    ):
        self.capacity = fleet.count
        self._dump = array_pickling.Dumper()
        gateway = GatewayJob(
            join=join,
            fleet=fleet,
            job=job,
            definitions=tuple(definitions),
            path=[entry for entry in sys.path if isinstance(entry, str)],
            environment=environment,
        )
        self._pool = WorkerPool(gateway, num_workers=1, slot_bytes=fleet.max_bytes, grace=_GRACE)
        self._first_actor = self._pool.submit(Describe(), affinity=_IN_ORDER)
        self._was_connected = False
        self._unanswered: list[int] = []

    @property
    def pid(self) -> int:
        """The process id of the gateway."""
        return self._pool.pids[0]

    @property
    def connected(self) -> bool:
        """Whether the gateway has joined the cluster and an actor was ready."""
        if not self._was_connected:
            with self._losing():
                if self._pool.ready(self._first_actor):
                    self._pool.result(self._first_actor)
                    self._was_connected = True
        return self._was_connected

    def submit(self, task: Any, affinity: int | None) -> int:
        payload = pack(self._dump(task))
        with self._losing():
            return self._pool.submit(Submit(payload, affinity), affinity=_IN_ORDER)

    def result(self, number: int, ticket: int) -> Any:
        with self._losing():
            reply = Reply(*self._pool.result(number))
        self.capacity = reply.capacity or self.capacity
        if reply.outcome == TaskOutcome.VALUE:
            return unpack(Payload(*reply.content))
        if reply.outcome == TaskOutcome.ERROR:
            raise rebuild(ErrorReport(*reply.content))
        raise TaskLost(ticket, *ActorLoss(*reply.content))

    def wait(self, numbers: Collection[int], timeout: float | None) -> set[int]:
        with self._losing():
            return self._pool.wait(numbers, timeout)

    def discard(self, number: int) -> None:
        with self._losing():
            self._pool.discard(number)

    def define(self, definition: Definition) -> None:
        message = (definition.number, definition.part, definition.affinity)
        with self._losing():
            self._pool.define(definition.number, pickle.dumps(message), affinity=_IN_ORDER)

    def release(self, number: int) -> None:
        with self._losing():
            self._pool.release(number)

    def resize(self, count: int) -> None:
        """Change the number of actors."""
        with self._losing():
            self._unanswered = [n for n in self._unanswered if not self._answered(n)]
            self._unanswered.append(self._pool.submit(Resize(count), affinity=_IN_ORDER))

    def _answered(self, number: int) -> bool:
        if not self._pool.ready(number):
            return False
        self._pool.result(number)
        return True

    def describe(self) -> list[ActorInfo]:
        """Return the actors that are ready; wait for the first one."""
        with self._losing():
            found: list[ActorInfo] = self._pool.result(
                self._pool.submit(Describe(), affinity=_IN_ORDER)
            )
        return found

    def close(self) -> None:
        self._pool.close()

    @contextlib.contextmanager
    def _losing(self) -> Iterator[None]:
        """Raise `GatewayLostError` for a failure of the gateway process."""
        try:
            yield
        except (NotOutstanding, PoolClosed, PoolInterrupted):
            raise
        except Exception as error:
            raise GatewayLostError(str(error)) from error


class LocalBackend:
    """Local worker processes, while the cluster is not available.

    Args:
        job: The job.
        num_workers: Number of processes.
        name_owner: Returns the user's name of an object.
        definitions: Parts that exist already.
    """

    def __init__(
        self,
        job: Job,
        *,
        num_workers: int,
        name_owner: NameOwner | None,
        definitions: Collection[Definition],
    ):
        self._pool = WorkerPool(
            job,
            num_workers=num_workers,
            name_owner=name_owner,
            max_restarts=config.max_worker_restarts,
        )
        for definition in definitions:
            self.define(definition)

    @property
    def capacity(self) -> int:
        """Number of processes."""
        return self._pool.capacity

    def submit(self, task: Any, affinity: int | None) -> int:
        return self._pool.submit(task, affinity=affinity)

    def result(self, number: int, ticket: int) -> Any:
        try:
            return self._pool.result(number)
        except TaskLost as lost:
            raise TaskLost(ticket, lost.worker, lost.cause, lost.started) from None

    def wait(self, numbers: Collection[int], timeout: float | None) -> set[int]:
        return self._pool.wait(numbers, timeout)

    def discard(self, number: int) -> None:
        self._pool.discard(number)

    def define(self, definition: Definition) -> None:
        self._pool.define(definition.number, definition.part, affinity=definition.affinity)

    def release(self, number: int) -> None:
        self._pool.release(number)

    def close(self) -> None:
        self._pool.close()
