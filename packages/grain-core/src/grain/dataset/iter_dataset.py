"""IterDataset: elements in order."""

from __future__ import annotations

import abc
import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import numpy as np

from grain import dataset as operations
from grain import transforms
from grain._config import config
from grain._lazy import LazyModule
from grain.dataset import same_epoch, torch_loader
from grain.dataset.entry_points import observation
from grain.dataset.iterator import DatasetIterator
from grain.dataset.node import DatasetNode, ExecutionTrait, SessionBinding
from grain.dataset.recognition import RecognisedIterDataset
from grain.options import MultiprocessingOptions

# The operations need the class below; they are imported when they are first called.
if TYPE_CHECKING:
    from grain.dataset.packing import strategy as packing
    from grain.dataset.transform_types import SupportsMap, SupportsMapWithIndex, SupportsRandomMap
else:
    packing = LazyModule("grain.dataset.packing.strategy")

T = TypeVar("T")
S = TypeVar("S")


def _remember_dataset(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a class's `__iter__`: iterators keep their dataset, and bound datasets are read by workers."""

    @functools.wraps(make)
    def __iter__(self: Any) -> Any:  # noqa: N807 - shown in tracebacks
        return same_epoch.open_watched(self, open_) if same_epoch.is_watching else open_(self)

    def open_(self: Any) -> Any:
        if torch_loader.get_worker_info is not None:
            torch_loader.check_torch_worker(self)
        if _observe is not None and (observed := _observe(self)) is not None:
            return observed
        session = _bound_session(self, __iter__) if _has_bound_nodes else None
        iterator = make(self) if session is None else session.iterate(self)
        if isinstance(iterator, DatasetIterator) and iterator is not self:
            iterator.remember_dataset(self)
        return iterator

    return __iter__


# Makes the observed iterator of a dataset, or returns None; None in programs that observe nothing.
_observe: Callable[[Any], Any] | None = None


def set_observer(observe: Callable[[Any], Any]) -> None:
    """Make iterators by a function from now on; it returns None for those that are not observed."""
    global _observe
    _observe = observe


# Whether any node was bound to a session, so that other programs need not look for one.
_has_bound_nodes = False


def enable_bound_nodes() -> None:
    """Make iterators of nodes that read from a bound copy through the session of the copy."""
    global _has_bound_nodes
    _has_bound_nodes = True


def _bound_session(node: Any, method: Any) -> SessionBinding | None:
    """Return the session of a node if `method` is its `__iter__`, and not that of a base class."""
    return find_session(node) if type(node).__iter__ is method else None


def find_session(node: Any) -> SessionBinding | None:
    """Return the session to which a node, or one that it reads from, is bound."""
    found: SessionBinding | None = node.bound_session
    if found is None and isinstance(node, IterDataset):
        sessions = map(find_session, node.parents)
        found = next((session for session in sessions if session is not None), None)
    return found


_open = operator.methodcaller("__iter__")


def _iterate(self: IterDataset[Any]) -> DatasetIterator[Any]:
    """Return a new iterator at the first element."""
    if same_epoch.is_watching:
        return same_epoch.open_watched(self, _open_with_parents)
    return _open_with_parents(self)


def _open_with_parents(self: IterDataset[Any]) -> DatasetIterator[Any]:
    iterator: DatasetIterator[Any]
    if torch_loader.get_worker_info is not None:
        torch_loader.check_torch_worker(self)
    if _observe is not None and (observed := _observe(self)) is not None:
        found: DatasetIterator[Any] = observed
        return found
    if _has_bound_nodes and (session := _bound_session(self, _iterate)) is not None:
        iterator = session.iterate(self)
    else:
        iterator = self.make_iterator(self.make_parent_iterators(_open))
    if isinstance(iterator, DatasetIterator) and iterator is not self:  # type: ignore[comparison-overlap]
        iterator.remember_dataset(self)
    return iterator


class IterDataset(RecognisedIterDataset, DatasetNode, Iterable[T], metaclass=abc.ABCMeta):
    """A dataset whose elements are read in order.

    A subclass writes `make_iterator`, or `__iter__`, either of which returns a `DatasetIterator`, and
    passes the datasets it reads from to `__init__`. The parents of a class that writes `make_iterator`
    are opened by the library, so that workers can compute them.

    Attributes:
        execution_trait: How elements depend on those of the parents. By default ORDERED for a class
            that writes `make_iterator`, OPAQUE for one that writes `__iter__`.
    """

    execution_trait: ExecutionTrait = ExecutionTrait.OPAQUE

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if torch_loader.get_worker_info is None:
            torch_loader.register_with_torch(IterDataset)
        if "__iter__" in cls.__dict__:
            cls.__iter__ = _remember_dataset(cls.__iter__)  # type: ignore[method-assign]
            trait = ExecutionTrait.OPAQUE
        elif "make_iterator" in cls.__dict__:
            if cls.__iter__ is IterDataset.__iter__:
                cls.__iter__ = _iterate  # type: ignore[method-assign]
            trait = ExecutionTrait.ORDERED
        else:
            return
        if "execution_trait" not in cls.__dict__:
            cls.execution_trait = trait

    def __iter__(self) -> DatasetIterator[T]:
        """Return a new iterator at the first element."""
        return _iterate(self)

    if not TYPE_CHECKING:  # Abstract until a class writes it or `make_iterator`.
        __iter__ = abc.abstractmethod(__iter__)

    def make_parent_iterators(
        self, make: Callable[[Any], DatasetIterator[Any]]
    ) -> list[DatasetIterator[Any]]:
        """Return the iterators that `make_iterator` reads from, made of each parent by `make`."""
        parents = self._parents
        return [make(parents[0])] if len(parents) == 1 else [make(parent) for parent in parents]

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        """Return the iterator of this node over iterators of its parents."""
        del parents
        raise NotImplementedError(
            f"{type(self).__name__} has only an `__iter__`, which opens its parents itself. Write "
            "`make_iterator(parents)` instead to read from given iterators."
        )

    def known_length(self) -> int | None:
        """Return the number of elements where it is known without reading, else None."""
        return None

    def __len__(self) -> int:
        length = self.known_length()
        if length is None:
            raise TypeError(
                f"object of type {type(self).__name__!r} has no len(): the number of elements of "
                f"{self} is known only by reading it."
            )
        return length

    def __bool__(self) -> bool:
        return True

    @staticmethod
    def from_iterable(
        iterable: Callable[[], Iterable[Any]] | Iterable[Any], *, own_state: bool | None = None
    ) -> IterDataset[Any]:
        """Return a dataset over anything that can be iterated: a generator function, a list, a stream.

        The state is the number of elements read; restoring reads and skips as many, so the iterable must
        yield the same elements again. An iterable with `state_dict` and `load_state_dict`, such as a
        streaming dataset of Hugging Face, is resumed by its own state.

        Args:
            iterable: A function without arguments that returns an iterable, or an iterable that can be
                iterated again, such as `IterableDataset` of torch. With workers, one worker reads it.
            own_state: Whether to save the iterable's own state; None does if it has one, False saves
                the position.

        >>> import grain
        >>> def lines():
        ...     for number in range(4):
        ...         yield f"line {number}"
        >>> ds = grain.IterDataset.from_iterable(lines).filter(lambda line: line != "line 1")
        >>> iterator = iter(ds)
        >>> next(iterator), next(iterator)
        ('line 0', 'line 2')
        >>> state = iterator.get_state()
        >>> resumed = iter(ds)
        >>> resumed.set_state(state)
        >>> next(resumed)
        'line 3'
        """
        return operations.from_iterable.IterableIterDataset(iterable, own_state=own_state)

    @staticmethod
    def mix(
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]],
        weights: Sequence[float] | Mapping[str, float] | None = None,
    ) -> IterDataset[Any]:
        """Mix datasets in given proportions, until the next one to read is exhausted.

        Components may be named; they are then ordered by name, and a state refers to them by name.
        """
        return operations.mix.MixedIterDataset(datasets, weights)

    def apply(
        self, transformations: transforms.Transformation | transforms.Transformations
    ) -> IterDataset[Any]:
        """Apply one transformation or several, in order."""
        return cast(
            "IterDataset[Any]", operations.apply.apply_transformations(self, transformations)
        )

    @overload
    def batch(
        self, batch_size: int, *, drop_remainder: bool = False, batch_fn: None = None
    ) -> IterDataset[Any]: ...
    @overload
    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[T]], S],
    ) -> IterDataset[S]: ...
    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[T]], Any] | None = None,
    ) -> IterDataset[Any]:
        """Stack consecutive elements along a new first dimension.

        >>> import grain
        >>> ds = grain.MapDataset.range(10).filter(lambda x: x % 3 == 0).to_iter_dataset()
        >>> list(ds.batch(2))
        [array([0, 3]), array([6, 9])]
        """
        return operations.batch.BatchIterDataset(self, batch_size, drop_remainder, batch_fn)

    def filter(self, transform: transforms.Filter | Callable[[T], bool]) -> IterDataset[T]:
        """Drop the elements for which `transform` is false."""
        return operations.filter.FilterIterDataset(self, transform)

    def map(self, transform: SupportsMap[T, S] | Callable[[T], S]) -> IterDataset[S]:
        """Apply a function to every element."""
        return operations.map.MapIterDataset(self, transform)

    def map_with_index(
        self, transform: SupportsMapWithIndex[T, S] | Callable[[int, T], S]
    ) -> IterDataset[S]:
        """Apply a function to each element and the number of elements before it."""
        return operations.map.MapWithIndexIterDataset(self, transform)

    def random_map(
        self,
        transform: SupportsRandomMap[T, S] | Callable[[T, np.random.Generator], S],
        *,
        seed: int | None = None,
    ) -> IterDataset[S]:
        """Apply a function to every element and a generator that is seeded for that element."""
        return operations.random_map.RandomMapIterDataset(self, transform, seed)

    def seed(self, seed: int | None) -> IterDataset[T]:
        """Set the seed from which the random operations that follow derive theirs; None sets none."""
        return operations.seed.WithSeedIterDataset(self, seed)

    def flat_map(self, transform: transforms.FlatMap) -> IterDataset[Any]:
        """Split each element into several; see `grain.transforms.FlatMap`."""
        return operations.flat_map.FlatMapIterDataset(self, transform)

    def window_shuffle(self, window_size: int, *, seed: int) -> IterDataset[T]:
        """Read windows of elements and shuffle each."""
        return operations.window_shuffle.WindowShuffleIterDataset(
            self, window_size=window_size, seed=seed
        )

    def zip(self, *others: IterDataset[Any], strict: bool = True) -> IterDataset[tuple[Any, ...]]:
        """Combine the elements of this and other datasets into tuples; `strict` requires equal lengths."""
        return operations.zip.ZipIterDataset([self, *others], strict=strict)

    def limit(self, count: int) -> IterDataset[T]:
        """Keep the first `count` elements.

        >>> import grain
        >>> list(grain.MapDataset.range(9).to_iter_dataset().limit(2))
        [0, 1]
        """
        return operations.limit.LimitIterDataset(self, count)

    def repeat(self, num_epochs: int | None = None) -> IterDataset[T]:
        """Repeat the dataset several times, or without end; every epoch is like the first."""
        return operations.repeat.RepeatIterDataset(self, num_epochs)

    def cache(self) -> IterDataset[T]:
        """Cache elements in memory, for a `repeat` that follows."""
        return operations.cache.CacheIterDataset(self)

    def rebatch(self, batch_size: int, *, drop_remainder: bool = False) -> IterDataset[T]:
        """Split and join batches so that each has `batch_size` rows."""
        return operations.rebatch.RebatchIterDataset(self, batch_size, drop_remainder)

    def unbatch(self) -> IterDataset[Any]:
        """Split batches into their rows."""
        return operations.unbatch.UnbatchIterDataset(self)

    def rekey(self, names: Mapping[str, str], *, keep_others: bool = True) -> IterDataset[Any]:
        """Rename features: `names` maps old names to new ones."""
        return self.map(operations.rekey.Rekey(names, keep_others))

    def pad_or_trim(
        self, lengths: Mapping[str, int] | int, *, pad_value: Any = 0
    ) -> IterDataset[Any]:
        """Pad or trim arrays, or features of dictionaries, to a fixed length."""
        return self.map(operations.pad_or_trim.PadOrTrim(lengths, pad_value))

    def pack(
        self, length_struct: Mapping[str, Any], *, strategy: str = "first_fit", **options: Any
    ) -> IterDataset[dict[str, Any]]:
        """Pack several sequences into each element.

        Args:
            length_struct: The length of each feature of an element.
            strategy: "first_fit", "best_fit" or "concat_then_split".
            **options: The options of `FirstFitPackIterDataset`, `BestFitPackIterDataset` or
                `ConcatThenSplitIterDataset` in `grain.experimental`.

        >>> import grain
        >>> documents = [{"tokens": np.arange(1, n + 1)} for n in (3, 4)]
        >>> ds = grain.MapDataset.source(documents).to_iter_dataset()
        >>> [e["tokens"] for e in ds.pack({"tokens": 4}, strategy="concat_then_split")]
        [array([1, 2, 3, 1]), array([2, 3, 4, 0])]
        """
        return packing.pack(self, length_struct, strategy, options)

    def mp_prefetch(
        self,
        options: MultiprocessingOptions | None = None,
        worker_init_fn: Callable[[int, int], None] | None = None,
        sequential_slice: bool = False,
        *,
        num_workers: int | None = None,
        per_worker_buffer_size: int | None = None,
    ) -> IterDataset[T]:
        """Compute elements ahead in worker processes; their number never changes the stream.

        Args:
            options: The number of workers, and how far they compute ahead.
            worker_init_fn: Function called in each worker with its index and the number of workers.
            sequential_slice: Accepted for compatibility and ignored: workers read no slices.
            num_workers: The number of workers, instead of `options`; None picks a number that suits the
                machine.
            per_worker_buffer_size: The number of elements that each worker prefetches, instead of
                `options`.

        >>> import grain
        >>> list(grain.MapDataset.range(3).to_iter_dataset().mp_prefetch(num_workers=2))
        [0, 1, 2]
        """
        if num_workers is not None or per_worker_buffer_size is not None:
            options = operations.prefetch.as_options(options, num_workers, per_worker_buffer_size)
        return operations.prefetch.mp_prefetch(self, options, worker_init_fn, sequential_slice)

    def prefetch(self, multiprocessing_options: MultiprocessingOptions) -> IterDataset[T]:
        """Compute elements ahead, like `mp_prefetch`."""
        return operations.prefetch.mp_prefetch(self, multiprocessing_options, None, False)

    def observe(self, *, name: str | None = None, trace: bool = False) -> IterDataset[T]:
        """Measure the iterators of this dataset; see `stats()` of an iterator.

        Elements, their order and states do not change. Call it last: the whole pipeline is measured.

        Args:
            name: A name for the pipeline in exports.
            trace: Whether to record a timeline.

        >>> import grain
        >>> iterator = iter(grain.MapDataset.range(10).map(str).to_iter_dataset().observe())
        >>> len(list(iterator)), iterator.stats().elements
        (10, 10)
        """
        return operations.observe.ObserveIterDataset(self, name=name, trace=trace)


class TransparentIterDataset(IterDataset[T]):
    """A node with the elements and the states of its one parent."""

    preserves_elements = True

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return parents[0]

    execution_trait = ExecutionTrait.TRANSPARENT

    def accepts_state(self, state: Any) -> bool:
        accepted: bool = self._parent.accepts_state(state)
        return accepted

    def known_length(self) -> int | None:
        length: int | None = self._parent.known_length()
        return length

    def fingerprint(self) -> list[Any]:
        if self.fingerprint_name is not None:
            return super().fingerprint()
        lines: list[Any] = self._parent.fingerprint()
        return lines


def _observe_from_now_on(dataset: Any) -> Any:
    """Load telemetry with the first iterator: it cannot be imported while this module is."""
    observation().enable()
    return None if _observe is None else _observe(dataset)


def _follow_setting(value: Any) -> None:
    if value is None or value is False:  # An empty text and port 0 are values.
        return
    if _observe is None:
        set_observer(_observe_from_now_on)
    elif _observe is not _observe_from_now_on:  # Something was observed before.
        observation().enable()


for _name in ("observe", "prometheus_port", "py_dataset_visualization_output_dir", "py_debug_mode"):
    config.watch(_name, _follow_setting)
