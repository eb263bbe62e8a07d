"""Pickling with the memory of arrays out of band.

Most objects are pickled by reference, with the standard library alone. Pickling by value is in
`value_pickling`, which is loaded for the first object that needs it: a worker starts faster without.
"""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from grain._lazy import LazyModule
from grain.execution.processes.array_reduction import reduce_array
from grain.memory.allocation import Allocator, plain_allocator

_value_pickling = LazyModule("grain.execution.processes.value_pickling")


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
        pickled = _dump(_value_pickling.ValuePickler, value, self._allocate)
        self._by_value = True
        return pickled


def dumps_by_value(value: object) -> Pickled:
    """Pickle by value the objects that a process which imports the same modules could not look up."""
    return _dump(_value_pickling.ValuePickler, value, plain_allocator)


def dumps_job(value: object) -> Pickled:
    """Pickle a job: by value what other processes cannot import, by reference to files what is mapped."""
    return _dump(_value_pickling.JobPickler, value, plain_allocator)


def loads(stream: bytes | bytearray | memoryview, buffers: Iterable[memoryview] = ()) -> Any:
    """Return the unpickled object; its arrays are views of `buffers`."""
    return pickle.loads(stream, buffers=buffers)


def _dump(pickler: Any, value: object, allocate: Allocator) -> Pickled:
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
            return reduce_array(obj, self.allocate)
        if (kind is types.FunctionType or isinstance(obj, type)) and obj.__module__ == "__main__":
            raise _NeedsValueError
        return NotImplemented
