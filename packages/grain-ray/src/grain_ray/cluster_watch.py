"""The watch of a gateway over the head and the nodes of its cluster, while their actors are silent.

A process that ends closes its connections, and Ray reports that at once. A machine that loses its power or
its network closes nothing. Ray takes a minute to give up such a node, and ends this process a minute after
the head was lost. The watch is faster: it tries to connect, and gives up a machine that fails to answer
several times in a row. The kernel accepts connections, so a machine with busy processes answers.

A node is given up only if it has answered before, so that a firewall is not taken for a loss.
"""

from __future__ import annotations

import concurrent.futures

from grain_ray.cluster import Cluster
from grain_ray.fleet import Fleet

# Most connections at a time: many nodes may be lost together.
_THREADS = 16


class ClusterWatch:
    """Looks after the head, and after nodes that have tasks.

    Args:
        cluster: Tries connections.
        fleet: The actors.
        seconds: Time between two checks, and silence of actors from which on there are checks.
        checks: Checks in a row that must fail.
    """

    def __init__(self, cluster: Cluster, fleet: Fleet, *, seconds: float = 2.0, checks: int = 3):
        self._cluster = cluster
        self._fleet = fleet
        self._seconds = seconds
        self._checks = checks
        self._head_failures = 0
        self._failures: dict[str, int] = {}

    def run(self) -> None:
        """Return when the cluster is gone; have the fleet give up nodes until then.

        A head that was restarted accepts connections; it is recognised by its refusal to start actors.
        """
        while not self._fleet.gone.wait(self._seconds):
            if not self.check():
                return

    def check(self) -> bool:
        """Check once; return whether the cluster is still there."""
        silent = self._fleet.silent_seconds > self._seconds
        if silent and not self._cluster.reachable():
            self._head_failures += 1
            return self._head_failures < self._checks
        self._head_failures = 0
        self._check_nodes()
        return True

    def _check_nodes(self) -> None:
        doubtful = []
        for node, silence in self._fleet.silent_nodes().items():
            if node in self._failures and silence <= self._seconds:
                self._failures[node] = 0
            else:
                doubtful.append(node)
        if not doubtful:
            return
        with concurrent.futures.ThreadPoolExecutor(min(_THREADS, len(doubtful))) as threads:
            answers = list(threads.map(self._cluster.reachable, doubtful))
        for node, answered in zip(doubtful, answers, strict=True):
            if answered:
                self._failures[node] = 0
            elif node in self._failures:
                self._failures[node] += 1
                if self._failures[node] >= self._checks:
                    del self._failures[node]
                    self._fleet.lose_node(node)
