"""What the machine gives: cores, memory that processes share, open files, a place for files."""

from __future__ import annotations

import mmap
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing import shared_memory

from grain.cli.doctor.finding import Finding, Level

if sys.platform != "win32":
    import resource

SHM = pathlib.Path("/dev/shm")
LITTLE_SHM = 256 * 2**20
FEW_FILES = 1024
_TRIAL_BYTES = 2**20
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def findings() -> Iterator[Finding]:
    """Everything about the machine."""
    yield cores(
        _usable_cores(), os.cpu_count() or 1, _quota(pathlib.Path("/sys/fs/cgroup/cpu.max"))
    )
    yield _memory()
    yield _anonymous_memory()
    yield _named_memory()
    if SHM.is_dir():
        usage = os.statvfs(SHM)
        yield shm_size(usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize)
    if sys.platform != "win32":
        yield open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield _temporary_files()


def cores(usable: int, there: int, quota: float | None) -> Finding:
    """How many cores this process may use, by its affinity and its container's share."""
    detail = f"{usable} of {there} usable"
    if quota is None or quota >= usable:
        return Finding(name="cores", detail=detail)
    return Finding(
        name="cores",
        detail=f"{detail}, and the container's share is {quota:g}",
        level=Level.NOTE,
        advice=f"Give worker counts yourself, at most about {max(1, round(quota))}: the system tells"
        " programs about the cores, not about the share.",
    )


def shm_size(total: int, free: int) -> Finding:
    """Whether /dev/shm is as small as containers make it."""
    detail = f"{_size(total)}, {_size(free)} free"
    if total >= LITTLE_SHM and free >= LITTLE_SHM // 2:
        return Finding(name="/dev/shm", detail=detail)
    return Finding(
        name="/dev/shm",
        detail=f"{detail}, which is little",
        level=Level.NOTE,
        advice="Batches do not need it (they travel in memory without a name), but shared data sets"
        " and other libraries do: docker run --shm-size=1g, or --ipc=host.",
    )


def open_files(soft: int, hard: int) -> Finding:
    """Whether enough files may be open at once."""
    unlimited = -1 if sys.platform == "win32" else resource.RLIM_INFINITY
    names = ["unlimited" if limit == unlimited else f"{limit:,}" for limit in (soft, hard)]
    detail = f"{names[0]} at once, at most {names[1]}"
    if soft == unlimited or soft >= FEW_FILES:
        return Finding(name="open files", detail=detail)
    return Finding(
        name="open files",
        detail=detail,
        level=Level.NOTE,
        advice=f"Data of many files and many workers need more: ulimit -n {FEW_FILES * 4}",
    )


def _memory() -> Finding:
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    total = pages * mmap.PAGESIZE
    for file in map(pathlib.Path, _MEMORY_LIMITS):
        try:
            limit = int(file.read_text())
        except (OSError, ValueError):
            continue  # no such file, or no limit: "max"
        if 0 < limit < total:
            return Finding(
                name="memory", detail=f"{_size(limit)} for this container, of {_size(total)}"
            )
    return Finding(name="memory", detail=_size(total) if total > 0 else "unknown")


def _anonymous_memory() -> Finding:
    """Memory without a name, in which batches come from worker processes."""
    name, slow = "shared memory", "Batches from worker processes then travel slower, as messages."
    if not hasattr(os, "memfd_create"):
        detail = "this system has no memory without a name (memfd_create)"
        return Finding(name=name, detail=detail, level=Level.NOTE, advice=slow)
    try:
        fd = os.memfd_create("grain-doctor", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(fd, 0, _TRIAL_BYTES)
            with mmap.mmap(fd, _TRIAL_BYTES) as memory:
                memory[:4] = b"well"
        finally:
            os.close(fd)
    except OSError as error:
        return Finding(
            name=name,
            detail=f"memory without a name cannot be had: {error}",
            level=Level.NOTE,
            advice=f"{slow} Look at limits of memory and at the container's seccomp profile.",
        )
    return Finding(name=name, detail="works (memfd)")


def _named_memory() -> Finding:
    """Memory with a name, in which InMemoryDataSource keeps its data."""
    name = "named shared memory"
    try:
        segment = shared_memory.SharedMemory(create=True, size=_TRIAL_BYTES)
        try:
            memory = segment.buf
            assert memory is not None
            memory[:4] = b"well"
        finally:
            segment.close()
            segment.unlink()
    except OSError as error:
        return Finding(
            name=name,
            detail=f"cannot be had: {error}",
            level=Level.PROBLEM,
            advice="InMemoryDataSource needs it. In a container: docker run --shm-size=1g; otherwise"
            " see that /dev/shm is mounted, has room and may be written to.",
        )
    return Finding(name=name, detail="works")


def _temporary_files() -> Finding:
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"well")
            file.flush()
        return Finding(name="temporary files", detail=f"in {tempfile.gettempdir()}")
    except OSError as error:
        return Finding(
            name="temporary files",
            detail=f"cannot be written: {error}",
            level=Level.PROBLEM,
            advice="Set TMPDIR to a folder with room that you may write to.",
        )


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(file: pathlib.Path) -> float | None:
    """How many cores' time a container may use; None when there is no limit."""
    try:
        quota, period = file.read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _size(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            return f"{number:,.0f} {unit}" if unit == "bytes" else f"{number:,.1f} {unit}"
        number /= 1024
    raise AssertionError("not reached")
