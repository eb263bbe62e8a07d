"""Named shared memory: made and filled once by its owner, mapped read-only by everyone.

The standard library's class registers every process that attaches as one that must clean up, and
then complains, or removes the memory under the others. Here the owner alone is registered.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import io
import mmap
import os
import re
import sys
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory

if sys.platform != "win32":
    import _posixshmem  # type: ignore[import-not-found]


# Systems allow a little more, in bytes, and some of them cut off what they do not allow.
_NAME = re.compile(r"[^/\\\0]{1,200}")


@dataclasses.dataclass(frozen=True)
class Segment:
    """A piece of shared memory, by name."""

    name: str
    size: int


def create(size: int, name: str | None, fill: Callable[[memoryview], None]) -> SharedMemory:
    """Makes a segment and lets `fill` write it; the result is closed, and good for `unlink`."""
    if name is not None and not _NAME.fullmatch(name):
        raise ValueError(
            f"Shared memory cannot be named {name!r:.300}: give one to 200 characters, none of which"
            " is a slash or a null character."
        )
    try:
        memory = SharedMemory(name=name, create=True, size=size)
    except FileExistsError as error:
        raise FileExistsError(
            errno.EEXIST,
            f"Shared memory named {name!r} exists already: attach to it by giving the name without "
            "elements, remove it with unlink(), or choose another name",
        ) from error
    try:
        _reserve(memory.name, size)
        assert memory.buf is not None
        fill(memory.buf)
    except BaseException:
        memory.close()
        memory.unlink()
        raise
    if sys.platform != "win32":
        # There a segment lives only as long as someone has it open.
        memory.close()
    return memory


def _reserve(name: str, size: int) -> None:
    """Makes sure that the memory is there: writing to more than there is kills the process."""
    if sys.platform == "win32" or not hasattr(os, "posix_fallocate"):
        return
    handle = _posixshmem.shm_open(f"/{name}", os.O_RDWR, mode=0o600)
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM):
            return
        raise MemoryError(
            f"There is no room for {size:,} bytes in shared memory. Make it larger (in a "
            "container, for instance, with --shm-size), free some, or use a source on disk."
        ) from error
    finally:
        os.close(handle)


def attach(name: str) -> mmap.mmap | memoryview:
    """The contents of the segment, which stay valid as long as they are referred to."""
    try:
        if sys.platform == "win32":
            return SharedMemory(name=name).buf
        # A bare number would be lost, and the memory stay open, if Ctrl-C came right after the call.
        file = io.FileIO(f"/{name}", opener=functools.partial(_posixshmem.shm_open, mode=0o600))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            errno.ENOENT,
            f"There is no shared memory named {name!r}. Its owner has unlinked it, dropped it or "
            "ended; keep the source alive in the process that made it as long as others attach",
        ) from error
    with file:
        return mmap.mmap(file.fileno(), os.fstat(file.fileno()).st_size, access=mmap.ACCESS_READ)


def unlink(name: str) -> None:
    """Removes the name; who is attached stays attached. A name that is gone already is fine."""
    if sys.platform != "win32":
        with contextlib.suppress(FileNotFoundError):
            _posixshmem.shm_unlink(f"/{name}")


def release(memory: SharedMemory, owner: int) -> None:
    """Ends a segment, if this process is its owner and not a forked child of it."""
    if os.getpid() != owner:
        return
    memory.close()
    try:
        memory.unlink()
    except FileNotFoundError:
        # Somebody else was faster, and the tracker of leaks does not know of it.
        resource_tracker.unregister(f"/{memory.name}", "shared_memory")
