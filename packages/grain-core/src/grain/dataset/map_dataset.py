"""MapDataset: elements by index, in any order."""

from __future__ import annotations

import abc
import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast, overload

import numpy as np

from grain import dataset as operations
from grain import transforms
from grain._exceptions import note_element
from grain._lazy import LazyModule
from grain._user_code import calls_user_code
from grain.dataset import same_epoch
from grain.dataset.chunk import PartialRead
from grain.dataset.node import DatasetNode, computed, is_state_of_index
from grain.dataset.recognition import RecognisedMapDataset
from grain.index.permutation import IndexArray
from grain.options import ReadOptions

if TYPE_CHECKING:
    from grain import sharding
    from grain.dataset.iter_dataset import IterDataset
    from grain.dataset.iterator import DatasetIterator
    from grain.dataset.transform_types import SupportsMap, SupportsMapWithIndex, SupportsRandomMap

# A worker receives its sources as they are.
columnar = LazyModule("grain.columnar.columnar_source")

T = TypeVar("T")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Records(Protocol[S_co]):
    """Anything with records by index, such as a sequence or a data source."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> S_co: ...


def as_index(index: Any, dataset: Any) -> int:
    """Return an index of any integer type as an int, or raise an error that shows it."""
    try:
        number = index.__index__()
    except (AttributeError, TypeError):  # TypeError for classes, and arrays of several numbers.
        raise TypeError(
            f"{dataset} is indexed by integers or slices, got {index!r} of type "
            f"{type(index).__name__}."
        ) from None
    return int(number)


def array_of_one(index: int) -> IndexArray:
    """Return an array of one index, of Python integers if it does not fit into 64 bits.

    >>> array_of_one(3).dtype, array_of_one(2**70).dtype
    (dtype('int64'), dtype('O'))
    """
    return np.array([index], dtype=np.int64 if -(2**63) <= index < 2**63 else object)


def read_each(dataset: MapDataset[Any], indices: Iterable[int]) -> list[Any]:
    """Return the elements at indices of any size, or a `PartialRead` of those before the first error."""
    elements: list[Any] = []
    try:
        elements.extend(map(dataset.read_one, indices))
    except Exception as error:
        return PartialRead(elements, error)
    return elements


def as_indices(indices: Any, dataset: Any) -> IndexArray:
    """Return indices of any integer type as an array, or raise an error that shows them."""
    array = np.asarray(indices)
    if array.ndim != 1:
        raise TypeError(
            f"{dataset} is read by a flat sequence of indices, got one of shape {array.shape}. "
            "Flatten it, and reshape the result."
        )
    if array.dtype.kind == "i":
        return array.astype(np.int64, copy=False)
    numbers = [as_index(index, dataset) for index in indices]
    for number in numbers:
        if not -(2**63) <= number < 2**63:
            raise IndexError(
                f"Index {number} of {dataset} does not fit into 64 bits; read it by itself."
            )
    return np.array(numbers, dtype=np.int64)


class MapDataset(RecognisedMapDataset, DatasetNode, Generic[T], abc.ABC):
    """A dataset whose elements can be read by index, in any order.

    An index past the end belongs to a later epoch: element `i` is element `i % len(ds)` of epoch
    `i // len(ds)`, for which shuffles and random maps draw again. An element that was filtered out
    is None; iteration skips it.

    A subclass writes `__len__` and `__getitem__`, and passes the datasets it reads from to
    `__init__`.
    """

    @abc.abstractmethod
    def __len__(self) -> int:
        """Return the number of elements of one epoch."""

    @overload
    def __getitem__(self, index: builtins.slice) -> MapDataset[T]: ...
    @overload
    def __getitem__(self, index: int) -> T | None: ...
    @abc.abstractmethod
    def __getitem__(self, index: Any) -> Any:
        """Return the element at an index, or the dataset of a slice."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "read_many" in cls.__dict__ and "read_one" not in cls.__dict__:
            # A base class may read single elements in another way than this class reads many.
            cls.read_one = MapDataset.read_one  # type: ignore[method-assign]

    def __getitems__(self, indices: Sequence[int]) -> list[T | None]:
        """Return the elements at many indices, in the order given; None where filtered out.

        >>> import grain
        >>> grain.MapDataset.range(10).shuffle(seed=3).__getitems__([0, 0, 13])
        [4, 4, 3]
        """
        array = as_indices(indices, self)
        if not array.size:
            return []
        if not len(self):
            raise IndexError(f"Index {array[0]} is out of range: {self} is empty.")
        # A user's `__getitems__` may call this one.
        singly = type(self).read_many is MapDataset.read_many
        elements = self._read_singly(array) if singly else self.read_many(array)
        if isinstance(elements, PartialRead):
            raise elements.error
        return elements

    def __iter__(self) -> DatasetIterator[T]:
        if same_epoch.is_watching:
            return same_epoch.open_watched(self, _open_as_stream)
        return _open_as_stream(self)

    # Sources

    @overload
    @staticmethod
    def source(source: Records[S]) -> MapDataset[S]: ...
    @overload
    @staticmethod
    def source(source: Any) -> MapDataset[Any]: ...
    @staticmethod
    def source(source: Any) -> MapDataset[Any]:
        """Return a dataset over records, or over the rows of columns.

        Args:
            source: A sequence, or any object with `__len__` and `__getitem__`; if it also has
                `__getitems__(indices)`, many records are read in one call. Or columns: a dictionary of
                names and equally long arrays or lists, a data frame of pandas or polars, or a table of
                pyarrow, whose rows are dictionaries; see `grain.sources.ColumnarDataSource`.

        >>> import grain
        >>> grain.MapDataset.source(["a", "b", "c"])[1]
        'b'
        >>> grain.MapDataset.source({"x": np.zeros(3), "label": ["a", "b", "c"]})[1]
        {'x': np.float64(0.0), 'label': 'b'}
        """
        return operations.source.SourceMapDataset(columnar.as_source(source))

    @staticmethod
    def range(start: int, stop: int | None = None, step: int = 1) -> MapDataset[int]:
        """Return a dataset of integers, like Python's `range`.

        Args:
            start: The first integer; alone, the end, and integers start at 0.
            stop: The end, which is not included.
            step: The distance from one integer to the next; may be negative.

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
        """Mix datasets in given proportions, until the first of them would have to repeat.

        Components may be named; they are then ordered by name, and proportions can be changed at an
        index: see `MixedMapDataset.change_at`.

        Args:
            datasets: The components, or a dictionary of names and components.
            weights: Their proportions, positive numbers of any sum, in the same form; equal by default.

        >>> import grain
        >>> list(grain.MapDataset.mix([grain.MapDataset.range(3), grain.MapDataset.range(10, 13)]))
        [0, 10, 1, 11, 2, 12]
        """
        return operations.mix.MixedMapDataset(datasets, weights)

    @staticmethod
    def select_from_datasets(
        datasets: Sequence[MapDataset[Any]], selection_map: transforms.DatasetSelectionMap | None
    ) -> MapDataset[Any]:
        """Return a dataset whose elements a selection map picks from several datasets.

        Args:
            datasets: The datasets to pick from.
            selection_map: An object with `__len__`, the number of elements, and `__getitem__`, which
                returns for an index the number of a dataset and the index of the element there. None for
                a mixture with equal weights, as `mix` makes it.

        >>> import grain
        >>> class Alternate(grain.transforms.DatasetSelectionMap):
        ...     def __len__(self):
        ...         return 4
        ...
        ...     def __getitem__(self, index):
        ...         return index % 2, index // 2
        >>> small, large = grain.MapDataset.range(2), grain.MapDataset.range(10, 12)
        >>> list(grain.MapDataset.select_from_datasets([small, large], Alternate()))
        [0, 10, 1, 11]
        """
        if selection_map is None:
            return MapDataset.mix(datasets)
        return operations.selection.SelectedMapDataset(datasets, selection_map)

    @staticmethod
    def concatenate(datasets: Sequence[MapDataset[Any]]) -> MapDataset[Any]:
        """Return the elements of the first dataset, then of the second, and so on.

        Args:
            datasets: The datasets, in order.

        >>> import grain
        >>> list(grain.MapDataset.concatenate([grain.MapDataset.range(2), grain.MapDataset.range(2)]))
        [0, 1, 0, 1]
        """
        return operations.concatenate.ConcatenateMapDataset(datasets)

    # Operations

    def apply(
        self, transformations: transforms.Transformation | transforms.Transformations
    ) -> MapDataset[Any]:
        """Apply one transformation or several, in order."""
        return cast(
            "MapDataset[Any]", operations.apply.apply_transformations(self, transformations)
        )

    @overload
    def batch(
        self, batch_size: int, *, drop_remainder: bool = False, batch_fn: None = None
    ) -> MapDataset[Any]: ...
    @overload
    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[T]], S],
    ) -> MapDataset[S]: ...
    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[T]], Any] | None = None,
    ) -> MapDataset[Any]:
        """Stack consecutive elements along a new first dimension; a batch never spans two epochs.

        >>> import grain
        >>> list(grain.MapDataset.range(5).batch(2))
        [array([0, 1]), array([2, 3]), array([4])]
        """
        return operations.batch.BatchMapDataset(self, batch_size, drop_remainder, batch_fn)

    def filter(self, transform: transforms.Filter | Callable[[T], bool]) -> MapDataset[T]:
        """Replace elements for which `transform` is false by None; iteration skips them.

        >>> import grain
        >>> list(grain.MapDataset.range(6).filter(lambda x: x % 2 == 0))
        [0, 2, 4]
        """
        return operations.filter.FilterMapDataset(self, transform)

    def map(self, transform: SupportsMap[T, S] | Callable[[T], S]) -> MapDataset[S]:
        """Apply a function to every element.

        >>> import grain
        >>> list(grain.MapDataset.range(3).map(lambda x: x**2))
        [0, 1, 4]
        """
        return operations.map.MapMapDataset(self, transform)

    def map_with_index(
        self, transform: SupportsMapWithIndex[T, S] | Callable[[int, T], S]
    ) -> MapDataset[S]:
        """Apply a function to the index and the element.

        >>> import grain
        >>> list(grain.MapDataset.source(["a", "b"]).map_with_index(lambda i, x: f"{x}{i}"))
        ['a0', 'b1']
        """
        return operations.map.MapWithIndexMapDataset(self, transform)

    def random_map(
        self,
        transform: SupportsRandomMap[T, S] | Callable[[T, np.random.Generator], S],
        *,
        seed: int | None = None,
    ) -> MapDataset[S]:
        """Apply a function to every element and a generator that is seeded for that element.

        >>> import grain
        >>> ds = grain.MapDataset.range(4).random_map(lambda x, rng: x + rng.random(), seed=1)
        >>> ds[2] == ds[2]
        True
        """
        return operations.random_map.RandomMapMapDataset(self, transform, seed)

    def repeat(
        self, num_epochs: int | None = None, *, reseed_each_epoch: bool = True
    ) -> MapDataset[T]:
        """Repeat the dataset several times, or without end.

        With `reseed_each_epoch` every epoch is shuffled and transformed differently; without it all
        epochs are like the first.

        >>> import grain
        >>> list(grain.MapDataset.range(2).repeat(2))
        [0, 1, 0, 1]
        """
        return operations.repeat.RepeatMapDataset(self, num_epochs, reseed_each_epoch)

    def seed(self, seed: int | None) -> MapDataset[T]:
        """Set the seed from which the random operations that follow derive theirs; None sets none.

        >>> import grain
        >>> sorted(grain.MapDataset.range(4).seed(42).shuffle())
        [0, 1, 2, 3]
        """
        return operations.seed.WithSeedMapDataset(self, seed)

    def shuffle(self, seed: int | None = None) -> MapDataset[T]:
        """Shuffle all elements, differently in every epoch, without holding them or their order in memory.

        >>> import grain
        >>> list(grain.MapDataset.range(6).shuffle(seed=42))
        [4, 1, 2, 3, 0, 5]
        """
        return operations.shuffle.ShuffleMapDataset(self, seed)

    def slice(self, sl: builtins.slice | Sequence[int]) -> MapDataset[T]:
        """Select elements by a slice or a sequence of indices.

        >>> import grain
        >>> list(grain.MapDataset.range(10).slice(slice(1, None, 4)))
        [1, 5, 9]
        >>> list(grain.MapDataset.range(10).slice([7, 7, -1]))
        [7, 7, 9]
        """
        return operations.slice.slice_map_dataset(self, sl)

    def flat_map(self, transform: transforms.FlatMap) -> MapDataset[Any]:
        """Split each element into several; see `grain.transforms.FlatMap`."""
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
        """Rename features: `names` maps old names to new ones."""
        return self.map(operations.rekey.Rekey(names, keep_others))

    def pad_or_trim(
        self, lengths: Mapping[str, int] | int, *, pad_value: Any = 0
    ) -> MapDataset[Any]:
        """Pad or trim arrays, or features of dictionaries, to a fixed length."""
        return self.map(operations.pad_or_trim.PadOrTrim(lengths, pad_value))

    def train_validation_split(
        self, *, validation: float | int, seed: int
    ) -> tuple[MapDataset[T], MapDataset[T]]:
        """Split the dataset into two parts that share no element in any epoch.

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
        """Return the batches of one shard, equally many for all shards.

        `remainder` decides on elements that do not fill a batch of every shard: "drop",
        "keep", "pad" (with a mask) or "wrap".
        """
        return operations.shard_batches.ShardBatchesMapDataset(
            self, shard_options, batch_size, remainder=remainder, mask_name=mask_name
        )

    def to_iter_dataset(
        self, read_options: ReadOptions | None = None, *, allow_nones: bool = False
    ) -> IterDataset[T]:
        """Return an iter dataset that reads the elements in order, and ahead.

        Args:
            read_options: Threads and buffer for read-ahead.
            allow_nones: Whether elements that were filtered out are yielded as None instead of skipped.

        >>> import grain
        >>> list(grain.MapDataset.range(3).to_iter_dataset())
        [0, 1, 2]
        """
        return operations.to_iter.PrefetchIterDataset(self, read_options, allow_nones)

    # Members that the library calls; a class may override them. See also `DatasetNode`.

    def accepts_state(self, state: Any) -> bool:
        """Return whether a state is a position in one epoch; a class that iterates otherwise has its own."""
        return is_state_of_index(state, len(self))

    def for_epoch(self, epoch: int) -> Any:
        """Return the elements of one epoch."""
        return operations.epochs.EpochMapDataset(self, epoch) if epoch else self

    def origins(self, index: int) -> Sequence[tuple[MapDataset[Any], int]]:
        """Return the parents, and the indices there, that an element is made of; none where unknown."""
        del index
        return ()

    def read_many(self, indices: IndexArray) -> list[Any]:
        """Return the elements at `indices`, or a `PartialRead` of those before the first error.

        The default calls `__getitems__` or `__getitem__`.
        """
        if type(self).__getitems__ is not MapDataset.__getitems__:
            try:
                found = list(self.__getitems__(indices.tolist()))
            except Exception:
                # One by one below, to find the element that failed and keep those before it.
                pass
            else:
                if len(found) == indices.size:
                    return found
                wrong = ValueError(
                    f"{type(self).__name__}.__getitems__ returned {len(found)} elements for "
                    f"{indices.size} indices ({_shortened(indices)}); it must return one for each, "
                    "None where it was filtered out."
                )
                note_element(wrong, self, int(indices[0]), self.describe_sources())
                return PartialRead([], wrong)
        return self._read_singly(indices)

    @calls_user_code
    def _read_singly(self, indices: IndexArray) -> list[Any]:
        elements: list[Any] = []
        try:
            elements.extend(map(self.__getitem__, indices.tolist()))
        except Exception as error:
            note_element(error, self, int(indices[len(elements)]), self.describe_sources())
            return PartialRead(elements, error)
        if len(elements) < indices.size:
            stopped = RuntimeError(f"{self}.__getitem__ raised StopIteration.")
            note_element(stopped, self, int(indices[len(elements)]), self.describe_sources())
            return PartialRead(elements, stopped)
        return elements

    def read_one(self, index: int) -> Any:
        """Return the element at `index`, which any integer may be.

        The default calls `read_many`. A class that overrides `read_many` alone gets this default.
        """
        elements = self.read_many(array_of_one(index))
        if isinstance(elements, PartialRead):
            raise elements.error
        return elements[0]

    def read_columns(self, indices: IndexArray) -> Any:
        """Return the elements at `indices` as stacked arrays, or None to make `read_many` decide.

        The result equals the stacked elements, without the elements being made one by one.
        """
        del indices
        return None

    @computed
    def is_columnar(self) -> bool:
        """Whether `read_columns` may return more than None, so that it is worth calling."""
        return False

    @computed
    def is_read_together(self) -> bool:
        """Whether a source, or a class of the user, reads many elements in one call of its own."""
        return type(self).__getitems__ is not MapDataset.__getitems__ or any(
            parent.is_read_together for parent in self._parents
        )

    @computed
    def is_sparse(self) -> bool:
        """Whether elements may be None because an operation here or upstream drops some of them."""
        return any(parent.is_sparse for parent in self._parents)

    @computed
    def is_surely_sparse(self) -> bool:
        """Whether a library operation drops elements; a user's class may replace None by a value."""
        return False

    @computed
    def is_dense(self) -> bool:
        """Whether no element can be None."""
        return False


def _open_as_stream(dataset: MapDataset[T]) -> DatasetIterator[T]:
    return dataset.to_iter_dataset().__iter__()


def _shortened(indices: IndexArray) -> str:
    first = ", ".join(map(str, indices[:5].tolist()))
    return f"{first}, ..." if indices.size > 5 else first


class IndexedMapDataset(MapDataset[T]):
    """A map dataset whose `read_many` does the work; reading one element is reading a list of one."""

    @computed
    def is_surely_sparse(self) -> bool:
        return any(parent.is_surely_sparse for parent in self._parents)

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            if isinstance(index, builtins.slice):
                return self.slice(index)
            index = as_index(index, self)
        if not len(self):
            raise IndexError(f"Index {index} is out of range: {self} is empty.")
        return self.read_one(index)
