"""A Ray cluster of several nodes on this machine, in a process that ends them all when its input ends.

Commands are lines of its standard input, results are lines of JSON: `add`, `kill NUMBER`, `kill-head`,
`restart-head`, `session` (its folder), `alive` (the number of nodes). It ends only processes that it has
started.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

STORE_BYTES = 300 << 20


class LocalCluster:
    """The nodes, by number; the head is number 0."""

    def __init__(self, cpus: int, host: str):
        from ray.cluster_utils import Cluster

        self._make = Cluster
        self._cpus = cpus
        self._host = host
        self._cluster: Any = None
        self._nodes: dict[int, Any] = {}
        self._port: int | None = None

    def start(self) -> str:
        """Start the head; return its address."""
        options = self._options(self._cpus) | {"include_dashboard": False}
        if self._port is not None:
            options["gcs_server_port"] = self._port
        self._cluster = self._make(initialize_head=True, head_node_args=options)
        address: str = self._cluster.address
        self._port = int(address.rsplit(":", 1)[1])
        return address

    def add(self) -> int:
        """Add a node, which has the resource "added"; return its number."""
        number = len(self._nodes) + 1
        options = self._options(self._cpus) | {"resources": {"added": self._cpus}}
        self._nodes[number] = self._cluster.add_node(**options)
        return number

    def kill(self, number: int) -> None:
        """Kill all processes of a node."""
        self._nodes[number].kill_all_processes(check_alive=False, allow_graceful=False)

    def kill_head(self) -> None:
        """Kill all processes of the head."""
        self._cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)

    def session(self) -> str:
        """Return the folder with its logs and spilled objects."""
        folder: str = self._cluster.head_node.get_session_dir_path()
        return folder

    def alive(self) -> int:
        """Return the number of nodes that are alive, as the head knows it."""
        return sum(node["Alive"] for node in self._cluster.global_state.node_table())

    def stop(self) -> None:
        """Kill all processes of all nodes."""
        for node in [*self._nodes.values(), self._cluster.head_node]:
            node.kill_all_processes(check_alive=False, allow_graceful=False)

    def _options(self, cpus: int) -> dict[str, Any]:
        return {"num_cpus": cpus, "node_ip_address": self._host, "object_store_memory": STORE_BYTES}


def main(cpus: int, host: str) -> None:
    """Run a cluster until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Ray prints a lot.
    cluster = LocalCluster(cpus, host)
    print(json.dumps(cluster.start()), file=answers)
    for line in sys.stdin:
        match line.split():
            case ["add"]:
                found: Any = cluster.add()
            case ["kill", number]:
                found = cluster.kill(int(number))
            case ["kill-head"]:
                found = cluster.kill_head()
            case ["restart-head"]:
                found = cluster.start()
            case ["session"]:
                found = cluster.session()
            case ["alive"]:
                found = cluster.alive()
            case _:
                found = f"unknown command {line!r}"
        print(json.dumps(found), file=answers)
    cluster.stop()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
