"""The executor that computes tasks on a Ray cluster."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

from grain.execution.costs import Costs
from grain.execution.processes.job import Job
from grain_ray.cluster import ClusterOptions
from grain_ray.fleet import FleetOptions
from grain_ray.ray_pool import PoolOptions, RayPool

FALLBACKS = (None, "processes")

# A task costs 2.5 ms of processor time, most of it Ray's, so tasks are longer than those of local processes.
# Where other programs use the processors too, tasks of 50 ms would have so few elements that this is a fifth.
_BLOCK_SECONDS = 0.1
_MESSAGE_SECONDS = 2e-3
_ELEMENT_SECONDS = 10e-6
_BYTE_SECONDS = 1.5e-9


@dataclasses.dataclass(frozen=True, kw_only=True)
class RayExecutor:
    """Workers on a Ray cluster.

    This process does not join the cluster: a gateway process does, on its behalf. So losing the cluster does
    not end this process: the gateway reconnects, and meanwhile local workers can take over. The stream and
    its states are those of every other executor.

    Args:
        address: Address of the cluster, such as "auto" (the cluster that runs on this machine) or
            "host:6379"; "local" starts one on this machine that ends with the iterator. RAY_ADDRESS in the
            environment if it is not given.
        num_workers: Number of actors at first; the number of processors of this machine by default.
        min_workers: Fewest actors, if their number follows the demand; `num_workers` by default.
        max_workers: Most actors, if their number follows the demand; `num_workers` by default.
        ray_remote_args: Options of `ray.remote` for every actor, such as `{"num_cpus": 2}` or resources.
        runtime_env: Ray's runtime environment: code and packages for nodes that do not have them.
        max_bytes: Most bytes of results that are computed and not yet taken. The gateway also keeps them
            below half of the smallest object store, so that nothing spills to disk.
        fallback: "processes" computes with local worker processes while the cluster is not available; None
            waits for it.
        reconnect_seconds: Longest wait for a cluster that was lost, without a fallback.

    >>> RayExecutor(address="auto", num_workers=8).capacity
    8
    """

    address: str | None = None
    num_workers: int | None = None
    min_workers: int | None = None
    max_workers: int | None = None
    ray_remote_args: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    runtime_env: Mapping[str, Any] | None = None
    max_bytes: int = 512 << 20
    fallback: str | None = None
    reconnect_seconds: float = 600.0

    def __post_init__(self) -> None:
        if self.num_workers is not None:
            _check_count("num_workers", self.num_workers)
        _check_count("max_bytes", self.max_bytes)
        least, most = self.workers_between
        _check_count("min_workers", least)
        _check_count("max_workers", most)
        if not least <= self.capacity <= most:
            raise ValueError(
                f"num_workers must be between min_workers and max_workers, got {self.capacity}, which is "
                f"not between {least} and {most}."
            )
        if self.address is not None and (not isinstance(self.address, str) or not self.address):
            raise ValueError(
                f"address must be a text such as 'auto', 'local' or 'host:6379', got {self.address!r}."
            )
        if isinstance(self.address, str) and self.address.startswith("ray://"):
            raise ValueError(
                f"address {self.address!r} is one of Ray's client, which has no shared object store. Pass "
                "the address of the cluster itself, such as 'auto' or 'host:6379', on a machine that runs "
                "`ray start`."
            )
        if self.fallback not in FALLBACKS:
            raise ValueError(f"fallback must be one of {FALLBACKS}, got {self.fallback!r}.")
        refused = {"max_restarts", "max_task_retries"} & self.ray_remote_args.keys()
        if refused:
            raise ValueError(
                f"ray_remote_args contains {sorted(refused)}; lost tasks are submitted again by grain, since "
                "Ray's retries would keep neither the order of tasks nor their definitions. Leave them out."
            )

    @property
    def capacity(self) -> int:
        """Number of workers of a pool at first."""
        if self.num_workers is not None:
            return self.num_workers
        return self.min_workers or self.max_workers or os.cpu_count() or 1

    @property
    def workers_between(self) -> tuple[int, int]:
        """The fewest and the most actors."""
        return (
            self.capacity if self.min_workers is None else self.min_workers,
            self.capacity if self.max_workers is None else self.max_workers,
        )

    @property
    def costs(self) -> Costs:
        """The cost model of tasks on a cluster."""
        return Costs(
            block_seconds=_BLOCK_SECONDS,
            message_seconds=_MESSAGE_SECONDS,
            element_seconds=_ELEMENT_SECONDS,
            byte_seconds=_BYTE_SECONDS,
            max_bytes=self.max_bytes,
        )

    def open(self, job: Job, *, name_owner: Callable[[Any], str | None] | None = None) -> RayPool:
        """Start a gateway process, which joins the cluster and starts actors."""
        cluster = ClusterOptions(
            address=self._required_address(),
            ray_remote_args=dict(self.ray_remote_args),
            runtime_env=self.runtime_env,
            local_cpus=self.workers_between[1],
        )
        least, most = self.workers_between
        options = PoolOptions(
            join=cluster.join,
            fleet=FleetOptions(count=self.capacity, max_bytes=self.max_bytes),
            costs=self.costs,
            min_workers=least,
            max_workers=most,
            fallback=self.fallback is not None,
            reconnect_seconds=self.reconnect_seconds,
        )
        return RayPool(job, options, name_owner=name_owner)

    def _required_address(self) -> str:
        address = self.address or os.environ.get("RAY_ADDRESS")
        if not address:
            raise ValueError(
                "The Ray executor needs the address of a cluster: a default could join a stale one. Pass "
                "`grain_ray.RayExecutor(address='auto')` for the cluster that runs on this machine, "
                "'host:6379' for another one, 'local' to start one, or set RAY_ADDRESS in the environment."
            )
        return address


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")
