"""What the elements of a dataset look like, told without reading one."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from grain import tree
from grain._exceptions import transform_name
from grain.dataset.base import IterDataset, MapDataset
from grain.dataset.batch import BatchIterDataset, BatchMapDataset
from grain.dataset.cache import CacheIterDataset
from grain.dataset.filter import FilterIterDataset, FilterMapDataset
from grain.dataset.index_transform import IndexOnlyMapDataset
from grain.dataset.interleave.interleave import InterleaveIterDataset
from grain.dataset.limit import LimitIterDataset
from grain.dataset.map import TransformIterDataset, TransformMapDataset
from grain.dataset.mix import MixedIterDataset
from grain.dataset.packing.concat_split import ConcatThenSplitIterDataset
from grain.dataset.packing.fit import PackIterDataset
from grain.dataset.prefetch import ProcessPrefetchIterDataset
from grain.dataset.rebatch import RebatchIterDataset
from grain.dataset.repeat_iter import RepeatIterDataset
from grain.dataset.seed import WithOptionsIterDataset, WithSeedIterDataset
from grain.dataset.several import ManyParentsMapDataset
from grain.dataset.source import RangeMapDataset, SourceMapDataset
from grain.dataset.to_iter import PrefetchIterDataset
from grain.dataset.unbatch import UnbatchIterDataset
from grain.dataset.window_shuffle import WindowShuffleIterDataset
from grain.dataset.zip import ZipIterDataset, ZipMapDataset
from grain.options import checked_int


@runtime_checkable
class ShapeDtypeStructProtocol(Protocol):
    """Anything with a shape and a type, such as an array."""

    @property
    def shape(self) -> tuple[int | None, ...]:
        """How long each dimension is; None where that differs from element to element."""

    @property
    def dtype(self) -> Any:
        """The type of the values."""


def _checked_shape(shape: Any) -> tuple[int | None, ...]:
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise TypeError(
            f"shape must be a sequence of lengths, got {shape!r} of type {type(shape).__name__}; "
            "write (3,) for one dimension."
        )
    return tuple(
        length if length is None else checked_int("a length in shape", length, least=0)
        for length in shape
    )


def _checked_dtype(dtype: Any) -> Any:
    try:
        return np.dtype(dtype)
    except TypeError as error:
        raise TypeError(f"dtype must be a type of numpy, got {dtype!r}: {error}.") from None


class ShapeDtypeStruct:
    """The shape and the type of an array, without the array.

    Attributes:
      shape: how long each dimension is; None where that differs from element to element.
      dtype: the type of the values.

    >>> ShapeDtypeStruct((2, None), np.dtype("int32"))
    ShapeDtypeStruct(shape=(2, None), dtype=dtype('int32'))
    """

    # No dataclass, for those are trees: this stands where an array stands, as a leaf.
    __slots__ = ("dtype", "shape")

    shape: tuple[int | None, ...]
    dtype: Any

    def __init__(self, shape: Sequence[int | None] = (), dtype: Any = np.float64):
        object.__setattr__(self, "shape", _checked_shape(shape))
        object.__setattr__(self, "dtype", _checked_dtype(dtype))

    def __setattr__(self, name: str, value: Any) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> Any:
        return ShapeDtypeStruct, (self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShapeDtypeStruct):
            return NotImplemented
        return bool(self.shape == other.shape and self.dtype == other.dtype)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))


def get_element_spec(ds: MapDataset[Any] | IterDataset[Any]) -> Any:
    """A tree like the elements of a dataset, with a `ShapeDtypeStruct` for each array.

    No element is read. What a function makes of an element cannot be known without calling it: give
    the transformation a method `output_spec(input_spec)`, or, for a dataset of your own, a property
    `_element_spec`.

    >>> import grain
    >>> get_element_spec(grain.MapDataset.source(np.zeros((9, 3), np.int32)).batch(4))
    ShapeDtypeStruct(shape=(None, 3), dtype=dtype('int32'))
    """
    if not isinstance(ds, (MapDataset, IterDataset)):
        raise TypeError(
            f"get_element_spec needs a dataset, got {ds!r} of type {type(ds).__name__}."
        )
    return _spec(ds)


def spec_of(element: Any) -> Any:
    """The same for one element that is at hand.

    >>> spec_of({"a": np.zeros(3, np.float32)})
    {'a': ShapeDtypeStruct(shape=(3,), dtype=dtype('float32'))}
    """

    def leaf(value: Any) -> Any:
        if isinstance(value, ShapeDtypeStruct):
            return value
        array = value if hasattr(value, "dtype") and hasattr(value, "shape") else np.asarray(value)
        return ShapeDtypeStruct(tuple(array.shape), array.dtype)

    return tree.map_leaves(leaf, element)


def _spec(dataset: Any) -> Any:
    own = getattr(dataset, "_element_spec", None)
    return _infer(dataset) if own is None else own


@functools.singledispatch
def _infer(dataset: Any) -> Any:
    raise NotImplementedError(
        f"`element_spec` inference is not implemented for {type(dataset).__name__}. Give the class a "
        "property `_element_spec`."
    )


@_infer.register(IndexOnlyMapDataset)
@_infer.register(FilterMapDataset)
@_infer.register(FilterIterDataset)
@_infer.register(PrefetchIterDataset)
@_infer.register(ProcessPrefetchIterDataset)
@_infer.register(WithSeedIterDataset)
@_infer.register(WithOptionsIterDataset)
@_infer.register(WindowShuffleIterDataset)
@_infer.register(LimitIterDataset)
@_infer.register(RepeatIterDataset)
@_infer.register(CacheIterDataset)
def _same(dataset: Any) -> Any:
    return _spec(dataset._parent)


@_infer.register(ManyParentsMapDataset)
@_infer.register(MixedIterDataset)
def _one_of_several(dataset: Any) -> Any:
    return _spec(dataset._parents[0])


@_infer.register
def _interleave(dataset: InterleaveIterDataset) -> Any:  # type: ignore[type-arg]
    return _spec(dataset._datasets[0])


@_infer.register(ZipMapDataset)
@_infer.register(ZipIterDataset)
def _zip(dataset: Any) -> Any:
    return tuple(_spec(parent) for parent in dataset._parents)


@_infer.register
def _range(dataset: RangeMapDataset) -> Any:
    del dataset
    return ShapeDtypeStruct((), np.dtype(np.int64))


@_infer.register
def _source(dataset: SourceMapDataset) -> Any:  # type: ignore[type-arg]
    source = dataset._source
    if type(source) is np.ndarray:
        return ShapeDtypeStruct(source.shape[1:], source.dtype)
    told = getattr(source, "element_spec", None)
    if told is not None:
        return told() if callable(told) else told
    if type(source) in (list, tuple) and source:
        # In memory already: looking at one costs nothing.
        return spec_of(source[0])
    raise NotImplementedError(
        f"`element_spec` inference is not implemented for {type(dataset).__name__}: "
        f"{type(source).__name__} does not tell what its records look like. Give it an attribute "
        "`element_spec`."
    )


@_infer.register(TransformMapDataset)
@_infer.register(TransformIterDataset)
def _transform(dataset: Any) -> Any:
    transform = dataset._transform
    output_spec = getattr(transform, "output_spec", None)
    if output_spec is None:
        name = transform_name(transform)
        raise ValueError(
            f"Cannot infer element spec for transform {name} because it does not implement "
            f"`output_spec` method. Implement `{name}.output_spec(self, input_spec: "
            "PyTree[ShapeDtypeStructProtocol]) ->  PyTree[ShapeDtypeStructProtocol]` to enable "
            "element spec inference."
        )
    return output_spec(_spec(dataset._parent))


@_infer.register(BatchMapDataset)
@_infer.register(BatchIterDataset)
def _batch(dataset: Any) -> Any:
    parent = _spec(dataset._parent)
    if dataset._batch_fn is not None:
        output_spec = getattr(dataset._batch_fn, "output_spec", None)
        if output_spec is None:
            raise NotImplementedError(
                "Element spec inference is not supported with custom batching functions; give "
                f"{transform_name(dataset._batch_fn)} a method `output_spec`."
            )
        return output_spec(parent)
    size = dataset._batch_size if dataset._drop_remainder else None
    return tree.map_leaves(lambda leaf: ShapeDtypeStruct((size, *leaf.shape), leaf.dtype), parent)


@_infer.register
def _rebatch(dataset: RebatchIterDataset) -> Any:  # type: ignore[type-arg]
    size = dataset._batch_size if dataset._drop_remainder else None
    return tree.map_leaves(
        lambda leaf: ShapeDtypeStruct((size, *leaf.shape[1:]), leaf.dtype), _spec(dataset._parent)
    )


@_infer.register
def _unbatch(dataset: UnbatchIterDataset) -> Any:  # type: ignore[type-arg]
    return tree.map_leaves(
        lambda leaf: ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), _spec(dataset._parent)
    )


@_infer.register(PackIterDataset)
@_infer.register(ConcatThenSplitIterDataset)
def _pack(dataset: Any) -> Any:
    parent = _spec(dataset._parent)
    layout = dataset._layout
    if layout.loose:
        raise NotImplementedError(
            f"The meta features {layout.loose} are lists that differ in length from element to "
            "element; they have no spec."
        )
    spec: dict[str, Any] = {}
    ids = np.dtype(np.int32)
    for path, length, segmented in zip(layout.paths, layout.lengths, layout.segmented, strict=True):
        given, made = parent, spec
        for name in path[:-1]:
            given, made = given[name], made.setdefault(name, {})
        given = given[path[-1]]
        made[path[-1]] = ShapeDtypeStruct((length, *given.shape[1:]), given.dtype)
        if segmented:
            spec[f"{path[0]}_segment_ids"] = ShapeDtypeStruct((length,), ids)
            spec[f"{path[0]}_positions"] = ShapeDtypeStruct((length,), ids)
    return spec
