"""The assembly of a batch from elements that arrive in portions.

Large arrays are copied to their place in the batch as soon as they arrive. So the elements of a batch are not
all in memory beside it, and they are copied while they are in the processor's cache. Arrays that the source
keeps gain nothing from it, and are read all at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grain import tree
from grain.memory.allocation import MIN_ALIGNED_BYTES, allocate

# The key of an element that is an array itself.
_ALONE = object()
# Bytes of a batch from which on it is worth reading in portions, and bytes of a portion.
_MIN_BATCH_BYTES = 4 << 20
_PORTION_BYTES = 4 << 20


def portion_size(element: Any, batch_size: int) -> int:
    """Return how many elements like this one to read at a time for a batch; 0 is all of them.

    >>> portion_size(np.zeros(100_000), 64)
    5
    >>> portion_size(np.zeros(10), 64)
    0
    >>> images = np.zeros((10, 100_000))  # Memory that exists anyway.
    >>> portion_size(images[3], 64)
    0
    """
    large = _large_arrays(element)
    is_alone = _ALONE in large
    # References to the array: that of the dictionary, or those of `element` and of the caller's list.
    if not large or _outlives(large.popitem()[1], 2 if is_alone else 1):
        return 0
    nbytes = tree.nbytes(element)
    return 0 if nbytes * batch_size < _MIN_BATCH_BYTES else max(1, _PORTION_BYTES // nbytes)


class GrowingStack:
    """The stack of a known number of elements, equal to `tree.stack` of all of them.

    Args:
        size: Number of elements.

    >>> stack = GrowingStack(3)
    >>> stack.add([1, 2])
    >>> stack.add([3])
    >>> stack.finish()
    array([1, 2, 3])
    """

    def __init__(self, size: int):
        self._size = size
        self._count = 0
        self._first: Any = None
        # Large arrays at their place, by key; no elements are held then, only their other values.
        self._arrays: dict[Any, NDArray[Any]] = {}
        self._columns: dict[Any, list[Any]] = {}
        self._elements: list[Any] = []

    def add(self, elements: Sequence[Any]) -> None:
        """Add the next elements."""
        if not elements:
            return
        if not self._count:
            self._first = elements[0]
            self._arrays = {
                key: allocate((self._size, *array.shape), array.dtype)
                for key, array in _large_arrays(self._first).items()
            }
            if self._arrays and _ALONE not in self._arrays:
                self._columns = {key: [] for key in self._first if key not in self._arrays}
        if self._arrays and not self._copy(elements):
            # To be stacked with conversions, or not at all.
            self._restore_elements()
        if not self._arrays:
            self._elements += elements
        self._count += len(elements)

    def finish(self) -> Any:
        """Return the stack of all elements, or raise the error of `tree.stack`."""
        if _ALONE in self._arrays:
            return self._arrays[_ALONE]
        if self._arrays:
            try:
                columns = {key: tree.stack(column) for key, column in self._columns.items()}
            except ValueError:
                self._restore_elements()  # The message shows the elements.
            else:
                columns |= self._arrays
                return {key: columns[key] for key in tree.keys_in_order(self._first)}
        return tree.stack(self._elements)

    def _copy(self, elements: Sequence[Any]) -> bool:
        """Copy large arrays of elements to their place; return False if not all are like the first one."""
        if _ALONE in self._arrays:
            return self._copy_column(_ALONE, elements)
        size = len(self._first)
        if any(type(element) is not dict or len(element) != size for element in elements):
            return False
        try:
            large = {key: [element[key] for element in elements] for key in self._arrays}
            small = {key: [element[key] for element in elements] for key in self._columns}
        except KeyError:
            return False
        if not all(self._copy_column(key, column) for key, column in large.items()):
            return False
        for key, column in small.items():
            self._columns[key] += column
        return True

    def _copy_column(self, key: Any, column: Sequence[Any]) -> bool:
        array = self._arrays[key]
        shape, dtype = array.shape[1:], array.dtype
        if any(
            type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype
            for value in column
        ):
            return False
        rows = array[self._count : self._count + len(column)]
        np.concatenate(column, out=rows.reshape(len(column) * shape[0], *shape[1:]))
        return True

    def _restore_elements(self) -> None:
        """Make the elements whole again, with views of the arrays they were copied to."""
        if _ALONE in self._arrays:
            self._elements = list(self._arrays[_ALONE][: self._count])
        else:
            columns = {key: array[: self._count] for key, array in self._arrays.items()}
            columns |= self._columns
            self._elements = [
                {key: columns[key][row] for key in self._first} for row in range(self._count)
            ]
        self._arrays, self._columns = {}, {}


def _outlives(array: NDArray[Any], references: int) -> bool:
    """Return whether the memory of an array is used by more than this number of references to it."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    known = references + 1 if owner is array else 1  # with `array`; or by the view
    return sys.getrefcount(owner) > known + 2  # with `owner` and the argument


def _large_arrays(element: Any) -> dict[Any, NDArray[Any]]:
    """Return the arrays of an element that are worth a copy of their own."""
    values = element if type(element) is dict else {_ALONE: element}
    return {
        key: value
        for key, value in values.items()
        if type(value) is np.ndarray
        and value.shape
        and value.nbytes >= MIN_ALIGNED_BYTES
        and value.dtype.isnative
        and not value.dtype.hasobject
    }
