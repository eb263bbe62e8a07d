"""An elastic iterator whose stream is computed once for all hosts."""

from __future__ import annotations

import contextlib
import hashlib
import pickle
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from grain.dataset.chunk import END, Chunk
from grain.dataset.elastic.elastic_iterator import ElasticIterator
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.map_dataset import MapDataset
from grain.execution.processes import array_pickling
from grain.execution.processes.error_report import ErrorReport, rebuild
from grain.execution.processes.pool import WorkerPool
from grain.execution.processes.pool_errors import PoolClosed
from grain.options import checked_int
from grain.sharding import ShardOptions
from grain_ray.cluster import ClusterOptions
from grain_ray.payload import Payload, pack, unpack
from grain_ray.ray_pool import ClusterLostError
from grain_ray.sequencer import Place, Service, Serving
from grain_ray.sequencer_gateway import (
    Acknowledge,
    FindSequencer,
    SequencerGatewayJob,
    SequencerOptions,
    SequencerSite,
    StateBefore,
    Take,
)

# Steps that a host asks for ahead of the one it needs.
_READ_AHEAD = 3
_FIRST_DELAY = 0.2
_MAX_DELAY = 15.0
_GRACE = 10.0


class SequencedIterator(ElasticIterator):
    """One shard's share of the global batches of a stream that is computed once, on a Ray cluster.

    An `ElasticIterator` over a filter, packing or a mixture computes the whole stream on every host. Here one
    actor, the sequencer, computes it and serves each host its batches. Batches and states are those of an
    `ElasticIterator` with the same arguments: a checkpoint restores in either of them, and with another
    number of hosts. A dataset whose elements are found by index is not affected: each host reads only its
    share of it anyway.

    This process does not join the cluster; see `RayExecutor`. When the sequencer is lost, another one
    continues from the state of the hosts.

    Args:
        ds: The whole dataset, the same for all hosts. `mp_prefetch` in it, or `multiprocessing_options`, let
            the sequencer use workers.
        global_batch_size: The size of a batch over all hosts.
        shard_options: Which host this is.
        address: Address of the cluster, as for `RayExecutor`.
        name: Name of the sequencer. Two jobs with the same pipeline and number of hosts on one cluster need
            different names.
        window: Number of steps that the fastest host may be ahead of the slowest.
        ray_remote_args: Options of `ray.remote` for the sequencer.
        runtime_env: Ray's runtime environment.
        fallback: "local" computes the whole stream on this host from the moment the cluster is lost; None
            waits for it.
        reconnect_seconds: Longest wait for a cluster that was lost, without a fallback.
        stall_seconds: Longest wait for a step, such as for a host that does not run.
        **options: Further arguments of `ElasticIterator`.
    """

    def __init__(
        self,
        ds: MapDataset[Any] | IterDataset[Any],
        global_batch_size: int,
        shard_options: ShardOptions,
        *,
        address: str,
        name: str | None = None,
        window: int = 16,
        ray_remote_args: Mapping[str, Any] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        fallback: str | None = None,
        reconnect_seconds: float = 600.0,
        stall_seconds: float = 600.0,
        **options: Any,
    ):
        super().__init__(ds, global_batch_size, shard_options, **options)
        if fallback not in (None, "local"):
            raise ValueError(f"fallback must be None or 'local', got {fallback!r}.")
        if not isinstance(address, str) or not address or address.startswith("ray://"):
            raise ValueError(
                f"address must be that of a Ray cluster, such as 'auto' or 'host:6379', got {address!r}."
            )
        self.elastic = ElasticIterator(ds, global_batch_size, shard_options, **options)
        self._cluster = ClusterOptions(
            address=address, ray_remote_args=dict(ray_remote_args or {}), runtime_env=runtime_env
        )
        self._name = name
        self._window = checked_int("window", window, least=1)
        self._fallback = fallback is not None
        self._reconnect_seconds = reconnect_seconds
        self._stall_seconds = stall_seconds
        self._client: SequencerClient | None = None

    def __str__(self) -> str:
        shard = self.shard_options
        return (
            f"SequencedIterator(global_batch_size={self.global_batch_size}, "
            f"shard_index={shard.shard_index}, shard_count={shard.shard_count})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_client": None}

    @property
    def client(self) -> SequencerClient | None:
        """The connection to the sequencer, once it is used."""
        return self._client

    def batches_of_stream(self) -> IterDataset[Any]:
        """Return this host's batches, which the sequencer computes."""
        self._client = self._make_client()
        return SequencedIterDataset(self, self._client)

    def site(self) -> Callable[[], SequencerSite]:
        """Return the function that joins the cluster, in the gateway."""
        hosts = self.shard_options.shard_count
        text = "\n".join(map(str, self.elastic.fingerprint()))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return SequencerOptions(
            cluster=self._cluster,
            name=f"grain-sequencer-{self._name or digest}-{hosts}",
            elastic=pack(array_pickling.dumps_by_value(self.elastic)),
            hosts=hosts,
            window=self._window,
        ).join

    def _make_client(self) -> SequencerClient:
        return SequencerClient(
            self.site(),
            host=self.shard_options.shard_index,
            reconnect_seconds=0.0 if self._fallback else self._reconnect_seconds,
            stall_seconds=self._stall_seconds,
        )

    @property
    def falls_back(self) -> bool:
        """Whether this host computes the stream when the cluster is lost."""
        return self._fallback

    def acknowledge(self, state: Any) -> None:
        """Tell the sequencer that `state` is saved, so that it keeps nothing from before it.

        `save` does this by itself.
        """
        if self._client is not None:
            position = int(state_field(state, "global_next_index", self))
            self._client.acknowledge(step_at(position, self.global_batch_size))

    async def save(self, directory: Any) -> Awaitable[None]:
        state = self.get_state()
        write = await super().save(directory)

        async def write_and_acknowledge() -> None:
            await write
            self.acknowledge(state)

        return write_and_acknowledge()


class SequencedIterDataset(IterDataset[Any]):
    """The batches of one host, from the sequencer.

    Args:
        sequenced: The iterator that the user made.
        client: The connection to the sequencer.
    """

    fingerprint_name = "elastic"

    def __init__(self, sequenced: SequencedIterator, client: SequencerClient):
        super().__init__()
        self._elastic = sequenced.elastic
        self._falls_back = sequenced.falls_back
        self._client = client

    def __iter__(self) -> DatasetIterator[Any]:
        return SequencedDatasetIterator(self._elastic, self._client, falls_back=self._falls_back)


class SequencedDatasetIterator(ChunkIterator[Any]):
    """An iterator over the batches of one host, from the sequencer.

    Args:
        elastic: The iterator without a sequencer.
        client: The connection to the sequencer.
        falls_back: Whether this host computes the stream when the cluster is lost.
    """

    def __init__(self, elastic: ElasticIterator, client: SequencerClient, *, falls_back: bool):
        super().__init__()
        self._size = elastic.global_batch_size
        self._elastic = elastic
        self._falls_back = falls_back
        self._client = client
        self._place: Place = (0, 0)
        # The state before the step, pickled; b"" at the start of the stream.
        self._state = b""
        self._local: DatasetIterator[Any] | None = None

    def __str__(self) -> str:
        return f"SequencedDatasetIterator(global_batch_size={self._size})"

    def _pull(self, limit: int) -> Chunk:
        if self._local is not None:
            return self._local.next_chunk(limit)
        try:
            serving = self._client.take(self._place, self._state)
        except ConnectionError as error:
            if not self._falls_back:
                raise
            self._fall_back(error)
            return self._pull(limit)
        self._place = (serving.following[0], serving.following[1])
        if serving.state is not None:
            self._state = serving.state
        if serving.service == Service.END:
            return END
        if serving.service == Service.ERROR:
            raise rebuild(ErrorReport(*serving.content))
        state = self._state
        return Chunk([unpack(Payload(*serving.content))], lambda _: pickle.loads(state))

    def _fall_back(self, error: ConnectionError) -> None:
        warnings.warn(
            f"{error} This host computes the whole stream from now on; batches and states do not change.",
            RuntimeWarning,
            stacklevel=2,
        )
        self._client.close()
        local = self._elastic.batches_of_stream().__iter__()
        if self._state:
            local.set_state(pickle.loads(self._state))
        self._local = local

    def _live_state(self) -> Any:
        if self._local is not None:
            return self._local.get_state()
        if not self._state:
            try:
                self._state = self._client.first_state()
            except ConnectionError as error:
                if not self._falls_back:
                    raise
                self._fall_back(error)
                return self._live_state()
        return pickle.loads(self._state)

    def _restore(self, state: Any) -> None:
        if self._local is not None:
            self._local.set_state(state)
            return
        position = checked_int(
            "global_next_index", state_field(state, "global_next_index", self), least=0
        )
        if "stream" not in state:
            raise ValueError(
                f"The state {state!r} belongs to a dataset without a filter, which is read by index; this "
                "one is read in order, and needs a state with the field 'stream' too. Restore it into the "
                "pipeline that saved it."
            )
        self._place = (step_at(position, self._size), 0)
        self._state = pickle.dumps(state)
        self._client.forget()

    def close(self) -> None:
        """End the gateway."""
        super().close()
        self._client.close()
        if self._local is not None:
            self._local.close()


def step_at(position: int, global_batch_size: int) -> int:
    """Return the step that follows a position; the last step may be short.

    >>> step_at(8, 4), step_at(9, 4)
    (2, 3)
    """
    return -(-position // global_batch_size)


class SequencerClient:
    """The connection of a host to the sequencer, through a gateway process.

    A few steps are asked for ahead. A lost gateway is replaced, with increasing delays.

    Args:
        join: Joins the cluster, in the gateway.
        host: The index of this host.
        reconnect_seconds: Longest wait for a cluster that was lost.
        stall_seconds: Longest wait for a step.
    """

    def __init__(
        self,
        join: Callable[[], SequencerSite],
        *,
        host: int,
        reconnect_seconds: float,
        stall_seconds: float,
    ):
        self._job = SequencerGatewayJob(join=join, host=host, stall_seconds=stall_seconds)
        self._reconnect_seconds = reconnect_seconds
        self._pool: WorkerPool | None = None
        self._requests: dict[Place, int] = {}
        self._acks: list[int] = []
        self._connected = False
        self._closed = threading.Event()
        self.losses = 0

    def take(self, place: Place, state: bytes) -> Serving:
        """Return the entry at a place; `state` is that before its step."""
        delay = 0.0
        while True:
            serving: Serving = self._call(lambda pool: self._take(pool, place, state))
            if serving.service != Service.STATE_NEEDED:
                return serving
            # The sequencer is a new one. It may take a moment before the lost one is known to be.
            self.forget()
            self._closed.wait(delay)
            delay = min(1.0, delay + 0.1)

    def _take(self, pool: WorkerPool, place: Place, state: bytes) -> Serving:
        step, errors = place
        wanted = [place, *((step + ahead, 0) for ahead in range(1, _READ_AHEAD))]
        if errors == 0:
            for other in list(self._requests):
                if other not in wanted:
                    pool.discard(self._requests.pop(other))
        for other in wanted:
            if other not in self._requests:
                # The first request carries the state, the others continue from there.
                carried = state if other == place else None
                message = Take(other, carried, place, time.time_ns())
                self._requests[other] = pool.submit(message, affinity=0)
        serving = Serving(*pool.result(self._requests[place]))
        del self._requests[place]
        if serving.service == Service.ERROR:
            self.forget()
        return serving

    def first_state(self) -> bytes:
        """Return the state before the first step."""
        while True:
            state: bytes | None = self._call(
                lambda pool: pool.result(pool.submit(StateBefore(0), affinity=0))
            )
            if state:
                return state

    def acknowledge(self, step: int) -> None:
        """Tell the sequencer that the state before a step is saved."""
        pool = self._pool
        if pool is None:
            return
        with contextlib.suppress(Exception):  # A sequencer that is lost has nothing to drop.
            self._acks = [ticket for ticket in self._acks if not _is_done(pool, ticket)]
            self._acks.append(pool.submit(Acknowledge(step), affinity=0))

    def sequencer_pid(self) -> int:
        """Return the process id of the sequencer; for diagnosis."""
        while True:
            pid = self._call(lambda pool: pool.result(pool.submit(FindSequencer(), affinity=0)))
            if pid is not None:
                return int(pid)

    @property
    def gateway_pid(self) -> int | None:
        """The process id of the gateway, if there is one."""
        return None if self._pool is None else self._pool.pids[0]

    def forget(self) -> None:
        """Drop the requests in flight."""
        if self._pool is not None:
            for ticket in self._requests.values():
                with contextlib.suppress(Exception):
                    self._pool.discard(ticket)
        self._requests.clear()

    def close(self) -> None:
        """End the gateway."""
        self._closed.set()
        if self._pool is not None:
            self._pool.close()

    def _call(self, action: Callable[[WorkerPool], Any]) -> Any:
        """Return the result of an action on the gateway, which is started again while it is lost."""
        lost_since: float | None = None
        delay = _FIRST_DELAY
        while True:
            if self._closed.is_set():
                raise PoolClosed("The iterator is closed.")
            if self._pool is None:
                self._pool = WorkerPool(self._job, num_workers=1, grace=_GRACE)
            try:
                result = action(self._pool)
            except PoolClosed:
                raise
            except Exception as error:
                self._drop_pool()
                if not self._connected and isinstance(error, ConnectionError):
                    raise
                now = time.monotonic()
                if lost_since is None:
                    lost_since = now
                    self.losses += 1
                if now - lost_since >= self._reconnect_seconds:
                    raise ClusterLostError(
                        f"The gateway to the sequencer was lost and the cluster did not return within "
                        f"{self._reconnect_seconds:g} seconds (`reconnect_seconds`): {error}."
                    ) from error
                self._closed.wait(delay)
                delay = min(2 * delay, _MAX_DELAY)
            else:
                self._connected = True
                return result

    def _drop_pool(self) -> None:
        pool, self._pool = self._pool, None
        self._requests.clear()
        self._acks.clear()
        if pool is not None:
            pool.close()


def _is_done(pool: WorkerPool, ticket: int) -> bool:
    if not pool.ready(ticket):
        return False
    pool.result(ticket)
    return True
