"""Batches of a dataset for one of several shards, resumable with another number of shards."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from grain.dataset.batch import BatchFn, checked_batch_fn
from grain.dataset.checkpointing import (
    CheckpointMixin,
    compare_saved_pipeline,
    mixtures_may_change,
    naming,
    read_any_pipeline,
)
from grain.dataset.chunk import Chunk
from grain.dataset.elastic import elastic_state as elastic_state
from grain.dataset.elastic.steps import GlobalStepsIterDataset
from grain.dataset.fingerprint.changes import allowed_changes, allowing
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.map_dataset import MapDataset
from grain.dataset.node import lines
from grain.dataset.shard_batches import (
    BatchShare,
    Remainder,
    ShardBatchesMapDataset,
    Share,
    checked_remainder,
)
from grain.index.even_split import global_steps
from grain.options import MultiprocessingOptions, ReadOptions, checked_int, checked_type
from grain.sharding import ShardOptions, checked_shard_options


class ElasticIterator(CheckpointMixin, IterDataset[Any]):
    """One shard's share of the global batches of a dataset.

    The state is a position in the whole dataset, the same for all shards, so that training can resume
    with more or fewer shards: each remaining element is yielded once, and the global batches are the
    same. All shards yield equally many batches. Element `i` of a global batch goes to shard
    `i % shard_count`.

    Of a map dataset without a filter, each shard reads only its share. The output of a filter, of
    packing, or of another operation that depends on order is known only by reading it: of such a
    dataset, and of every iter dataset, each shard reads everything and keeps its share.

    It is an iterator over itself, with `__next__`, `get_state` and `set_state`, and a dataset to which
    further operations can be applied.

    Args:
        ds: The whole dataset, the same for all shards.
        global_batch_size: The size of a batch over all shards.
        shard_options: Which shard this is.
        read_options: Threads and buffer for read-ahead; an iter dataset has its own.
        multiprocessing_options: Worker processes that compute ahead.
        remainder: The handling of elements at the end that do not fill a global batch: "drop", "keep",
            "pad" or "wrap", see `Remainder`.
        mask_name: The feature that holds the mask, with "pad".
        batch_fn: Function that makes a batch of a list of elements; stacks them if not given.

    >>> import grain
    >>> shards = [
    ...     ElasticIterator(grain.MapDataset.range(8), 4, grain.sharding.ShardOptions(i, 2))
    ...     for i in range(2)
    ... ]
    >>> [next(shard).tolist() for shard in shards]
    [[0, 2], [1, 3]]
    >>> alone = ElasticIterator(grain.MapDataset.range(8), 4, grain.sharding.ShardOptions(0, 1))
    >>> alone.set_state(ElasticIterator.merge_states([shard.get_state() for shard in shards]))
    >>> next(alone).tolist()
    [4, 5, 6, 7]
    """

    fingerprint_name = "elastic"

    def __init__(
        self,
        ds: MapDataset[Any] | IterDataset[Any],
        global_batch_size: int,
        shard_options: ShardOptions,
        *,
        read_options: ReadOptions = ReadOptions(),  # noqa: B008 - never changed
        multiprocessing_options: MultiprocessingOptions | None = None,
        remainder: Remainder | str = Remainder.DROP,
        mask_name: str = "mask",
        batch_fn: BatchFn | None = None,
    ):
        super().__init__()
        self._ds = _checked_whole(ds)
        self._shard = checked_shard_options(shard_options)
        self.global_batch_size = _checked_size(global_batch_size, self._shard.shard_count)
        self._read_options = checked_type(
            "read_options", read_options, ReadOptions, "a grain.ReadOptions"
        )
        if multiprocessing_options is not None:
            checked_type(
                "multiprocessing_options",
                multiprocessing_options,
                MultiprocessingOptions,
                "None or a grain.MultiprocessingOptions",
            )
        self._processes = multiprocessing_options
        self._make = BatchShare(
            self.global_batch_size // self._shard.shard_count,
            checked_remainder(remainder),
            checked_type("mask_name", mask_name, str, "a text"),
            checked_batch_fn(batch_fn),
        )
        self._iterator: ElasticDatasetIterator | None = None

    def __str__(self) -> str:
        return (
            f"ElasticIterator(global_batch_size={self.global_batch_size}, "
            f"shard_index={self._shard.shard_index}, shard_count={self._shard.shard_count})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_iterator": None}

    def __iter__(self) -> DatasetIterator[Any]:
        """Return the one iterator of this object: iterating again resumes at its position."""
        if self._iterator is None:
            ds = self._by_index
            self._iterator = (
                StreamElasticDatasetIterator(self)
                if ds is None
                else IndexedElasticDatasetIterator(self, ds)
            )
        return self._iterator

    def __next__(self) -> Any:
        return next(self.__iter__())

    def get_state(self) -> Any:
        """Return the position in the whole dataset."""
        return self.__iter__().get_state()

    def set_state(self, state: Any) -> None:
        """Restore a position, which another number of shards may have saved."""
        self.__iter__().set_state(state)

    @staticmethod
    def merge_states(
        states: Sequence[Any] | Mapping[int, Any], *, host_count: int | None = None
    ) -> Any:
        """Return the one state that all shards were in, or raise an error that lists which differ or miss.

        Args:
            states: The result of `get_state()` of each shard, in order or by index.
            host_count: The number of shards; needed where states are given by index.
        """
        return elastic_state.merge_states(states, host_count=host_count)

    @staticmethod
    def read_state(directory: Any) -> Any:
        """Return the one state in a folder where any number of processes saved theirs.

        It also works for `map` applied to an ElasticIterator.
        """
        return elastic_state.read_state(directory)

    async def save(self, directory: Any) -> Awaitable[None]:
        """Take the state; awaiting the result writes it into `directory` once that exists."""
        return await self.__iter__().save(directory)

    async def load(self, directory: Any) -> Awaitable[None]:
        """Read the state that any number of processes saved; awaiting the result sets it."""
        return await self.__iter__().load(directory)

    def close(self) -> None:
        """Release threads, processes and memory."""
        self.__iter__().close()

    @property
    def _by_index(self) -> MapDataset[Any] | None:
        """The dataset, if each of its elements is found by its index alone, else None."""
        return self._ds if isinstance(self._ds, MapDataset) and not self._ds.is_sparse else None

    def known_length(self) -> int | None:
        length = self._stream().known_length()
        if length is None:
            return None
        return global_steps(length, self.global_batch_size, self._make.remainder.keeps_rest)

    def _ahead(self, batches: IterDataset[Any]) -> IterDataset[Any]:
        return batches if self._processes is None else batches.mp_prefetch(self._processes)

    def _stream(self) -> IterDataset[Any]:
        """Return the whole dataset as a stream."""
        ds = self._ds
        return ds.to_iter_dataset(self._read_options) if isinstance(ds, MapDataset) else ds

    def batches_from(self, ds: MapDataset[Any], start: int) -> IterDataset[Any]:
        """Return this shard's batches from a position on, where elements are found by index."""
        batches: MapDataset[Any] = ShardBatchesMapDataset(
            ds,
            self._shard,
            self._make.batch_size,
            remainder=self._make.remainder,
            mask_name=self._make.mask_name,
            batch_fn=self._make.batch_fn,
            start=start,
        )
        return self._ahead(batches.to_iter_dataset(self._read_options))

    def batches_of_stream(self) -> IterDataset[Any]:
        """Return this shard's batches, where elements are found only by reading those before them."""
        steps = GlobalStepsIterDataset(
            self._stream(), self.global_batch_size, self._shard, self._make.remainder
        )
        return self._ahead(steps.map(self._make))

    @property
    def shard_options(self) -> ShardOptions:
        """Which shard this is."""
        return self._shard

    def whole_steps(self) -> IterDataset[Share]:
        """Return all elements of each global batch, as a stream: for a process that serves all shards.

        Its states are those of the batches of a stream.
        """
        everything = ShardOptions(shard_index=0, shard_count=1)
        return self._ahead(
            GlobalStepsIterDataset(
                self._stream(), self.global_batch_size, everything, self._make.remainder
            )
        )

    def batch_of(self, step: Share, shard_index: int) -> Any:
        """Return the batch of a shard, given all elements of a global batch."""
        own = step.elements[: step.real][shard_index :: self._shard.shard_count]
        # A share without elements has a sample of them.
        return self._make.map(Share(own or step.elements[:1], len(own)))

    def fingerprint_arguments(self) -> dict[str, Any]:
        # The shard may change from one run to the next.
        return {
            "global_batch_size": self.global_batch_size,
            "remainder": self._make.remainder,
            "batch_fn": self._make.batch_fn,
        }

    def fingerprint(self) -> list[lines.Line]:
        return [*self._ds.fingerprint(), lines.operation_line(self)]


class ElasticDatasetIterator(ChunkIterator[Any]):
    """One shard's batches; the state is a position in the whole dataset."""

    def __init__(self, elastic: ElasticIterator, batches: IterDataset[Any]):
        super().__init__()
        # A copy without an iterator: in a reference cycle, threads and processes would stay alive when
        # the user drops both.
        self._elastic = copy.copy(elastic)
        self._batches = batches.__iter__()

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._elastic})"

    def remember_dataset(self, dataset: Any) -> None:
        """Keep the copy: the dataset itself holds this iterator."""
        del dataset
        self._made_by = self._elastic

    read_state = staticmethod(elastic_state.read_state)

    async def load(self, directory: Any) -> Awaitable[None]:
        state = self.read_state(directory)
        compare_saved_pipeline(self, read_any_pipeline(directory))
        allowed = allowed_changes()  # The awaitable may run in another context.

        async def restore() -> None:
            with allowing(allowed), mixtures_may_change(), naming(directory):
                self.set_state(state)

        return restore()

    def start_prefetch(self) -> None:
        """Start reading ahead."""
        self._batches.start_prefetch()

    def close(self) -> None:
        """Close the iterator of batches."""
        super().close()
        self._batches.close()


class IndexedElasticDatasetIterator(ElasticDatasetIterator):
    """An elastic iterator over a map dataset; it counts batches from the restored position."""

    def __init__(self, elastic: ElasticIterator, ds: MapDataset[Any]):
        super().__init__(elastic, elastic.batches_from(ds, 0))
        self._ds = ds
        self._start = 0
        self._given = 0

    def _pull(self, limit: int) -> Chunk:
        chunk = self._batches.next_chunk(limit)
        state_after = self._states_from(self._given + 1)
        self._given += len(chunk.elements)
        return Chunk(chunk.elements, state_after)

    def _states_from(self, given: int) -> Callable[[int], Any]:
        """Return a function of the states after `given` batches and after each one that follows."""
        size, length = self._elastic.global_batch_size, len(self._ds)
        first = self._start + given * size
        # A short last batch ends where the dataset ends.
        return lambda offset: {"global_next_index": min(first + offset * size, length)}

    def _live_state(self) -> Any:
        return self._states_from(self._given)(0)

    def _restore(self, state: Any) -> None:
        if isinstance(state, Mapping) and "stream" in state:
            raise ValueError(
                f"The state {state!r} belongs to a dataset that is read in order, with a filter or "
                f"from an iter dataset; {self._ds} is read by index. Restore it into the "
                "pipeline that saved it."
            )
        start = checked_int(
            "global_next_index", state_field(state, "global_next_index", self), least=0
        )
        length = len(self._ds)
        if start > length:
            # Message kept from google/grain 0.2.18
            raise IndexError(
                f"Checkpoint `global_next_index` {start} is out of range for dataset of length "
                f"{length}. The dataset must be the one that the checkpoint was saved with."
            )
        self._batches.close()
        self._batches = self._elastic.batches_from(self._ds, start).__iter__()
        self._start, self._given = start, 0


class StreamElasticDatasetIterator(ElasticDatasetIterator):
    """An elastic iterator over a stream that all shards read; it forwards batches and states."""

    def __init__(self, elastic: ElasticIterator):
        super().__init__(elastic, elastic.batches_of_stream())

    def _pull(self, limit: int) -> Chunk:
        return self._batches.next_chunk(limit)

    def _live_state(self) -> Any:
        return self._batches.get_state()

    def _restore(self, state: Any) -> None:
        self._batches.set_state(state)


def _checked_whole(ds: Any) -> MapDataset[Any] | IterDataset[Any]:
    """Return the dataset, or raise an error if it is a single shard's share already."""
    if not isinstance(ds, (MapDataset, IterDataset)):
        raise TypeError(
            f"ElasticIterator needs a grain.MapDataset or a grain.IterDataset, got {ds!r} of type "
            f"{type(ds).__name__}; `grain.MapDataset.source(...)` makes one of a data source."
        )
    nodes: list[Any] = [ds]
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ElasticIterator, ShardBatchesMapDataset)):
            raise ValueError(
                f"ElasticIterator needs the whole dataset, the same for all shards; {node} is the "
                "share of one shard already, from which the other shares are unknown. Pass the "
                "dataset before it."
            )
        nodes += getattr(node, "_parents", ())
    return ds


def _checked_size(global_batch_size: Any, shard_count: int) -> int:
    size = checked_int("global_batch_size", global_batch_size, least=1)
    if size % shard_count:
        above = -(-size // shard_count) * shard_count
        # Message kept from google/grain 0.2.18
        raise ValueError(
            f"Global batch size {size} is not divisible by shard count {shard_count}. All shards get "
            f"equally many elements of every batch: use a multiple of {shard_count}, such as {above}, "
            "or another number of shards."
        )
    return size
