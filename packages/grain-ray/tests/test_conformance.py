"""The executor keeps the contract of executors: with threads as actors here, with Ray in its session."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import tempfile
from typing import Any

import pytest

from grain.testing import Case, parametrize, run
from grain_ray.fleet import FleetOptions
from grain_ray.ray_executor import RayExecutor
from grain_ray.ray_pool import PoolOptions, RayPool

from .ray_clusters.thread_cluster import ClusterInFolder


@dataclasses.dataclass(frozen=True)
class OnThreads:
    """The executor with a cluster of threads, in its gateway."""

    folder: str
    capacity: int = 2

    def open(self, job: Any, *, name_owner: Any) -> RayPool:
        options = PoolOptions(
            join=ClusterInFolder(self.folder),
            fleet=FleetOptions(count=self.capacity, max_bytes=1 << 28),
            costs=RayExecutor().costs,
            min_workers=self.capacity,
            max_workers=self.capacity,
        )
        return RayPool(job, options, name_owner=name_owner)


# Removed when the process ends: cases are made before the first test.
temporary = tempfile.TemporaryDirectory()
folder = pathlib.Path(temporary.name)
(folder / "up").touch()


@parametrize([Case(name="ray", kind="executor", make=functools.partial(OnThreads, str(folder)))])
def test_the_executor_keeps_the_contract_with_threads(conformance: Any) -> None:
    conformance()


@pytest.mark.skipif(
    os.environ.get("GRAIN_RAY") is None, reason="takes minutes; `nox -s ray` runs it"
)
@pytest.mark.timeout(900)
def test_the_executor_keeps_the_contract_on_a_cluster(cluster):
    make = functools.partial(RayExecutor, address=cluster.address, num_workers=2)
    report = run(Case(name="ray", kind="executor", make=make, check_timeout=180.0))
    print(report)
    assert report.ok
