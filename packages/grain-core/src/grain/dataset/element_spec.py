"""Specs: the structure, shapes and types of a dataset's elements, inferred without reading one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from grain import tree
from grain.options import checked_int


@runtime_checkable
class ShapeDtypeStructProtocol(Protocol):
    """Anything with a shape and a type, such as an array."""

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The length of each dimension; None where it differs from element to element."""

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


@dataclasses.dataclass(frozen=True, init=False, repr=False, eq=False)
class ShapeDtypeStruct(ShapeDtypeStructProtocol):
    """The shape and the type of an array, without the array.

    Attributes:
        shape: The length of each dimension; None where it differs from element to element.
        dtype: The type of the values.

    >>> ShapeDtypeStruct((2, None), np.dtype("int32"))
    ShapeDtypeStruct(shape=(2, None), dtype=dtype('int32'))
    """

    __slots__ = ("dtype", "shape")

    # Other dataclasses are nodes of a tree; this one is a leaf, like the array it describes.
    is_tree_leaf = True

    shape: tuple[int | None, ...]
    dtype: Any

    def __init__(self, shape: Sequence[int | None] = (), dtype: Any = np.float64):
        object.__setattr__(self, "shape", _checked_shape(shape))
        object.__setattr__(self, "dtype", _checked_dtype(dtype))

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


def get_element_spec(ds: Any) -> Any:
    """Return a tree like the elements of a dataset, with a `ShapeDtypeStruct` for each array.

    No element is read. The output of a function is unknown without calling it: give the transformation a
    method `output_spec(input_spec)`, or a dataset class the property `_element_spec`.

    >>> import grain
    >>> get_element_spec(grain.MapDataset.source(np.zeros((9, 3), np.int32)).batch(4))
    ShapeDtypeStruct(shape=(None, 3), dtype=dtype('int32'))
    """
    if not hasattr(type(ds), "infer_element_spec"):
        raise TypeError(
            f"get_element_spec needs a dataset, got {ds!r} of type {type(ds).__name__}."
        )
    own = getattr(ds, "_element_spec", None)
    return ds.infer_element_spec() if own is None else own


def spec_of(element: Any) -> Any:
    """Return the spec of an element.

    >>> spec_of({"a": np.zeros(3, np.float32)})
    {'a': ShapeDtypeStruct(shape=(3,), dtype=dtype('float32'))}
    """

    def leaf(value: Any) -> Any:
        if isinstance(value, ShapeDtypeStruct):
            return value
        array = value if hasattr(value, "dtype") and hasattr(value, "shape") else np.asarray(value)
        return ShapeDtypeStruct(tuple(array.shape), array.dtype)

    return tree.map_leaves(leaf, element)
