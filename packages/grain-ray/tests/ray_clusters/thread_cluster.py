"""Clusters whose actors are threads of the process that joins them, and die when a test says so."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import threading
import weakref
from collections.abc import Callable
from typing import Any

from grain_ray.cluster import ActorLostError, ClusterGoneError, ClusterUnavailableError
from grain_ray.worker_actor import WorkerActor


class ThreadActor:
    """An actor in a thread, with the guarantees of a real one: calls in order, lost calls raise."""

    started: weakref.WeakSet[ThreadActor] = weakref.WeakSet()

    def __init__(self, arguments: tuple[Any, ...], is_gone: Callable[[], bool]):
        self.started.add(self)
        self._is_gone = is_gone
        self.calls: list[str] = []
        self.dead = False
        self._actor = WorkerActor(*arguments)
        self._thread = concurrent.futures.ThreadPoolExecutor(1)
        self._outstanding: set[concurrent.futures.Future[Any]] = set()
        self._lock = threading.Lock()

    def call(self, method: str, *arguments: Any) -> concurrent.futures.Future[Any]:
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._lock:
            self.calls.append(method)
            self.dead = self.dead or self._is_gone()
            if self.dead:
                done.set_exception(ActorLostError("killed"))
                return done
            self._outstanding.add(done)
        self._thread.submit(self._compute, done, method, arguments)
        return done

    def _compute(self, done: Any, method: str, arguments: tuple[Any, ...]) -> None:
        value = getattr(self._actor, method)(*arguments)
        with self._lock:
            if done not in self._outstanding:
                return
            self._outstanding.discard(done)
        done.set_result(value)

    def kill(self) -> None:
        with self._lock:
            self.dead = True
            lost, self._outstanding = self._outstanding, set()
        for future in lost:
            future.set_exception(ActorLostError("killed"))
        self._thread.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait for the call that is being computed, if there is one."""
        self._thread.shutdown(wait=True, cancel_futures=True)


class ThreadCluster:
    """A cluster of `ThreadActor`s, until `is_gone` returns True."""

    def __init__(self, store_bytes: int = 1 << 30, is_gone: Callable[[], bool] = lambda: False):
        self.store_bytes = store_bytes
        self.node = ""
        self._is_gone = is_gone
        self.started: list[tuple[int, ThreadActor]] = []
        self.closed = False
        self.unreachable: set[str | None] = set()  # nodes, and None for the head
        self.checks: list[str | None] = []
        self.stillborn = False  # whether actors are lost as soon as they are started

    @property
    def live(self) -> dict[int, ThreadActor]:
        return {index: actor for index, actor in self.started if not actor.dead}

    def start(self, index: int, arguments: tuple[Any, ...]) -> ThreadActor:
        if self._is_gone():
            raise ClusterGoneError("another cluster")
        actor = ThreadActor(arguments, self._is_gone)
        if self.stillborn:
            actor.kill()
        self.started.append((index, actor))
        return actor

    def share(self, value: Any) -> Any:
        return value

    def reachable(self, node: str | None = None) -> bool:
        self.checks.append(node)
        return node not in self.unreachable

    def close(self) -> None:
        self.closed = True


@dataclasses.dataclass(frozen=True)
class ClusterInFolder:
    """Joins a cluster while the folder contains a file named `up`; each join is counted there.

    The file has the name of the cluster: with another one in it, the cluster that was joined is gone.
    """

    folder: str

    def __call__(self) -> ThreadCluster:
        folder = pathlib.Path(self.folder)
        (folder / f"join-{os.getpid()}").touch()
        if not (folder / "up").exists():
            raise ClusterUnavailableError(f"no cluster in {self.folder}")
        name = (folder / "up").read_text()

        def is_gone() -> bool:
            try:
                return (folder / "up").read_text() != name
            except FileNotFoundError:
                return False  # It cannot be joined, and that is all.

        return ThreadCluster(is_gone=is_gone)
