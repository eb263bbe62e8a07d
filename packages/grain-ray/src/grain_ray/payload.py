"""The form in which tasks and results travel between the consumer, the gateway and actors.

A value is pickled once, where it is made, and unpickled once, where it is used; processes in between
forward its memory. So a gateway imports no code of the user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from grain.execution.processes import array_pickling
from grain.execution.processes.array_pickling import Pickled
from grain.execution.processes.framing import aligned

# Smaller buffers are joined: a message of many arrays costs more than their copy.
MIN_SEPARATE_BYTES = 64 * 1024


class BufferPlace(NamedTuple):
    """Where the memory of one buffer is: an array of the payload, an offset in it, and a size."""

    array: int
    offset: int
    size: int
    readonly: bool


class Payload(NamedTuple):
    """A pickle and the memory that it refers to, in a few arrays of bytes."""

    stream: bytes
    places: list[BufferPlace]
    arrays: list[NDArray[np.uint8]]

    @property
    def nbytes(self) -> int:
        """Bytes of the pickle and of its memory."""
        return len(self.stream) + sum(array.nbytes for array in self.arrays)


def pack(
    pickled: Pickled, is_elsewhere: Callable[[int, memoryview], bool] | None = None
) -> Payload:
    """Return a payload over the memory of a pickle; small buffers are copied, large ones are not.

    Args:
        pickled: The pickle.
        is_elsewhere: Called with the number and the memory of each large buffer; returns whether it travels
            by itself, so that the array with this number is an empty one.

    >>> payload = pack(array_pickling.dumps_by_value({"x": np.arange(1000)}))
    >>> unpack(payload)["x"].sum()
    np.int64(499500)
    """
    places: list[BufferPlace] = []
    arrays: list[NDArray[np.uint8]] = []
    joined: list[tuple[int, memoryview]] = []
    size = 0
    for buffer in pickled.buffers:
        nbytes = buffer.nbytes
        if nbytes >= MIN_SEPARATE_BYTES:
            elsewhere = is_elsewhere is not None and is_elsewhere(len(arrays), buffer)
            arrays.append(np.frombuffer(b"" if elsewhere else buffer, np.uint8))
            places.append(BufferPlace(len(arrays) - 1, 0, nbytes, buffer.readonly))
        else:
            joined.append((size, buffer))
            places.append(BufferPlace(-1, size, nbytes, buffer.readonly))
            size += aligned(nbytes)
    if joined:
        together = np.empty(size, np.uint8)
        for offset, buffer in joined:
            together[offset : offset + buffer.nbytes] = np.frombuffer(buffer, np.uint8)
        arrays.append(together)  # The last array: number -1.
    return Payload(pickled.stream, places, arrays)


def unpack(payload: Payload) -> Any:
    """Return the value; its arrays are views of the payload's memory."""
    buffers = []
    for place in payload.places:
        memory = memoryview(payload.arrays[place.array])[place.offset : place.offset + place.size]
        buffers.append(memory.toreadonly() if place.readonly else memory)
    return array_pickling.loads(payload.stream, buffers)


def own(payload: Payload, allocate: Callable[[int, Any], NDArray[Any]] = np.empty) -> Payload:
    """Return the payload with its memory copied into writable arrays of `allocate`."""
    copies = []
    for array in payload.arrays:
        copy = allocate(array.nbytes, np.uint8)
        np.copyto(copy, array)
        copies.append(copy)
    return payload._replace(arrays=copies)
