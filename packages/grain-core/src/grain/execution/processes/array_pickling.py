"""Pickling with the memory of arrays out of band.

Arrays of every dtype without Python objects travel as (memory, dtype, shape, order), also those that
numpy itself would copy into the pickle: extension dtypes, dates, non-contiguous arrays.
"""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from grain.execution.processes.mapped_files import reduce_mapped
from grain.memory.allocation import Allocator, plain_allocator

# Smaller arrays go into the pickle, which is cheaper than an entry in the table of buffers.
_IN_BAND_BYTES = 512


class Pickled(NamedTuple):
    """A pickle and the memory it refers to, in order; the memory is not copied."""

    stream: bytes
    buffers: list[memoryview]


class _NeedsValueError(Exception):
    """An object belongs to `__main__`, which a worker never runs: it must be pickled by value."""


class Dumper:
    """Pickler of importable objects by reference and of others (lambdas, `__main__`) by value.

    Pickling by reference is several times faster, so it is tried until the first object that needs
    pickling by value. A stream of objects is mostly of one kind, so from then on it is not tried again.
    """

    def __init__(self, allocate: Allocator = plain_allocator) -> None:
        self._allocate = allocate
        self._by_value = False

    def __call__(self, value: object) -> Pickled:
        """Pickle `value`."""
        if not self._by_value:
            try:
                return _dump(_ReferencePickler, value, self._allocate)
            except (_NeedsValueError, pickle.PicklingError, AttributeError, TypeError):
                pass
        pickled = _dump(_ValuePickler, value, self._allocate)
        self._by_value = True
        return pickled


def dumps_by_value(value: object) -> Pickled:
    """Pickle by value the objects that a process which imports the same modules could not look up."""
    return _dump(_ValuePickler, value, plain_allocator)


def dumps_job(value: object) -> Pickled:
    """Pickle a job: by value what other processes cannot import, by reference to files what is mapped."""
    return _dump(JobPickler, value, plain_allocator)


def loads(stream: bytes | bytearray | memoryview, buffers: Iterable[memoryview] = ()) -> Any:
    """Return the unpickled object; its arrays are views of `buffers`."""
    return pickle.loads(stream, buffers=buffers)


def _dump(
    pickler: type[_ReferencePickler | _ValuePickler], value: object, allocate: Allocator
) -> Pickled:
    file = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    # `append` returns None, so that pickle leaves the buffer out of its stream.
    job = pickler(file, protocol=5, buffer_callback=buffers.append)
    job.allocate = allocate
    job.dump(value)
    return Pickled(file.getvalue(), [buffer.raw() for buffer in buffers])


class _ReferencePickler(pickle.Pickler):
    allocate: Allocator

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind is np.ndarray:
            return _reduce_array(obj, self.allocate)
        if (kind is types.FunctionType or isinstance(obj, type)) and obj.__module__ == "__main__":
            raise _NeedsValueError
        return NotImplemented


class _ValuePickler(cloudpickle.Pickler):
    allocate: Allocator

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray:
            return _reduce_array(obj, self.allocate)
        return super().reducer_override(obj)  # type: ignore[no-untyped-call]


class JobPickler(_ValuePickler):
    """Pickler of objects that workers keep, which may refer to files by their path."""

    allocate = staticmethod(plain_allocator)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, np.ndarray) and obj.base is not None:
            reduced = reduce_mapped(obj)
            if reduced is not NotImplemented:
                return reduced
        return super().reducer_override(obj)


def _reduce_array(array: NDArray[Any], allocate: Allocator) -> Any:
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
