"""Named shared memory: created and filled once by its owner, mapped read-only by all readers.

The standard library's class registers every process that attaches with the resource tracker, which
then warns, or removes memory that other processes use. Here only the owner is registered. A reader
attaches only to memory that its own user created and that no other user can write. Where memory is a
file that any user may put in place, opening it must neither block nor follow a link.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import io
import mmap
import os
import re
import stat
import sys
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory

if sys.platform != "win32":
    import _posixshmem  # type: ignore[import-not-found]


# Systems allow slightly more bytes, and some truncate longer names silently.
_NAME = re.compile(r"[^/\\\0]{1,200}")

# Elsewhere shared memory is no file, and some systems refuse these flags.
_FILE_FLAGS = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC if sys.platform == "linux" else 0

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_KIND_OF_ERROR = {
    errno.ENXIO: "a socket",
    errno.EISDIR: "a directory",
    errno.ELOOP: "a symbolic link",
}


@dataclasses.dataclass(frozen=True)
class Segment:
    """Name and size of shared memory."""

    name: str
    size: int


def create(size: int, name: str | None, fill: Callable[[memoryview], None]) -> SharedMemory:
    """Create a segment and let `fill` write it; the result is closed, and only for `unlink`."""
    if name is not None:
        _check_name(name)
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
        # On Windows a segment lives only as long as a process has it open.
        memory.close()
    return memory


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"Shared memory cannot be named {name!r:.300}: use 1 to 200 characters without slashes"
            " and null characters."
        )


def _reserve(name: str, size: int) -> None:
    """Allocate the memory now: writing to a segment that cannot be backed kills the process."""
    if sys.platform == "win32" or not hasattr(os, "posix_fallocate"):
        return
    handle = _posixshmem.shm_open(f"/{name}", os.O_RDWR, mode=0o600)
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.ENOMEM):
            return
        raise MemoryError(
            f"Cannot allocate {size:,} bytes of shared memory. Enlarge it (for a container, with "
            "--shm-size), free some, or use a source on disk."
        ) from error
    finally:
        os.close(handle)


def attach(name: str) -> mmap.mmap | memoryview:
    """Return the contents of a segment, which stay mapped as long as they are referenced."""
    _check_name(name)
    try:
        if sys.platform == "win32":
            return SharedMemory(name=name).buf
        # Not a bare descriptor, which Ctrl-C right after the call would leak.
        file = io.FileIO(f"/{name}", opener=_open)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            errno.ENOENT,
            f"There is no shared memory named {name!r}. Its owner has unlinked it, dropped it or "
            "exited; keep the source alive in the process that created it as long as others attach",
        ) from error
    except PermissionError as error:
        raise PermissionError(
            errno.EACCES, f"The shared memory named {name!r} belongs to another user; {_USE_OWN}"
        ) from error
    except OSError as error:
        if error.errno not in _KIND_OF_ERROR:
            raise
        raise _no_memory(name, _KIND_OF_ERROR[error.errno]) from error
    with file:
        status = os.fstat(file.fileno())
        _check_kind(name, status)
        _check_owner(name, status)
        if not status.st_size:
            raise ValueError(
                f"The shared memory named {name!r} is empty, so it does not hold a "
                "SharedMemoryDataSource: check the name, or attach after its owner has created it."
            )
        return mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ)


def _open(path: str, flags: int) -> int:
    handle: int = _posixshmem.shm_open(path, flags | _FILE_FLAGS, mode=0o600)
    return handle


def _check_kind(name: str, status: os.stat_result) -> None:
    """Raise an error for a file that is not memory."""
    kind = stat.S_IFMT(status.st_mode)
    # Systems where shared memory is no file report no kind.
    if kind not in (0, stat.S_IFREG):
        raise _no_memory(name, _KINDS.get(kind, f"a file of kind {kind:o}"))


def _no_memory(name: str, found: str) -> ValueError:
    return ValueError(
        f"The name {name!r} belongs to {found}, not to shared memory: check the name, or remove it "
        "from /dev/shm and create the source again."
    )


def _check_owner(name: str, status: os.stat_result) -> None:
    """Raise an error unless this user created the memory and no other user can write it."""
    if status.st_uid != os.geteuid():
        raise PermissionError(
            errno.EACCES,
            f"The shared memory named {name!r} belongs to user id {status.st_uid}, but this process"
            f" runs as user id {os.geteuid()}; {_USE_OWN}",
        )
    if stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(
            errno.EACCES,
            f"The shared memory named {name!r} is writable by other users (mode"
            f" {stat.S_IMODE(status.st_mode):o}, expected 600); {_USE_OWN}",
        )


_USE_OWN = "create the source as the user that reads it"


def unlink(name: str) -> None:
    """Remove the name; attached processes keep the memory. A name that does not exist is ignored."""
    if sys.platform != "win32":
        with contextlib.suppress(FileNotFoundError):
            _posixshmem.shm_unlink(f"/{name}")


def release(memory: SharedMemory, owner: int) -> None:
    """Remove a segment, if this process is its owner and not a forked child of the owner."""
    if os.getpid() != owner:
        return
    memory.close()
    try:
        memory.unlink()
    except FileNotFoundError:
        # Another process removed it, which the resource tracker has not seen.
        resource_tracker.unregister(f"/{memory.name}", "shared_memory")
