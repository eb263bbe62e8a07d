"""DataLoader and its iterator."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from grain.columnar.columnar_source import as_source
from grain.dataset.base import IterDataset
from grain.dataset.checkpointing import CheckpointMixin
from grain.dataset.fingerprint.changes import allowing
from grain.dataset.fingerprint.complete_text import complete_text
from grain.dataset.fingerprint.lines import Line, source_lines
from grain.dataset.fingerprint.stable_text import stable_text
from grain.dataset.traceback_filter import filter_traceback
from grain.loader import loader_state as states
from grain.loader.pipeline import build_pipeline, check_operations
from grain.options import MultiprocessingOptions, ReadOptions, checked_int
from grain.samplers import IndexSampler, SequentialSampler
from grain.sharding import ShardOptions, checked_shard_options

if TYPE_CHECKING:
    from grain.observe.page.pipeline_page import PipelinePage
    from grain.observe.statistics import PipelineStatistics

T = TypeVar("T")

_PLAIN_SOURCES = (list, tuple, np.ndarray)


def determine_worker_count(input_worker_count: int | None) -> int:
    """Return a number of worker processes: the given one, or one for each processor.

    >>> determine_worker_count(3)
    3
    """
    return (os.cpu_count() or 1) if input_worker_count is None else input_worker_count


class DataLoader:
    """Loader that reads records in the order of a sampler and applies transformations to them.

    Args:
        data_source: The records, by `__len__` and `__getitem__`; with the samplers of this library also
            columns, as `MapDataset.source` takes them.
        sampler: The order, the epochs and the shard.
        operations: Transformations, applied one after the other.
        worker_count: Worker processes; 0 computes in this process, None picks a number. It changes
            neither the elements nor the state.
        worker_buffer_size: The number of elements that each worker prefetches; 0 is as good as 1.
        shard_options: The shard to read; by default the sampler's.
        read_options: Threads and buffer of the read-ahead.
        enable_profiling: Whether iterators are observed with a timeline; `stats()` has it.
        worker_init_fn: Called in each worker with its index and the number of workers.
        executor: Computes the elements where `worker_count` is not 0: a name or an object, as in
            `MultiprocessingOptions`. It changes neither the elements nor the state.

    >>> import grain
    >>> loader = DataLoader(
    ...     data_source=["a", "b", "c"],
    ...     sampler=grain.samplers.IndexSampler(num_records=3, num_epochs=1),
    ... )
    >>> list(loader)
    ['a', 'b', 'c']
    """

    def __init__(
        self,
        *,
        data_source: Any,
        sampler: Any,
        operations: Sequence[Any] = (),
        worker_count: int | None = 0,
        worker_buffer_size: int = 1,
        shard_options: ShardOptions | None = None,
        read_options: ReadOptions | None = None,
        enable_profiling: bool = False,
        worker_init_fn: Callable[[int, int], None] | None = None,
        executor: Any = None,
    ):
        if (
            worker_count is not None
            and checked_int("worker_count", worker_count, least=-(2**63)) < 0
        ):
            raise ValueError(
                "Worker count should be greater than or equal zero. Current worker_count is "
                f"{worker_count}."
            )
        buffer_size = checked_int("worker_buffer_size", worker_buffer_size, least=-(2**63))
        if buffer_size < 0:
            # Message kept from google/grain 0.2.18
            raise ValueError(
                "Worker buffer size must be greater than or equal zero. Current worker_buffer_size is "
                f"{buffer_size}."
            )
        if not hasattr(type(sampler), "__getitem__"):
            raise TypeError(
                "sampler must have `__getitem__(index) -> RecordMetadata`, such as "
                f"grain.samplers.IndexSampler; got {sampler!r} of type {type(sampler).__name__}."
            )
        # Another sampler may use the names of a dictionary as record keys.
        by_index = isinstance(sampler, (IndexSampler, SequentialSampler))
        self._data_source = as_source(data_source) if by_index else data_source
        self._sampler = sampler
        self._operations = check_operations(operations)
        self._shard_options = _shard_of(sampler, shard_options)
        self._read_options = read_options or ReadOptions()
        self._multiprocessing_options = MultiprocessingOptions(
            num_workers=worker_count,
            # A worker prefetches at least the element that it computes.
            per_worker_buffer_size=max(buffer_size, 1),
            enable_profiling=enable_profiling,
            executor=executor,
        )
        self._worker_init_fn = worker_init_fn
        self.dataset = self._create_dataset()
        """The pipeline that the loader iterates over."""

    @property
    def data_source(self) -> Any:
        """The source of the records."""
        return self._data_source

    @property
    def sampler(self) -> Any:
        """The order in which records are read."""
        return self._sampler

    @property
    def operations(self) -> tuple[Any, ...]:
        """The transformations."""
        return self._operations

    @property
    def shard_options(self) -> ShardOptions:
        """The shard that is read."""
        return self._shard_options

    @property
    def read_options(self) -> ReadOptions:
        """Threads and buffer of the read-ahead."""
        return self._read_options

    @property
    def multiprocessing_options(self) -> MultiprocessingOptions:
        """Worker processes and their prefetch buffers."""
        return self._multiprocessing_options

    def _create_dataset(self) -> IterDataset[Any]:
        dataset = build_pipeline(
            self._data_source,
            self._sampler,
            self._shard_options,
            self._read_options,
            self._operations,
        )
        return dataset.mp_prefetch(self._multiprocessing_options, self._worker_init_fn)

    def __len__(self) -> int:
        if not hasattr(type(self._sampler), "__len__"):
            raise TypeError(
                f"object of type 'DataLoader' has no len(): its sampler {type(self._sampler).__name__} "
                "has none, so the number of elements is known only after reading them."
            )
        return len(self.dataset)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> DataLoaderIterator[Any]:
        return DataLoaderIterator(self, None)

    def __repr__(self) -> str:
        operations = ", ".join(str(operation) for operation in self._operations)
        return (
            f"DataLoader(data_source={self._data_source!r}, sampler={self._sampler!r}, "
            f"operations=[{operations}], {self._multiprocessing_options})"
        )

    def visualize(self, path: str | os.PathLike[str] | None = None, **options: Any) -> PipelinePage:
        """Return a page of this loader's pipeline; see `IterDataset.visualize` for the arguments."""
        return self.dataset.visualize(path, **options)

    def _repr_html_(self) -> str | None:
        return self.dataset._repr_html_()

    # Part of every state. Cached: the repr of a sampler or a source may be slow.
    @functools.cached_property
    def sampler_text(self) -> str:
        """The sampler as states store it."""
        return complete_text(self._sampler)

    @functools.cached_property
    def source_text(self) -> str:
        """The source as states store it."""
        source = self._data_source
        # The repr of a list or an array would be the data itself.
        return complete_text(type(source) if isinstance(source, _PLAIN_SOURCES) else source)


def _shard_of(sampler: Any, given: ShardOptions | None) -> ShardOptions:
    if given is not None:
        return checked_shard_options(given)
    shard = getattr(sampler, "_shard_options", None)
    if not isinstance(shard, ShardOptions):
        raise ValueError(
            # Message kept from google/grain 0.2.18
            "No shard options were provided to the DataLoader. Please pass shard options to the "
            "DataLoader. Previously sharding was handled by the Sampler but going forward sharding "
            "will be handled by the DataLoader for greater flexibility. The sampler "
            f"{type(sampler).__name__} has none either; grain.sharding.NoSharding() reads all records."
        )
    return shard


class DataLoaderIterator(CheckpointMixin, Iterator[T], Generic[T]):
    """An iterator over the elements of a `DataLoader`; its state is a few lines of JSON."""

    def __init__(self, data_loader: DataLoader, state: Any, validate_state: bool = True):
        del validate_state
        self._data_loader = data_loader
        self._iterator = iter(data_loader.dataset)
        if state is not None:
            self.set_state(state)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        element: T
        # Not `next`: an interrupt right after it has returned would lose the element.
        try:
            for element in self._iterator:
                return element
        except Exception as error:
            filter_traceback(error)
            raise
        raise StopIteration

    def get_state(self) -> bytes:
        """Return the state as JSON."""
        loader = self._data_loader
        return states.encode(
            self._iterator.get_state(),
            loader.shard_options,
            loader.multiprocessing_options.num_workers or 0,
            loader.sampler_text,
            loader.source_text,
        )

    def set_state(self, state: bytes, *, allow: str | Iterable[str] = ()) -> None:
        """Restore a state that `get_state` returned, with any number of workers.

        Args:
            state: The state.
            allow: What may differ in the loader that saved it, "sampler" or "source"; the position in
                its order is then used unchanged.
        """
        loader = self._data_loader
        with allowing(allow):
            inner = states.decode(
                state, loader.shard_options, loader.sampler_text, loader.source_text
            )
            self._iterator.set_state(inner)

    def _make_fingerprint(self) -> list[Line]:
        loader, shard = self._data_loader, self._data_loader.shard_options
        return [
            *source_lines(loader.data_source),
            Line("sampler", stable_text(loader.sampler)),
            Line("shard", f"{shard.shard_index} of {shard.shard_count}"),
            *(Line("operation", stable_text(operation)) for operation in loader.operations),
        ]

    def start_prefetch(self) -> None:
        """Start to prefetch before the first element is requested."""
        self._iterator.start_prefetch()

    def stats(self) -> PipelineStatistics:
        """Return the measurements of this iterator so far, if it is observed; see `DatasetIterator.stats`."""
        return self._iterator.stats()

    def close(self) -> None:
        """Release threads, processes and memory. A closed iterator cannot be advanced."""
        self._iterator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return f"PyGrainDatasetIterator(state={self.get_state().decode()})"
