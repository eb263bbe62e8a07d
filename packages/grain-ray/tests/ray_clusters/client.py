"""The tests' side of a cluster process."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import secrets
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

# Not 127.0.0.1, in whose place Ray takes an address that other machines can reach.
HOST = "127.0.0.2"
PROGRAM = pathlib.Path(__file__).parent / "cluster_process.py"


class ClusterClient:
    """A cluster on this machine.

    Attributes:
        address: The address of its head.
    """

    def __init__(self, process: subprocess.Popen[str]):
        self._process = process
        self.address: str = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the cluster process ended; see its output above")
        return json.loads(line)

    def do(self, command: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._answer()


@contextlib.contextmanager
def running_cluster(
    folder: pathlib.Path, cpus: int = 2, host: str = HOST
) -> Iterator[ClusterClient]:
    """Run a cluster, with a token that this process and its children share."""
    added = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_TMPDIR": "/tmp",  # sockets need short paths
        "RAY_DISABLE_IMPORT_WARNING": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((folder / "cluster.log").open("w"))
        try:
            try:
                cluster = stack.enter_context(_one_cluster(log, cpus, host))
            except RuntimeError:  # On a busy machine, Ray may give up starting.
                cluster = stack.enter_context(_one_cluster(log, cpus, host))
            yield cluster
        finally:
            stack.close()
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


@contextlib.contextmanager
def _one_cluster(log: Any, cpus: int, host: str) -> Iterator[ClusterClient]:
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(cpus), host],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield ClusterClient(process)
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
