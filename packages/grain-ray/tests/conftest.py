"""One Ray cluster for all tests that need one."""

from __future__ import annotations

import importlib.util
import os

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
