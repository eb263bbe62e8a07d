"""One Ray cluster for all tests that need one."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator

import pytest

from .ray_clusters.client import running_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A cluster of two processors on this machine."""
    required = os.environ.get("GRAIN_RAY") is not None
    if importlib.util.find_spec("ray") is None and not required:
        pytest.skip("Ray is not installed; `nox -s ray` installs it")
    with running_cluster(tmp_path_factory.mktemp("ray")) as running:
        yield running


@pytest.fixture(autouse=True)
def keep_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let actors that are threads of this process leave it as it was: no worker, with its own settings."""
    monkeypatch.setattr("grain_ray.worker_actor.set_in_worker", lambda: None)
    environment, path = dict(os.environ), list(sys.path)
    yield
    sys.path[:] = path
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
