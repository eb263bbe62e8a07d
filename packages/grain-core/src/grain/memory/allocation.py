"""The allocator of newly assembled arrays.

By default it returns memory of this process. A worker process installs an allocator of shared memory, so that
the batches assembled there reach the consumer without another copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from grain._policy import current_policy
from grain.memory.buffer_pool import ALIGNMENT, BufferPool

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

Shape = int | tuple[int, ...]
Allocator = Callable[[Shape, "DTypeLike"], "NDArray[Any]"]

MIN_ALIGNED_BYTES = 64 * 1024
_pool = BufferPool()
_min_pooled_bytes = current_policy().min_pooled_bytes


def plain_allocator(shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
    """Return memory of this process, like `numpy.empty`, but aligned if the array is large.

    The memory of a large array is reused once that array is gone.

    >>> plain_allocator((100, 1000), "float32").ctypes.data % ALIGNMENT
    0
    """
    dtype = np.dtype(dtype)
    nbytes = dtype.itemsize * (shape if isinstance(shape, int) else math.prod(shape))
    if nbytes < MIN_ALIGNED_BYTES or dtype.hasobject:
        return np.empty(shape, dtype)
    if nbytes >= _min_pooled_bytes:
        return np.ndarray(shape, dtype, _pool.take(nbytes))
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    return np.ndarray(shape, dtype, memory, offset=-memory.ctypes.data % ALIGNMENT)


_current: Allocator = plain_allocator


def current_allocator() -> Allocator:
    """Return the allocator installed in this process.

    Like `numpy.empty`, it returns a C-ordered, writable array whose contents are arbitrary:

    >>> out = current_allocator()((2, 3), "int32")
    >>> out.shape, out.dtype.name, out.flags.writeable
    ((2, 3), 'int32', True)
    """
    return _current


def allocate(shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
    """Return an uninitialised array from the current allocator.

    >>> allocate(4, "float32").shape
    (4,)
    """
    return _current(shape, dtype)


def install_allocator(allocator: Allocator | None) -> Allocator:
    """Install `allocator` (None: plain memory) and return the previous one."""
    global _current
    previous = _current
    _current = plain_allocator if allocator is None else allocator
    return previous
