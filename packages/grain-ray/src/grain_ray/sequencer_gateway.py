"""The gateway of a host to the sequencer, and the actor that the sequencer runs in.

The actor has a name and belongs to the host that made it: when it is lost, or that host is, the next host
that asks makes another one, and hosts send the state from which it continues.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import dataclasses
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from grain.execution.processes.error_report import report
from grain.memory import allocation
from grain_ray.cluster import ActorHandle, ClusterOptions, RayActor, connect
from grain_ray.payload import Payload, own, unpack
from grain_ray.sequencer import Place, Sequencer, Service, Serving

Future = concurrent.futures.Future

# Seconds for which a call occupies a thread of the actor, at most.
_CALL_SECONDS = 5.0
# Calls of one host that may wait in the actor at the same time.
_CALLS_PER_HOST = 8


class SequencerActor:
    """A sequencer in an actor.

    Args:
        elastic: The elastic iterator, pickled.
        window: Number of steps that the fastest host may be ahead of the slowest.
        path: `sys.path` of the host.
    """

    def __init__(self, elastic: Payload, window: int, path: list[str]):
        sys.path += [entry for entry in path if entry not in sys.path and os.path.isdir(entry)]
        self._sequencer = Sequencer(unpack(own(Payload(*elastic))), window)

    def take(
        self, host: int, place: Place, state: bytes | None, needed: Place, serial: int
    ) -> Serving:
        """Return the entry of a host at a place."""
        return self._sequencer.take(host, place, state, _CALL_SECONDS, needed=needed, serial=serial)

    def state(self, step: int) -> bytes | None:
        """Return the state before a step."""
        return self._sequencer.state(step, _CALL_SECONDS)

    def acknowledge(self, host: int, step: int) -> None:
        """Record what a host has saved."""
        self._sequencer.acknowledge(host, step)

    def pid(self) -> int:
        """Return the process id; for diagnosis."""
        return os.getpid()


class SequencerSite(Protocol):
    """Where the sequencer runs."""

    def find(self) -> ActorHandle:
        """Return the actor, which is made if there is none."""

    def close(self) -> None:
        """Leave the cluster."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequencerOptions:
    """A sequencer on a Ray cluster.

    Attributes:
        cluster: How to join the cluster.
        name: The name of the actor.
        elastic: The elastic iterator, pickled.
        hosts: Number of hosts.
        window: Number of steps that the fastest host may be ahead of the slowest.
    """

    cluster: ClusterOptions
    name: str
    elastic: Payload
    hosts: int
    window: int

    def join(self) -> SequencerSite:
        """Join the cluster."""
        return RaySequencerSite(self)


class RaySequencerSite:
    """A Ray cluster, joined by this process.

    Args:
        options: The sequencer.
    """

    def __init__(self, options: SequencerOptions):
        connect(options.cluster)
        self._options = options

    def find(self) -> ActorHandle:
        import ray

        options = self._options
        chosen: dict[str, Any] = {"num_cpus": 1, **options.cluster.ray_remote_args}
        chosen.update(
            name=options.name,
            get_if_exists=True,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=_CALLS_PER_HOST * options.hosts + 4,
        )
        path = [entry for entry in sys.path if isinstance(entry, str)]
        actor = ray.remote(SequencerActor).options(**chosen)
        return RayActor(actor.remote(tuple(options.elastic), options.window, path))

    def close(self) -> None:
        import ray

        ray.shutdown()


@dataclasses.dataclass(frozen=True)
class Take:
    """Ask for the entry at a place; see `Sequencer.take`."""

    place: Place
    state: bytes | None
    needed: Place
    serial: int


@dataclasses.dataclass(frozen=True)
class StateBefore:
    """Ask for the state before a step."""

    step: int


@dataclasses.dataclass(frozen=True)
class Acknowledge:
    """Say that the state before a step is saved."""

    step: int


@dataclasses.dataclass(frozen=True)
class FindSequencer:
    """Ask for the process id of the sequencer; for diagnosis."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequencerGatewayJob:
    """The job of a gateway to a sequencer.

    Attributes:
        join: Joins the cluster.
        host: The index of this host.
        stall_seconds: Longest wait for a step before that is an error.
    """

    join: Callable[[], SequencerSite]
    host: int
    stall_seconds: float

    def start(self, worker_index: int, worker_count: int) -> Callable[[Any], Any]:
        """Join the cluster; return the function that handles messages."""
        del worker_index, worker_count
        site = self.join()
        atexit.register(site.close)
        return SequencerGateway(site, self.host, self.stall_seconds)


class SequencerGateway:
    """Handler of the messages of one host.

    Args:
        site: Where the sequencer runs.
        host: The index of this host.
        stall_seconds: Longest wait for a step before that is an error.
    """

    def __init__(self, site: SequencerSite, host: int, stall_seconds: float):
        self._site = site
        self._host = host
        self._stall_seconds = stall_seconds
        self._lock = threading.Lock()
        self._actor: ActorHandle | None = None
        self._handlers = concurrent.futures.ThreadPoolExecutor(2, "grain-gateway")

    def __call__(self, message: Any) -> Any:
        """Handle a message; return a future of its reply."""
        reply: Future[Any] = Future()
        match message:
            case Take():
                self._take(message, reply, time.monotonic())
            case StateBefore():
                self._forward(reply, "state", message.step)
            case Acknowledge():
                self._forward(reply, "acknowledge", self._host, message.step)
            case FindSequencer():
                self._forward(reply, "pid")
            case _:
                raise TypeError(f"A gateway to a sequencer handles no {message!r}.")
        return reply

    def _current(self) -> ActorHandle:
        with self._lock:
            if self._actor is None:
                self._actor = self._site.find()
            return self._actor

    def _lose(self, actor: ActorHandle) -> None:
        with self._lock:
            if self._actor is actor:
                self._actor = None

    def _forward(self, reply: Future[Any], method: str, *arguments: Any) -> None:
        actor = self._current()

        def finish(future: Future[Any]) -> None:
            if future.exception() is not None:
                self._lose(actor)
            _reply(reply, None if future.exception() is not None else future.result())

        actor.call(method, *arguments).add_done_callback(finish)

    def _take(self, message: Take, reply: Future[Any], since: float) -> None:
        actor = self._current()
        place, state = message.place, message.state
        future = actor.call("take", self._host, place, state, message.needed, message.serial)
        taken = functools.partial(self._taken, actor, message, reply, since)
        future.add_done_callback(lambda done: self._handlers.submit(taken, done))

    def _taken(
        self,
        actor: ActorHandle,
        message: Take,
        reply: Future[Any],
        since: float,
        future: Future[Any],
    ) -> None:
        if reply.cancelled():
            return
        if future.exception() is not None:
            # Another sequencer begins with the state that the host sends along.
            self._lose(actor)
            _reply(reply, Serving(Service.STATE_NEEDED))
            return
        serving = Serving(*future.result())
        if serving.service == Service.LATER:
            if time.monotonic() - since < self._stall_seconds:
                self._take(message, reply, since)
                return
            error = TimeoutError(
                f"Host {self._host} waited {self._stall_seconds:g} seconds for step {message.place[0]}; the "
                f"sequencer was last asked for these steps, by host: {serving.content}. All hosts must run, "
                "with the same pipeline, and restore the same checkpoint."
            )
            failure = tuple(report(error, where="the gateway"))
            serving = Serving(Service.ERROR, failure, message.place)
        elif serving.service == Service.BATCH:
            payload = own(Payload(*serving.content), allocation.allocate)
            serving = serving._replace(content=payload)
        _reply(reply, serving)


def _reply(reply: Future[Any], value: Any) -> None:
    if reply.set_running_or_notify_cancel():
        reply.set_result(value)
