"""Anonymous shared memory: a file without a name, and mappings of it that keep no file open.

Having no name, a segment cannot outlive the processes that map it, however they end, and it does
not count against the size of /dev/shm. Python's own `mmap` keeps a duplicate of the descriptor for
as long as the mapping lives: one open file per slot. Hence the C library's.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import weakref
from collections.abc import Callable
from typing import Any

from grain._lazy import LazyModule

# Needed only on systems without memfd_create.
tempfile = LazyModule("tempfile")

_MAP_FAILED = ctypes.c_void_p(-1).value
_POPULATE = getattr(mmap, "MAP_POPULATE", 0)


class OwnedDescriptor(int):
    """A descriptor that is closed when the last reference to this object is gone, also by an interrupt.

    It is created by C code alone: no interrupt comes between the descriptor and its owner.
    """

    def __del__(self, _close: Callable[[int], None] = os.close) -> None:
        _close(self)


def create(size: int) -> int:
    """Return the file descriptor of a new segment of `size` bytes with its memory reserved.

    Raise OSError when the system has no anonymous shared memory, or no memory or descriptors left.
    Reserving at once turns a lack of memory into an error here, instead of a fatal signal later.
    """
    if not hasattr(os, "memfd_create"):
        raise OSError(errno.ENOSYS, "this system has no anonymous shared memory (memfd_create)")
    fd = os.memfd_create("grain", os.MFD_CLOEXEC)
    try:
        os.posix_fallocate(fd, 0, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


def unnamed_file(size: int) -> int:
    """Return the descriptor of an unnamed file of `size` zero bytes: in memory, or on disk as a fallback."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("grain", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        os.ftruncate(fd, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


def map_shared(fd: int, size: int) -> memoryview:
    """Map the first `size` bytes of a file; writes are visible to all processes."""
    return _map(fd, size, mmap.MAP_SHARED | _POPULATE)


def map_private(fd: int, size: int) -> memoryview:
    """Map the first `size` bytes of a file; a page is shared until this process writes to it."""
    return _map(fd, size, mmap.MAP_PRIVATE)


def _map(fd: int, size: int, flags: int) -> memoryview:
    libc = _libc()
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0)
    if address == _MAP_FAILED:
        code = ctypes.get_errno()
        raise OSError(code, f"cannot map {size} bytes of shared memory: {os.strerror(code)}")
    memory = (ctypes.c_ubyte * size).from_address(address)
    # Not at interpreter exit: arrays may still be in use, and the system unmaps anyway.
    weakref.finalize(memory, libc.munmap, address, size).atexit = False
    return memoryview(memory).cast("B")


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    libc.mmap.restype = pointer
    libc.mmap.argtypes = [pointer, size, number, number, number, ctypes.c_long]
    libc.munmap.restype = number
    libc.munmap.argtypes = [pointer, size]
    return libc
