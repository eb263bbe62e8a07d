"""One Ray cluster for all tests that need one."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator

import pytest

from grain.execution.processes.bootstrap_guard import in_worker

from .ray_clusters.client import running_cluster
from .ray_clusters.thread_cluster import ThreadActor


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A cluster on this machine, with room for two pools of two actors."""
    required = os.environ.get("GRAIN_RAY") is not None
    if importlib.util.find_spec("ray") is None and not required:
        pytest.skip("Ray is not installed; `nox -s ray` installs it")
    with running_cluster(tmp_path_factory.mktemp("ray"), cpus=4) as running:
        yield running


@pytest.fixture(autouse=True)
def keep_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let actors that are threads of this process leave it as it was: no worker, with its own settings."""
    monkeypatch.setattr("grain_ray.worker_actor.set_in_worker", lambda: None)
    environment, path = dict(os.environ), list(sys.path)
    yield
    for actor in list(ThreadActor.started):  # A killed one may still be loading its job.
        actor.join()
    sys.path[:] = path
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
    assert not in_worker()
