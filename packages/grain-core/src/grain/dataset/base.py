"""MapDataset and IterDataset: immutable, picklable descriptions of a pipeline."""

from __future__ import annotations

import abc
import builtins
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    overload,
)

import numpy as np

from grain import dataset as operations
from grain import transforms
from grain._exceptions import note_element
from grain._lazy import LazyModule
from grain.dataset.chunk import PartialRead
from grain.dataset.iterator import ChunkIterator, DatasetIterator
from grain.index.permutation import IndexArray
from grain.options import MultiprocessingOptions, ReadOptions

# The operations need the classes below; they are imported when they are called for.
if TYPE_CHECKING:
    from grain import sharding
    from grain.dataset.packing import strategy as packing
else:
    sharding = LazyModule("grain.sharding")
    packing = LazyModule("grain.dataset.packing.strategy")

__all__ = ["DatasetIterator", "IterDataset", "MapDataset", "ChunkIterator"]

T = TypeVar("T")
S = TypeVar("S")
P = ParamSpec("P")


class _Dataset:
    """What map and iter datasets share: parents, seeds, `pipe`."""

    # Class attributes, so that subclasses may define no `__init__` or not call this one.
    _parents: tuple[Any, ...] = ()
    # The seed that this very node holds, if it does.
    _own_seed: int | None = None

    def __init__(self, parents: Any = ()) -> None:
        self._parents = tuple(parents) if isinstance(parents, (list, tuple)) else (parents,)

    @property
    def parents(self) -> tuple[Any, ...]:
        """The datasets this one reads from."""
        return self._parents

    @property
    def _parent(self) -> Any:
        if len(self._parents) != 1:
            raise ValueError(
                f"{type(self).__name__} has {len(self._parents)} parents; `_parent` needs one."
            )
        return self._parents[0]

    @functools.cached_property
    def _default_seed(self) -> int | None:
        """A seed of this node's own, made of the seeds given upstream and how far away they are."""
        found: list[int] = []
        level: list[Any] = [self]
        depth = 0
        while level:
            further: list[Any] = []
            for node in level:
                if node._own_seed is not None:
                    found += [node._own_seed, depth]
                else:
                    further += node._parents
            level, depth = further, depth + 1
        if not found:
            return None
        return int(np.random.SeedSequence(found).generate_state(1)[0])

    def pipe(
        self, func: Callable[Concatenate[Self, P], S], /, *args: P.args, **kwargs: P.kwargs
    ) -> S:
        """Calls `func(self, *args, **kwargs)`, so that own functions fit into a chain of methods.

        >>> import grain
        >>> def every_second(ds):
        ...     return ds[::2]
        >>> list(grain.MapDataset.range(6).pipe(every_second))
        [0, 2, 4]
        """
        return func(self, *args, **kwargs)

    if not TYPE_CHECKING:  # With it, a type checker would believe in every attribute.

        def __getattr__(self, name: str) -> Any:
            """Says where an operation is to be found that this kind of dataset does not have."""
            if advice := _where_instead(type(self), name):
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}: {advice}",
                    name=name,
                    obj=self,
                )
            return object.__getattribute__(self, name)  # Raises what was raised before.

    def __str__(self) -> str:
        return type(self).__name__

    def _sources(self) -> str:
        """The sources this dataset reads from, for messages."""
        if not self._parents:
            return str(self)
        return ", ".join(dict.fromkeys(parent._sources() for parent in self._parents[:3]))


def _where_instead(kind: type, name: str) -> str | None:
    """What to do to call a public method that a kind of dataset does not have but another has."""
    if name.startswith("_"):
        return None
    if issubclass(kind, MapDataset) and hasattr(IterDataset, name):
        return f"`{name}` is for an IterDataset, so call `to_iter_dataset()` before it."
    if issubclass(kind, IterDataset) and hasattr(MapDataset, name):
        if name == "to_iter_dataset":
            return "it is an IterDataset already."
        return f"`{name}` is for a MapDataset, so call it before `to_iter_dataset()`."
    if hasattr(DatasetIterator, name):
        return (
            f"`{name}` is for an iterator, so make one with `iterator = iter(ds)` and keep it: it is "
            "the one that has a position."
        )
    return None


def as_index(index: Any, dataset: Any) -> int:
    """Returns an index of any integer type as an int, or raises an error that shows it."""
    try:
        number = index.__index__()
    except AttributeError:
        raise TypeError(
            f"{dataset} is indexed by integers or slices, got {index!r} of type "
            f"{type(index).__name__}."
        ) from None
    if not -(2**63) <= number < 2**63:
        raise IndexError(f"Index {number} of {dataset} does not fit into 64 bits.")
    return int(number)


def as_indices(indices: Any, dataset: Any) -> IndexArray:
    """Returns a sequence of indices of any integer type as an array, or raises an error that shows it."""
    array = np.asarray(indices)
    if array.ndim != 1:
        raise TypeError(
            f"{dataset} is read by a flat sequence of indices, got one of shape {array.shape}. "
            "Flatten it, and bring what is read into the shape you want."
        )
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise IndexError(f"Index {array.max()} of {dataset} does not fit into 64 bits.")
    if array.dtype.kind not in "iu":
        array = np.array([as_index(index, dataset) for index in indices], dtype=np.int64)
    return array.astype(np.int64, copy=False)


class MapDataset(_Dataset, Generic[T], abc.ABC):
    """A dataset whose elements can be read by index, in any order.

    An index past the end belongs to a later epoch: element `i` is element `i % len(ds)` of epoch
    `i // len(ds)`, where shuffles and random maps draw anew. An element is None where it was
    filtered out; iteration skips those.

    A subclass writes `__len__` and `__getitem__`, and passes the datasets it reads from to
    `__init__`.
    """

    @abc.abstractmethod
    def __len__(self) -> int:
        """How many elements one epoch has."""

    @overload
    def __getitem__(self, index: builtins.slice) -> MapDataset[T]: ...
    @overload
    def __getitem__(self, index: int) -> T | None: ...
    @abc.abstractmethod
    def __getitem__(self, index: Any) -> Any:
        """The element at an index, or the dataset of a slice."""

    def __getitems__(self, indices: Sequence[int]) -> list[T | None]:
        """The elements at many indices at once, in the order asked; None where filtered out.

        >>> import grain
        >>> grain.MapDataset.range(10).shuffle(seed=3).__getitems__([0, 0, 13])
        [4, 4, 3]
        """
        array = as_indices(indices, self)
        if not array.size:
            return []
        if not len(self):
            raise IndexError(f"Index {array[0]} is out of range: {self} is empty.")
        singly = (
            type(self)._read is MapDataset._read
        )  # A user's own `__getitems__` may call this one.
        elements = self._read_singly(array) if singly else self._read(array)
        if isinstance(elements, PartialRead):
            raise elements.error
        return elements

    def __iter__(self) -> DatasetIterator[T]:
        return self.to_iter_dataset().__iter__()

    # Sources

    @staticmethod
    def source(source: Any) -> MapDataset[Any]:
        """A dataset over a sequence or any object with `__len__` and `__getitem__`.

        A source that also has `__getitems__(indices)` is read many records at a time.

        >>> import grain
        >>> grain.MapDataset.source(["a", "b", "c"])[1]
        'b'
        """
        return operations.source.SourceMapDataset(source)

    @staticmethod
    def range(start: int, stop: int | None = None, step: int = 1) -> MapDataset[int]:
        """A dataset of integers, like Python's `range`.

        >>> import grain
        >>> list(grain.MapDataset.range(2, 8, 2))
        [2, 4, 6]
        """
        return operations.source.RangeMapDataset(start, stop, step)

    @staticmethod
    def mix(
        datasets: Sequence[MapDataset[Any]] | Mapping[str, MapDataset[Any]],
        weights: Sequence[float] | Mapping[str, float] | None = None,
    ) -> operations.mix.MixedMapDataset[Any]:
        """Mixes datasets in given proportions, until the first of them would have to repeat.

        Components may be named; they are then taken in the order of their names, and proportions can
        be changed on the way: see `MixedMapDataset.change_at`.

        >>> import grain
        >>> list(grain.MapDataset.mix([grain.MapDataset.range(3), grain.MapDataset.range(10, 13)]))
        [0, 10, 1, 11, 2, 12]
        """
        return operations.mix.MixedMapDataset(datasets, weights)

    @staticmethod
    def select_from_datasets(
        datasets: Sequence[MapDataset[Any]], selection_map: transforms.DatasetSelectionMap
    ) -> MapDataset[Any]:
        """A dataset whose elements a selection map picks from several datasets."""
        return operations.several.SelectedMapDataset(datasets, selection_map)

    @staticmethod
    def concatenate(datasets: Sequence[MapDataset[Any]]) -> MapDataset[Any]:
        """Datasets one after the other.

        >>> import grain
        >>> list(grain.MapDataset.concatenate([grain.MapDataset.range(2), grain.MapDataset.range(2)]))
        [0, 1, 0, 1]
        """
        return operations.several.ConcatenateMapDataset(datasets)

    # Operations

    def apply(
        self, transformations: transforms.Transformation | transforms.Transformations
    ) -> MapDataset[Any]:
        """Applies one transformation or several, one after the other."""
        return cast("MapDataset[Any]", apply_transformations(self, transformations))

    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[T]], S] | None = None,
    ) -> MapDataset[S]:
        """Stacks consecutive elements along a new first dimension; a batch never spans two epochs.

        >>> import grain
        >>> list(grain.MapDataset.range(5).batch(2))
        [array([0, 1]), array([2, 3]), array([4])]
        """
        return operations.batch.BatchMapDataset(self, batch_size, drop_remainder, batch_fn)

    def filter(self, transform: transforms.Filter | Callable[[T], bool]) -> MapDataset[T]:
        """Puts None in the place of elements for which `transform` is false; iteration skips them.

        >>> import grain
        >>> list(grain.MapDataset.range(6).filter(lambda x: x % 2 == 0))
        [0, 2, 4]
        """
        return operations.filter.FilterMapDataset(self, transform)

    def map(self, transform: transforms.Map | Callable[[T], S]) -> MapDataset[S]:
        """Applies a function to every element.

        >>> import grain
        >>> list(grain.MapDataset.range(3).map(lambda x: x**2))
        [0, 1, 4]
        """
        return operations.map.MapMapDataset(self, transform)

    def map_with_index(
        self, transform: transforms.MapWithIndex | Callable[[int, T], S]
    ) -> MapDataset[S]:
        """Applies a function to the index and the element.

        >>> import grain
        >>> list(grain.MapDataset.source(["a", "b"]).map_with_index(lambda i, x: f"{x}{i}"))
        ['a0', 'b1']
        """
        return operations.map.MapWithIndexMapDataset(self, transform)

    def random_map(
        self,
        transform: transforms.RandomMap | Callable[[T, np.random.Generator], S],
        *,
        seed: int | None = None,
    ) -> MapDataset[S]:
        """Applies a function to every element and a generator that is seeded for that element.

        >>> import grain
        >>> ds = grain.MapDataset.range(4).random_map(lambda x, rng: x + rng.random(), seed=1)
        >>> ds[2] == ds[2]
        True
        """
        return operations.random_map.RandomMapMapDataset(self, transform, seed)

    def repeat(
        self, num_epochs: int | None = None, *, reseed_each_epoch: bool = True
    ) -> MapDataset[T]:
        """Goes through the dataset several times, or without end.

        With `reseed_each_epoch` every epoch is shuffled and transformed anew; without it all epochs
        are like the first.

        >>> import grain
        >>> list(grain.MapDataset.range(2).repeat(2))
        [0, 1, 0, 1]
        """
        return operations.repeat.RepeatMapDataset(self, num_epochs, reseed_each_epoch)

    def seed(self, seed: int | None) -> MapDataset[T]:
        """Sets the seed from which the random operations that follow derive their own; None sets none.

        >>> import grain
        >>> sorted(grain.MapDataset.range(4).seed(42).shuffle())
        [0, 1, 2, 3]
        """
        return operations.seed.WithSeedMapDataset(self, seed)

    def shuffle(self, seed: int | None = None) -> MapDataset[T]:
        """Shuffles all elements, anew in every epoch, without holding them or their order in memory.

        >>> import grain
        >>> list(grain.MapDataset.range(6).shuffle(seed=42))
        [4, 1, 2, 3, 0, 5]
        """
        return operations.shuffle.ShuffleMapDataset(self, seed)

    def slice(self, sl: builtins.slice | Sequence[int]) -> MapDataset[T]:
        """The part of the dataset that a slice, or a sequence of indices, selects.

        >>> import grain
        >>> list(grain.MapDataset.range(10).slice(slice(1, None, 4)))
        [1, 5, 9]
        >>> list(grain.MapDataset.range(10).slice([7, 7, -1]))
        [7, 7, 9]
        """
        return operations.slice.slice_map_dataset(self, sl)

    def flat_map(self, transform: transforms.FlatMap) -> MapDataset[Any]:
        """Splits each element into several; see `grain.transforms.FlatMap`."""
        return operations.flat_map.FlatMapMapDataset(self, transform)

    def window_shuffle(self, window_size: int, *, seed: int) -> MapDataset[T]:
        """Shuffles each window of consecutive elements inside itself; no window spans two epochs.

        >>> import grain
        >>> list(grain.MapDataset.range(6).window_shuffle(3, seed=1))
        [1, 2, 0, 3, 5, 4]
        """
        return operations.window_shuffle.WindowShuffleMapDataset(
            self, window_size=window_size, seed=seed, within_epochs=True
        )

    def zip(self, *others: MapDataset[Any]) -> MapDataset[tuple[Any, ...]]:
        """Tuples of the elements that this and other datasets of one length have at an index.

        >>> import grain
        >>> list(grain.MapDataset.range(2).zip(grain.MapDataset.source(["a", "b"])))
        [(0, 'a'), (1, 'b')]
        """
        return operations.zip.ZipMapDataset([self, *others])

    def rekey(self, names: Mapping[str, str], *, keep_others: bool = True) -> MapDataset[Any]:
        """Renames features: `names` gives the new name of each by its old name."""
        return self.map(operations.rekey.Rekey(names, keep_others))

    def pad_or_trim(
        self, lengths: Mapping[str, int] | int, *, pad_value: Any = 0
    ) -> MapDataset[Any]:
        """Brings arrays, or features of dictionaries, to a fixed length."""
        return self.map(operations.pad_or_trim.PadOrTrim(lengths, pad_value))

    def train_validation_split(
        self, *, validation: float | int, seed: int
    ) -> tuple[MapDataset[T], MapDataset[T]]:
        """Divides the dataset into two parts that share no element, in whatever epoch.

        >>> import grain
        >>> train, validation = grain.MapDataset.range(10).train_validation_split(
        ...     validation=2, seed=1
        ... )
        >>> len(train), len(validation)
        (8, 2)
        """
        return operations.split.train_validation_split(self, validation=validation, seed=seed)

    def shard_batches(
        self,
        shard_options: sharding.ShardOptions,
        batch_size: int,
        *,
        remainder: str = "drop",
        mask_name: str = "mask",
    ) -> MapDataset[Any]:
        """The batches of one shard, equally many for all shards.

        `remainder` says what becomes of elements that do not fill a batch of every shard: "drop",
        "keep", "pad" (with a mask) or "wrap".
        """
        return operations.shard_batches.ShardBatchesMapDataset(
            self, shard_options, batch_size, remainder=remainder, mask_name=mask_name
        )

    def to_iter_dataset(
        self, read_options: ReadOptions | None = None, *, allow_nones: bool = False
    ) -> IterDataset[T]:
        """Turns the dataset into one that is read in order, and ahead.

        Args:
          read_options: threads and buffer for reading ahead.
          allow_nones: whether elements that were filtered out are given as None, not skipped.

        >>> import grain
        >>> list(grain.MapDataset.range(3).to_iter_dataset())
        [0, 1, 2]
        """
        return operations.to_iter.PrefetchIterDataset(self, read_options, allow_nones)

    # How the library reads

    def _read(self, indices: IndexArray) -> list[Any]:
        """The elements at `indices`; those before the first error, as `PartialRead`, where one failed.

        This form serves datasets that users write.
        """
        if type(self).__getitems__ is not MapDataset.__getitems__:
            try:
                found = list(self.__getitems__(indices.tolist()))
            except Exception:
                # One by one, to find the element that failed and to keep those before it.
                pass
            else:
                if len(found) == indices.size:
                    return found
                wrong = ValueError(
                    f"{type(self).__name__}.__getitems__ gave {len(found)} elements for "
                    f"{indices.size} indices ({_shortened(indices)}); it must give one for each, None "
                    "where it was filtered out."
                )
                note_element(wrong, self, int(indices[0]), self._sources())
                return PartialRead([], wrong)
        return self._read_singly(indices)

    def _read_singly(self, indices: IndexArray) -> list[Any]:
        elements: list[Any] = []
        try:
            elements.extend(map(self.__getitem__, indices.tolist()))
        except Exception as error:
            note_element(error, self, int(indices[len(elements)]), self._sources())
            return PartialRead(elements, error)
        if len(elements) < indices.size:
            stopped = RuntimeError(f"{self}.__getitem__ raised StopIteration.")
            note_element(stopped, self, int(indices[len(elements)]), self._sources())
            return PartialRead(elements, stopped)
        return elements

    def _columns(self, indices: IndexArray) -> Any:
        """The elements at `indices` as stacked arrays, or None when only `_read` can tell.

        It gives exactly what stacking the elements would give, without making them one by one.
        """
        del indices
        return None

    @property
    def _columnar(self) -> bool:
        """Whether `_columns` may give more than None, and so is worth asking."""
        return False

    @property
    def _sparse(self) -> bool:
        """Whether elements may be None because an operation here or below drops some of them."""
        return any(parent._sparse for parent in self._parents)

    @property
    def _surely_sparse(self) -> bool:
        """Whether they will be None for sure: what a user's own dataset does with None is its affair."""
        return False

    @property
    def _dense(self) -> bool:
        """Whether no element can be None."""
        return False


def _shortened(indices: IndexArray) -> str:
    first = ", ".join(map(str, indices[:5].tolist()))
    return f"{first}, ..." if indices.size > 5 else first


class IndexedMapDataset(MapDataset[T]):
    """A map dataset written on arrays of indices; single reads are reads of one."""

    @property
    def _surely_sparse(self) -> bool:
        return any(parent._surely_sparse for parent in self._parents)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, builtins.slice):
            return self.slice(index)
        number = as_index(index, self)
        if not len(self):
            raise IndexError(f"Index {number} is out of range: {self} is empty.")
        elements = self._read(np.array([number], dtype=np.int64))
        if isinstance(elements, PartialRead):
            raise elements.error
        return elements[0]


def _remembered(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Lets iterators know the dataset that made them, so that a checkpoint can say what it does."""

    @functools.wraps(make)
    def __iter__(self: Any) -> Any:  # noqa: N807 - shown in tracebacks
        iterator = make(self)
        if isinstance(iterator, DatasetIterator) and iterator is not self:
            iterator._pipeline = self
        return iterator

    return __iter__


class IterDataset(_Dataset, Iterable[T], metaclass=abc.ABCMeta):
    """A dataset whose elements are read in order.

    A subclass writes `__iter__`, which returns a `DatasetIterator`, and passes the datasets it reads
    from to `__init__`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__iter__" in cls.__dict__:
            cls.__iter__ = _remembered(cls.__iter__)  # type: ignore[method-assign]

    @abc.abstractmethod
    def __iter__(self) -> DatasetIterator[T]:
        """A new iterator at the first element."""

    def __len__(self) -> int:
        length = self._length()
        if length is None:
            raise TypeError(
                f"object of type {type(self).__name__!r} has no len(): how many elements {self} "
                "gives is known only by reading it."
            )
        return length

    def __bool__(self) -> bool:
        return True

    def _length(self) -> int | None:
        """How many elements there are, where that is known without reading."""
        return None

    @staticmethod
    def mix(
        datasets: Sequence[IterDataset[Any]] | Mapping[str, IterDataset[Any]],
        weights: Sequence[float] | Mapping[str, float] | None = None,
    ) -> IterDataset[Any]:
        """Mixes datasets in given proportions, until one that is asked has no more.

        Components may be named; they are then taken in the order of their names, and a state finds
        them again by name.
        """
        return operations.mix.MixedIterDataset(datasets, weights)

    def apply(
        self, transformations: transforms.Transformation | transforms.Transformations
    ) -> IterDataset[Any]:
        """Applies one transformation or several, one after the other."""
        return cast("IterDataset[Any]", apply_transformations(self, transformations))

    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[T]], S] | None = None,
    ) -> IterDataset[S]:
        """Stacks consecutive elements along a new first dimension.

        >>> import grain
        >>> ds = grain.MapDataset.range(10).filter(lambda x: x % 3 == 0).to_iter_dataset()
        >>> list(ds.batch(2))
        [array([0, 3]), array([6, 9])]
        """
        return operations.batch.BatchIterDataset(self, batch_size, drop_remainder, batch_fn)

    def filter(self, transform: transforms.Filter | Callable[[T], bool]) -> IterDataset[T]:
        """Drops the elements for which `transform` is false."""
        return operations.filter.FilterIterDataset(self, transform)

    def map(self, transform: transforms.Map | Callable[[T], S]) -> IterDataset[S]:
        """Applies a function to every element."""
        return operations.map.MapIterDataset(self, transform)

    def map_with_index(
        self, transform: transforms.MapWithIndex | Callable[[int, T], S]
    ) -> IterDataset[S]:
        """Applies a function to each element and how many there were before it."""
        return operations.map.MapWithIndexIterDataset(self, transform)

    def random_map(
        self,
        transform: transforms.RandomMap | Callable[[T, np.random.Generator], S],
        *,
        seed: int | None = None,
    ) -> IterDataset[S]:
        """Applies a function to every element and a generator that is seeded for that element."""
        return operations.random_map.RandomMapIterDataset(self, transform, seed)

    def seed(self, seed: int | None) -> IterDataset[T]:
        """Sets the seed from which the random operations that follow derive their own; None sets none."""
        return operations.seed.WithSeedIterDataset(self, seed)

    def flat_map(self, transform: transforms.FlatMap) -> IterDataset[Any]:
        """Splits each element into several; see `grain.transforms.FlatMap`."""
        return operations.flat_map.FlatMapIterDataset(self, transform)

    def window_shuffle(self, window_size: int, *, seed: int) -> IterDataset[T]:
        """Reads windows of elements and gives each in shuffled order."""
        return operations.window_shuffle.WindowShuffleIterDataset(
            self, window_size=window_size, seed=seed
        )

    def zip(self, *others: IterDataset[Any], strict: bool = True) -> IterDataset[tuple[Any, ...]]:
        """Tuples of what this and other datasets give; `strict` ones must end together."""
        return operations.zip.ZipIterDataset([self, *others], strict=strict)

    def limit(self, count: int) -> IterDataset[T]:
        """The first `count` elements.

        >>> import grain
        >>> list(grain.MapDataset.range(9).to_iter_dataset().limit(2))
        [0, 1]
        """
        return operations.limit.LimitIterDataset(self, count)

    def repeat(self, num_epochs: int | None = None) -> IterDataset[T]:
        """Goes through the dataset several times, or without end; every epoch is like the first."""
        return operations.repeat_iter.RepeatIterDataset(self, num_epochs)

    def cache(self) -> IterDataset[T]:
        """Keeps elements in memory, for a `repeat` that follows."""
        return operations.cache.CacheIterDataset(self)

    def rebatch(self, batch_size: int, *, drop_remainder: bool = False) -> IterDataset[T]:
        """Cuts and joins batches so that each has `batch_size` rows."""
        return operations.rebatch.RebatchIterDataset(self, batch_size, drop_remainder)

    def unbatch(self) -> IterDataset[Any]:
        """The rows of batches, one after the other."""
        return operations.unbatch.UnbatchIterDataset(self)

    def rekey(self, names: Mapping[str, str], *, keep_others: bool = True) -> IterDataset[Any]:
        """Renames features: `names` gives the new name of each by its old name."""
        return self.map(operations.rekey.Rekey(names, keep_others))

    def pad_or_trim(
        self, lengths: Mapping[str, int] | int, *, pad_value: Any = 0
    ) -> IterDataset[Any]:
        """Brings arrays, or features of dictionaries, to a fixed length."""
        return self.map(operations.pad_or_trim.PadOrTrim(lengths, pad_value))

    def pack(
        self, length_struct: Mapping[str, Any], *, strategy: str = "first_fit", **options: Any
    ) -> IterDataset[dict[str, Any]]:
        """Packs several sequences into each element.

        Args:
          length_struct: how long each feature of an element is.
          strategy: "first_fit", "best_fit" or "concat_then_split".
          **options: those of `FirstFitPackIterDataset`, `BestFitPackIterDataset` or
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
    ) -> IterDataset[T]:
        """Computes elements ahead in worker processes; their number never changes the stream.

        Args:
          options: how many workers, and how far ahead.
          worker_init_fn: called in each worker with its index and the number of workers.
          sequential_slice: accepted for compatibility; no slicing by worker is done.
        """
        return operations.prefetch.mp_prefetch(self, options, worker_init_fn, sequential_slice)

    def prefetch(self, multiprocessing_options: MultiprocessingOptions) -> IterDataset[T]:
        """The same as `mp_prefetch`."""
        return operations.prefetch.mp_prefetch(self, multiprocessing_options, None, False)


def apply_transformations(
    ds: MapDataset[Any] | IterDataset[Any],
    transformations: transforms.Transformation | transforms.Transformations,
) -> MapDataset[Any] | IterDataset[Any]:
    """Applies transformations to a dataset, one after the other.

    >>> import grain
    >>> list(apply_transformations(grain.MapDataset.range(4), grain.transforms.Batch(2)))
    [array([0, 1]), array([2, 3])]
    """
    if not isinstance(transformations, Sequence):
        transformations = (transformations,)
    for transformation in transformations:
        match transformation:
            case transforms.Batch():
                ds = ds.batch(
                    transformation.batch_size,
                    drop_remainder=transformation.drop_remainder,
                    batch_fn=transformation.batch_fn,
                )
            case transforms.Map():
                ds = ds.map(transformation)
            case transforms.RandomMap():
                ds = ds.random_map(transformation)
            case transforms.TfRandomMap():
                ds = ds.random_map(transformation.np_random_map)
            case transforms.MapWithIndex():
                ds = ds.map_with_index(transformation)
            case transforms.Filter():
                ds = ds.filter(transformation)
            case transforms.FlatMap():
                ds = operations.flat_map.flat_map(ds, transformation)
            case _:
                raise NotImplementedError(
                    f"Transformation type: {transformation} is not supported. Pass an instance of a "
                    "class in `grain.transforms`, or call the dataset's method with your function."
                )
    return ds
