"""The job of a gateway: the one local process that joins the cluster.

A process that joined Ray is ended by Ray when the cluster's head is gone. So the consumer does not join: it
talks to a gateway as to a local worker process, over a socket and shared memory, and the gateway forwards
tasks to actors and copies results from the cluster's object store into shared memory, as they are made.
"""

from __future__ import annotations

import atexit
import dataclasses
import os
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

from grain_ray.cluster import Cluster
from grain_ray.fleet import Fleet, FleetOptions
from grain_ray.messages import Definition, Describe, Resize, Submit
from grain_ray.payload import Payload

# How often the head is looked after while no actor replies, how often in a row it must be gone, and the exit
# code of a gateway whose cluster is gone.
_HEAD_CHECK_SECONDS = 2.0
_HEAD_CHECKS = 3
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
        )
        atexit.register(fleet.close)
        for message in self.definitions:
            fleet.define(message)
        watch = threading.Thread(target=_exit_with_cluster, args=(cluster, fleet), daemon=True)
        watch.start()
        return Gateway(fleet)


def _exit_with_cluster(cluster: Cluster, fleet: Fleet) -> None:
    """End this process when the head is gone and no actor replies, long before Ray would end it."""
    failures = 0
    while failures < _HEAD_CHECKS:
        time.sleep(_HEAD_CHECK_SECONDS)
        lost = fleet.silent_seconds > _HEAD_CHECK_SECONDS and not cluster.reachable()
        failures = failures + 1 if lost else 0
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
