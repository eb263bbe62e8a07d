"""The job of a gateway: the one local process that joins the cluster.

A process that joined Ray is ended by Ray when the cluster's head is gone. So the consumer does not join: it
talks to a gateway as to a local worker process, over a socket and shared memory, and the gateway forwards
tasks to actors. Actors on this machine write large results into the gateway's shared memory; those of others
are copied there from the cluster's object store, as they are made.
"""

from __future__ import annotations

import atexit
import dataclasses
import os
import pickle
import threading
from collections.abc import Callable
from typing import Any

from grain.execution.processes.slots import own_slots
from grain_ray.cluster import Cluster, ClusterUnavailableError
from grain_ray.cluster_watch import ClusterWatch
from grain_ray.fleet import Fleet, FleetOptions
from grain_ray.messages import Definition, Describe, Resize, Submit
from grain_ray.payload import Payload
from grain_ray.slot_lender import SUPPORTED, SlotLender

# Exit code of a gateway whose cluster is gone.
_CLUSTER_LOST = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class GatewayJob:
    """The job of a gateway.

    Attributes:
        join: Joins the cluster.
        fleet: Size and limits of the fleet.
        job: The job of the actors, pickled.
        definitions: Parts that were defined before the gateway started.
        path: `sys.path` of the consumer.
        environment: Variables of actors.
    """

    join: Callable[[], Cluster]
    fleet: FleetOptions
    job: Payload
    definitions: tuple[Definition, ...]
    path: list[str]
    environment: dict[str, str]

    def start(self, worker_index: int, worker_count: int) -> Callable[[Any], Any]:
        """Join the cluster and start actors; return the function that handles messages."""
        del worker_index, worker_count
        cluster = self.join()
        atexit.register(cluster.close)
        limit = min(self.fleet.max_bytes, cluster.store_bytes)
        fleet = Fleet(
            cluster,
            dataclasses.replace(self.fleet, max_bytes=limit),
            self.job,
            (self.path, self.environment),
            _open_lender(),
        )
        if fleet.gone.is_set():
            raise ClusterUnavailableError("The Ray cluster was replaced while it was joined.")
        atexit.register(fleet.close)
        for message in self.definitions:
            fleet.define(message)
        watch = ClusterWatch(cluster, fleet)
        threading.Thread(target=_exit_with_cluster, args=(watch,), daemon=True).start()
        return Gateway(fleet)


def _open_lender() -> SlotLender | None:
    """Return what lends this process's slots to actors; None where that is not possible."""
    slots = own_slots()
    if slots is None or not SUPPORTED:
        return None
    try:
        return SlotLender(slots)
    except OSError:  # Without Unix sockets, results travel through Ray.
        return None


def _exit_with_cluster(watch: ClusterWatch) -> None:
    """End this process when the cluster is gone, long before Ray would end it."""
    watch.run()
    os._exit(_CLUSTER_LOST)


class Gateway:
    """Handler of the messages of one pool.

    Args:
        fleet: The actors.
    """

    def __init__(self, fleet: Fleet):
        self._fleet = fleet

    def __call__(self, message: Any) -> Any:
        """Handle a message; return its reply or a future of it."""
        fleet = self._fleet
        match message:
            case Submit():
                return fleet.submit(message)
            case (_, "define", part):
                fleet.define(Definition(*pickle.loads(part)))
            case (number, "release"):
                fleet.release(number)
            case Resize():
                fleet.resize(message.count)
            case Describe():
                return fleet.describe()
            case _:
                raise TypeError(f"A gateway handles no {message!r}.")
        return None
