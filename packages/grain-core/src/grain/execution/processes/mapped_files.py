"""Memory-mapped arrays in the job of a pool: sent as a reference to their file, not as their contents.

A worker maps the same file, so a file larger than memory costs no copy. Writes of a worker stay private to
it, as with every other array of a job.
"""

from __future__ import annotations

import mmap
import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Bytes at both ends of an array that are compared with its file.
_COMPARED_BYTES = 4096


class MappedRegion(NamedTuple):
    """The part of a file that an array lies in.

    Attributes:
        path: Absolute path of the file.
        identity: Device, inode and size of the file.
        offset: Offset in the file of the lowest byte of the array.
        size: Number of bytes from the lowest to the highest of the array.
        first: Offset of the first element of the array from its lowest byte.
        writable: Whether the array is writable.
    """

    path: str
    identity: tuple[int, int, int]
    offset: int
    size: int
    first: int
    writable: bool


def reduce_mapped(array: NDArray[Any]) -> Any:
    """Return the reduction of an array in a mapped file; NotImplemented for every other array.

    An array mapped copy-on-write may differ from its file, and a file that was removed or replaced is out
    of reach for a worker: both are pickled with their contents.
    """
    mapped = _mapped_base(array)
    if mapped is None or mapped.mode == "c" or array.dtype.hasobject or array.nbytes == 0:
        return NotImplemented
    if type(array) not in (np.ndarray, np.memmap):
        return NotImplemented  # A subclass may hold more than the array.
    region = _region(array, mapped)
    if region is None:
        return NotImplemented
    return open_mapped, (type(array), region, array.dtype, array.shape, array.strides)


def open_mapped(
    kind: type[NDArray[Any]],
    region: MappedRegion,
    dtype: Any,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> NDArray[Any]:
    """Map a region and return the array in it; raise OSError if the file was replaced or resized."""
    advice = "Keep the file in place while worker processes read it."
    try:
        found = _identity(region.path)
    except OSError as error:
        raise OSError(
            f"A worker process cannot open the memory-mapped file {region.path}: {error}. {advice}"
        ) from error
    if found != region.identity:
        raise OSError(
            f"The memory-mapped file {region.path} was replaced or resized after the pipeline was "
            f"sent to worker processes. {advice}"
        )
    # Mapped copy-on-write if the array is writable, so that writes stay in this process.
    mode: Any = "c" if region.writable else "r"
    memory: Any = np.memmap(region.path, np.uint8, mode, region.offset, (region.size,))
    return np.ndarray.__new__(kind, shape, dtype, memory, region.first, strides)


def _mapped_base(array: Any) -> Any:
    """Return the memory-mapped array of which an array is a view, or None."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and isinstance(array.filename, (str, os.PathLike)):
            return array
        array = array.base
    return None


def _region(array: NDArray[Any], mapped: Any) -> MappedRegion | None:
    """Return where an array lies in the file of a mapped array, or None if it does not."""
    memory: mmap.mmap | None = getattr(mapped, "_mmap", None)
    if memory is None or memory.closed:
        return None
    low, size = _extent(array)
    start = low - np.frombuffer(memory, np.uint8).ctypes.data
    if start < 0 or start + size > len(memory):
        return None
    # The mapping starts at a page; `offset` is that of the array that was mapped first.
    offset = mapped.offset - mapped.offset % mmap.ALLOCATIONGRANULARITY + start
    path = os.path.abspath(mapped.filename)
    try:
        identity = _identity(path)
        with open(path, "rb") as file:
            # The file at the path may be another one than the mapped one.
            for part in {0, max(0, size - _COMPARED_BYTES)}:
                file.seek(offset + part)
                compared = min(_COMPARED_BYTES, size - part)
                if file.read(compared) != memory[start + part : start + part + compared]:
                    return None
    except OSError:
        return None
    first = array.ctypes.data - low
    return MappedRegion(path, identity, offset, size, first, array.flags.writeable)


def _extent(array: NDArray[Any]) -> tuple[int, int]:
    """Return the address of the lowest byte of an array, and the number of bytes to its highest."""
    spans = [
        stride * (length - 1) for stride, length in zip(array.strides, array.shape, strict=True)
    ]
    low = sum(span for span in spans if span < 0)
    high = sum(span for span in spans if span > 0)
    return array.ctypes.data + low, high - low + array.itemsize


def _identity(path: str) -> tuple[int, int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size
