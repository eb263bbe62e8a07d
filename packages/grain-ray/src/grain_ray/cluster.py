"""The connection of a gateway process to a Ray cluster; the only module that calls Ray for tasks.

`Cluster` and `ActorHandle` are what the fleet needs of a cluster, so that its logic is tested without Ray.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import logging
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from grain_ray.worker_actor import WorkerActor, node_address

NAMESPACE = "grain"
# Share of the smallest object store that results may occupy, so that nothing spills to disk.
_STORE_SHARE = 0.5
# Ray says so only in its messages.
_NODE_LOST = re.compile(
    r"node has died|node was terminated|NodeDiedError|ObjectLostError", re.IGNORECASE
)
# Longest wait for a connection to a node.
_CONNECT_SECONDS = 2.0
_COLOUR = re.compile(r"\x1b\[\d+m")


class ActorLostError(Exception):
    """An actor, its node, or the object it returned is gone; the message says what is known."""


class NodeLostError(ActorLostError):
    """The node of an actor is gone."""


class ClusterUnavailableError(ConnectionError):
    """The cluster cannot be joined."""


class ClusterGoneError(ConnectionError):
    """The cluster that was joined is gone; another one may be at its address."""


class ActorHandle(Protocol):
    """One actor."""

    def call(self, method: str, *arguments: Any) -> concurrent.futures.Future[Any]:
        """Call a method; calls are computed in order. The future raises `ActorLostError`."""

    def kill(self) -> None:
        """End the actor without waiting for it."""


class Cluster(Protocol):
    """A cluster that was joined."""

    store_bytes: int
    """Most bytes that results may occupy in the object store."""

    node: str
    """The address of the node of this process, as its actors know it; "" where that is not known."""

    def start(self, index: int, arguments: tuple[Any, ...]) -> ActorHandle:
        """Start a worker actor; return before it runs. Raises `ClusterGoneError`."""

    def share(self, value: Any) -> Any:
        """Return a reference to a value, sent to each node once."""

    def reachable(self, node: str | None = None) -> bool:
        """Return whether the node with an address, or the head, accepts connections."""

    def close(self) -> None:
        """Leave the cluster; its actors end."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """How to join a cluster and what to ask of it.

    Attributes:
        address: Address of the cluster: "auto", "local" or "host:port".
        ray_remote_args: Options of `ray.remote` for every actor.
        runtime_env: Ray's runtime environment of the job.
        local_cpus: Processors of a cluster that `address="local"` starts; Ray's default if None.
    """

    address: str
    ray_remote_args: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    runtime_env: Mapping[str, Any] | None = None
    local_cpus: int | None = None

    def join(self) -> RayCluster:
        """Join the cluster."""
        return RayCluster(self)


def connect(options: ClusterOptions) -> None:
    """Join this process to the cluster.

    Authentication is Ray's: tokens come from the environment or the files that Ray reads.
    """
    import ray

    more: dict[str, Any] = {}
    if options.address == "local":
        more = {"num_cpus": options.local_cpus, "include_dashboard": False}
    try:
        ray.init(
            address=options.address,
            namespace=NAMESPACE,
            runtime_env=None if options.runtime_env is None else dict(options.runtime_env),
            logging_level=logging.WARNING,
            **more,
        )
    except Exception as error:
        raise ClusterUnavailableError(
            f"Could not join the Ray cluster at {options.address!r}: {error}. Start one with `ray start "
            "--head`, or pass the address of a running one; `ray status` shows whether it runs. A cluster "
            "with token authentication needs the same token here, in RAY_AUTH_TOKEN or in Ray's token file."
        ) from error


class RayCluster:
    """A Ray cluster, joined by this process.

    The first actors are placed on the node of this process, if it has room, and the others are spread.

    Args:
        options: How to join it.
    """

    def __init__(self, options: ClusterOptions):
        connect(options)
        import ray

        self._options = options
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        stores = [int(node.get("object_store_memory", 0)) for node in nodes]
        self.store_bytes = max(
            1 << 20, int(_STORE_SHARE * min(filter(None, stores), default=1 << 30))
        )
        self.node = node_address()
        self._node = ray.get_runtime_context().get_node_id()
        self._head: str = ray.get_runtime_context().gcs_address
        self._cpus = next(
            (int(n["Resources"].get("CPU", 0)) for n in ray.nodes() if n["NodeID"] == self._node), 0
        )

    def start(self, index: int, arguments: tuple[Any, ...]) -> ActorHandle:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        chosen: dict[str, Any] = {"num_cpus": 1}
        if index < self._cpus:
            chosen["scheduling_strategy"] = NodeAffinitySchedulingStrategy(self._node, soft=True)
        else:
            chosen["scheduling_strategy"] = "SPREAD"
        chosen.update(self._options.ray_remote_args)
        # Ray's retries keep neither the order of tasks nor their definitions; lost tasks are resubmitted.
        chosen.update(max_restarts=0, max_task_retries=0)
        try:
            return RayActor(ray.remote(WorkerActor).options(**chosen).remote(*arguments))
        except ray.exceptions.RayError as error:
            # A head that was restarted answers, and refuses those who joined the one before it.
            raise ClusterGoneError(_describe(error)) from error

    def share(self, value: Any) -> Any:
        import ray

        return ray.put(value)

    def reachable(self, node: str | None = None) -> bool:
        # Without asking Ray, which blocks for a minute where there is no head.
        host, _, port = (node or self._head).rpartition(":")
        try:
            address = host.strip("[]"), int(port)
            socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
        except OSError:
            return False
        return True

    def close(self) -> None:
        import ray

        with contextlib.suppress(Exception):
            ray.shutdown()


class RayActor:
    """A Ray actor.

    Args:
        actor: Ray's handle.
    """

    def __init__(self, actor: Any):
        self._actor = actor

    def call(self, method: str, *arguments: Any) -> concurrent.futures.Future[Any]:
        return call_actor(self._actor, method, *arguments)

    def kill(self) -> None:
        import ray

        with contextlib.suppress(Exception):
            ray.kill(self._actor)


def call_actor(actor: Any, method: str, *arguments: Any) -> concurrent.futures.Future[Any]:
    """Call a method of a Ray actor; the future raises `ActorLostError` if the actor or its result is gone."""
    done: concurrent.futures.Future[Any] = concurrent.futures.Future()
    try:
        reference = getattr(actor, method).remote(*arguments)
        reference.future().add_done_callback(functools.partial(_forward, done))
    except Exception as error:
        done.set_exception(_lost(error))
    return done


def _forward(
    done: concurrent.futures.Future[Any], finished: concurrent.futures.Future[Any]
) -> None:
    error = finished.exception()
    if error is None:
        done.set_result(finished.result())
    else:
        done.set_exception(_lost(error))


def _lost(error: BaseException) -> ActorLostError:
    """Return the error of a lost call: of its actor, or of the whole node."""
    text = _describe(error)
    return NodeLostError(text) if _NODE_LOST.search(text) else ActorLostError(text)


def _describe(error: BaseException) -> str:
    """Return the start and the end of one of Ray's errors, which can be pages long and coloured."""
    text = " ".join(_COLOUR.sub("", str(error)).split())
    short = text if len(text) <= 500 else f"{text[:200]} ... {text[-300:]}"
    return f"{type(error).__name__}: {short}"


MakeCluster = Callable[[], Cluster]
