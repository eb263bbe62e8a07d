"""The form of an array in a pickle, with its memory out of band.

Arrays of every dtype without Python objects travel as (memory, dtype, shape, order), also those that
numpy itself would copy into the pickle: extension dtypes, dates, non-contiguous arrays.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grain.memory.allocation import Allocator

# Smaller arrays go into the pickle, which is cheaper than an entry in the table of buffers.
_IN_BAND_BYTES = 512


def reduce_array(array: NDArray[Any], allocate: Allocator) -> Any:
    """Return the call that makes the array again, for a pickler's `reducer_override`.

    Args:
        array: The array.
        allocate: Allocates the memory of a contiguous copy, if one is needed.
    """
    dtype = array.dtype
    if dtype.hasobject or dtype.itemsize == 0:
        return NotImplemented
    flags = array.flags
    writable = flags.writeable
    order = "C" if flags.c_contiguous or not flags.f_contiguous else "F"
    simple = dtype.isbuiltin == 1 and dtype.kind in "biufc" and dtype.metadata is None
    form = (dtype.char if simple else dtype, array.shape, order)
    if array.nbytes <= _IN_BAND_BYTES:
        data = array.tobytes(order)  # type: ignore[arg-type]  # a str where a Literal is wanted
        return rebuild_array, (bytearray(data) if writable else data, *form)
    if not flags.forc:
        contiguous = allocate(array.shape, dtype)
        np.copyto(contiguous, array)
        contiguous.flags.writeable = writable
        array = contiguous
    flat = (array if order == "C" else array.T).reshape(-1).view(np.uint8)
    return rebuild_array, (pickle.PickleBuffer(flat), *form)


def rebuild_array(
    memory: memoryview, dtype: Any, shape: tuple[int, ...], order: Any
) -> NDArray[Any]:
    """Return the array over `memory`, writable if the memory is."""
    return np.ndarray(shape, dtype, memory, order=order)
