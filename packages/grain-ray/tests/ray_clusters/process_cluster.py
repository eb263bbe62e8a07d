"""Clusters whose actors are processes of this machine, which can be killed at any moment; without Ray."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import multiprocessing.connection
import pathlib
import subprocess
import sys
import threading
from collections import deque
from typing import Any

from grain_ray.cluster import ActorLostError
from grain_ray.worker_actor import WorkerActor

ROOT = pathlib.Path(__file__).parents[4]
HERE = "this machine"


class ProcessActor:
    """An actor in a process, with the guarantees of a real one: calls in order, lost calls raise."""

    def __init__(self, node: str, arguments: tuple[Any, ...]):
        self._pipe, inner = multiprocessing.connection.Pipe()
        command = f"import importlib; importlib.import_module({__name__!r}).main({inner.fileno()})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", command], cwd=ROOT, pass_fds=[inner.fileno()]
        )
        inner.close()
        self._lock = threading.Lock()
        self._outstanding: deque[concurrent.futures.Future[Any]] = deque()
        self._lost = False
        self._pipe.send((node, arguments))
        threading.Thread(target=self._receive, daemon=True).start()

    def call(self, method: str, *arguments: Any) -> concurrent.futures.Future[Any]:
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._lock:
            if self._lost:
                done.set_exception(ActorLostError("the process ended"))
                return done
            self._outstanding.append(done)  # First: the answer may come at once.
            with contextlib.suppress(OSError):  # It ended, and the other thread will notice.
                self._pipe.send((method, arguments))
        return done

    def _receive(self) -> None:
        while True:
            try:
                value = self._pipe.recv()
            except (EOFError, OSError):
                break
            self._outstanding.popleft().set_result(value)
        self._process.wait()
        with self._lock:
            self._lost = True
            lost, self._outstanding = self._outstanding, deque()
        for done in lost:
            done.set_exception(ActorLostError("the process ended"))

    def kill(self) -> None:
        self._process.kill()


@dataclasses.dataclass(frozen=True)
class ProcessCluster:
    """A cluster of `ProcessActor`s; the first ones run on the node of the gateway.

    Args:
        local: Number of actors on the node of the gateway; the others say that they are elsewhere.
    """

    local: int = 1000
    store_bytes: int = 1 << 30
    node: str = HERE

    def __call__(self) -> ProcessCluster:
        return self

    def start(self, index: int, arguments: tuple[Any, ...]) -> ProcessActor:
        return ProcessActor(HERE if index < self.local else "another machine", arguments)

    def share(self, value: Any) -> Any:
        return value

    def reachable(self, node: str | None = None) -> bool:
        return True

    def close(self) -> None:
        """Leave nothing: actors end with the gateway."""


def main(fd: int) -> None:
    """Run an actor until the other end of the pipe is closed."""
    pipe = multiprocessing.connection.Connection(fd)
    node, arguments = pipe.recv()
    worker_actor: Any = sys.modules[WorkerActor.__module__]
    worker_actor.node_address = lambda: node
    actor = WorkerActor(*arguments)
    try:
        while True:
            method, arguments = pipe.recv()
            pipe.send(getattr(actor, method)(*arguments))
    except (EOFError, OSError):
        return
