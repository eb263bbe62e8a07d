"""Nodes of a Ray cluster in namespaces of their own, each like a machine that can lose power or its network.

A node has its own network, processes, session folder and shared memory. All of them are on one bridge, in the
network namespace of this process, which must be one that nothing else can reach: Ray listens on all
interfaces. Everything that is made here is removed at the end, and only that.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

# Addresses that exist only between the namespaces.
_NETWORK = "10.213.7"
_BRIDGE = "grain-nodes"
STORE_BYTES = 300 << 20


def missing_requirement() -> str | None:
    """Return why nodes cannot have namespaces here, or None."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    absent = [name for name in ("ip", "unshare", "mount") if shutil.which(name) is None]
    if absent:
        return f"network namespaces need the programs {', '.join(absent)} (iproute2, util-linux)"
    names = [link["ifname"] for link in json.loads(_ip("-json", "link", "show"))]
    if names != ["lo"]:
        return f"this network has the interfaces {names}; `nox -s chaos_ray` runs tests in one of its own"
    return None


class NodeInNamespace:
    """A node of a cluster.

    Args:
        number: Its number, from 1.
        folder: For its output.
    """

    def __init__(self, number: int, folder: pathlib.Path):
        self.address = f"{_NETWORK}.{number + 1}"
        self._name = f"grain-node-{os.getpid()}-{number}"
        self._link = f"grain-veth{number}"
        self._log = folder / f"node{number}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> None:
        """Make the namespace and connect it to the bridge."""
        _ip("netns", "add", self._name)
        inside = ("peer", "name", "eth0", "netns", self._name)
        _ip("link", "add", self._link, "type", "veth", *inside)
        _ip("link", "set", self._link, "master", _BRIDGE, "up")
        _ip("-netns", self._name, "link", "set", "lo", "up")
        _ip("-netns", self._name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip("-netns", self._name, "link", "set", "eth0", "up")

    def start(self, head: str, cpus: int) -> None:
        """Start Ray's processes; return before they have joined the cluster."""
        folder = f"{os.environ['RAY_TMPDIR']}/ray"
        # `ip netns exec` has made a mount namespace, so that these mounts are seen by the node only.
        script = f'mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs {folder} && exec "$@"'
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--address={head}"]
        ray += [f"--node-ip-address={self.address}", f"--num-cpus={cpus}"]
        ray += [f"--object-store-memory={STORE_BYTES}"]
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["ip", "netns", "exec", self._name, *alone, "sh", "-c", script, "sh", *ray],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def disconnect(self) -> None:
        """Cut the network: no connection is closed, as seen from the other side."""
        _ip("link", "set", self._link, "down")

    def kill(self) -> None:
        """Kill all processes of the node."""
        if self._process is not None:
            # With the first process of a namespace, the kernel ends all of them.
            self._process.kill()
            self._process.wait()

    def remove(self) -> None:
        """End the node and remove its namespace, with the network in it."""
        self.kill()
        with contextlib.suppress(subprocess.CalledProcessError):  # It may not have been made.
            _ip("netns", "delete", self._name)


@contextlib.contextmanager
def namespaces(count: int, folder: pathlib.Path) -> Iterator[tuple[str, list[NodeInNamespace]]]:
    """Make namespaces on a bridge; yield the address of this side and the nodes, which are not started."""
    host = f"{_NETWORK}.1"
    nodes = [NodeInNamespace(number, folder) for number in range(1, count + 1)]
    _ip("link", "add", _BRIDGE, "type", "bridge")
    try:
        _ip("addr", "add", f"{host}/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        for node in nodes:
            node.connect()
        yield host, nodes
    finally:
        with contextlib.ExitStack() as stack:
            stack.callback(_ip, "link", "delete", _BRIDGE)
            for node in nodes:
                stack.callback(node.remove)


def _ip(*arguments: str) -> Any:
    """Run `ip`; return its output."""
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout
