"""Where the memory of a freshly assembled array comes from.

By default it is memory of this process. An executor that will move the array to another process offers
memory from which no further copy is needed; the code that assembles batches need not know which.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from grain.memory.buffer_pool import ALIGNMENT, BufferPool

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

Shape = int | tuple[int, ...]
Allocator = Callable[[Shape, "DTypeLike"], "NDArray[Any]"]

MIN_ALIGNED_BYTES = 64 * 1024
# Smaller arrays seldom go back to the system when they are freed.
_MIN_RECYCLED_BYTES = 256 * 1024

_recycler = BufferPool()


def plain_allocator(shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
    """Memory of this process, as `numpy.empty` gives it but aligned if the array is large.

    The memory of a large array is used again once that array is gone.

    >>> plain_allocator((100, 1000), "float32").ctypes.data % ALIGNMENT
    0
    """
    dtype = np.dtype(dtype)
    nbytes = dtype.itemsize * (shape if isinstance(shape, int) else math.prod(shape))
    if nbytes < MIN_ALIGNED_BYTES or dtype.hasobject:
        return np.empty(shape, dtype)
    if nbytes >= _MIN_RECYCLED_BYTES:
        return np.ndarray(shape, dtype, _recycler.take(nbytes))
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    return np.ndarray(shape, dtype, memory, offset=-memory.ctypes.data % ALIGNMENT)


_current: Allocator = plain_allocator


def current_allocator() -> Allocator:
    """The allocator that the executor running this process has installed.

    Like `numpy.empty`, it gives a C-ordered, writable array whose contents are arbitrary:

    >>> out = current_allocator()((2, 3), "int32")
    >>> out.shape, out.dtype.name, out.flags.writeable
    ((2, 3), 'int32', True)
    """
    return _current


def allocate(shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
    """An uninitialised array from the current allocator.

    >>> allocate(4, "float32").shape
    (4,)
    """
    return _current(shape, dtype)


def install_allocator(allocator: Allocator | None) -> Allocator:
    """Makes `allocator` the current one (None: plain memory) and returns the one before it."""
    global _current
    previous = _current
    _current = plain_allocator if allocator is None else allocator
    return previous
