"""Resources of the machine: cores, memory, shared memory, open files, temporary files."""

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
SMALL_SHM = 256 * 2**20
FEW_FILES = 1024
_TRIAL_BYTES = 2**20
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def findings() -> Iterator[Finding]:
    """Yield the findings about the machine."""
    yield cores(
        _usable_cores(), os.cpu_count() or 1, cpu_quota(pathlib.Path("/sys/fs/cgroup/cpu.max"))
    )
    yield _memory()
    yield anonymous_memory()
    yield named_memory()
    if SHM.is_dir():
        usage = os.statvfs(SHM)
        yield shm_size(usage.f_blocks * usage.f_frsize, usage.f_bavail * usage.f_frsize)
    if sys.platform != "win32":
        yield open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield temporary_files()


def cores(usable: int, there: int, quota: float | None) -> Finding:
    """Report the cores usable by this process, by affinity and container quota."""
    detail = f"{usable} of {there} usable"
    if quota is None or quota >= usable:
        return Finding(name="cores", detail=detail)
    return Finding(
        name="cores",
        detail=f"{detail}, but the container's quota is {quota:g}",
        level=Level.NOTE,
        advice=f"Set worker counts explicitly, to at most about {max(1, round(quota))}: the operating"
        " system reports the cores, not the quota.",
    )


def shm_size(total: int, free: int) -> Finding:
    """Report the size of /dev/shm, which is small in containers by default."""
    detail = f"{_size(total)}, {_size(free)} free"
    if total >= SMALL_SHM and free >= SMALL_SHM // 2:
        return Finding(name="/dev/shm", detail=detail)
    return Finding(
        name="/dev/shm",
        detail=f"{detail}, which is small",
        level=Level.NOTE,
        advice="Batches do not need it (they use anonymous shared memory), but InMemoryDataSource and"
        " other libraries do: docker run --shm-size=1g, or --ipc=host.",
    )


def open_files(soft: int, hard: int) -> Finding:
    """Report the limit of open files."""
    unlimited = -1 if sys.platform == "win32" else resource.RLIM_INFINITY
    names = ["unlimited" if limit == unlimited else f"{limit:,}" for limit in (soft, hard)]
    detail = f"{names[0]} at once, at most {names[1]}"
    if soft == unlimited or soft >= FEW_FILES:
        return Finding(name="open files", detail=detail)
    return Finding(
        name="open files",
        detail=detail,
        level=Level.NOTE,
        advice=f"Datasets of many files and many workers need more: ulimit -n {FEW_FILES * 4}",
    )


def _memory() -> Finding:
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    total = pages * mmap.PAGESIZE
    for file in map(pathlib.Path, _MEMORY_LIMITS):
        try:
            limit = int(file.read_text())
        except (OSError, ValueError):
            continue  # no such file, or no limit ("max")
        if 0 < limit < total:
            return Finding(
                name="memory", detail=f"{_size(limit)} for this container, of {_size(total)}"
            )
    return Finding(name="memory", detail=_size(total) if total > 0 else "unknown")


def anonymous_memory() -> Finding:
    """Check anonymous shared memory, which carries batches from worker processes."""
    name, slow = (
        "shared memory",
        "Worker processes then send batches over sockets, which is slower.",
    )
    if not hasattr(os, "memfd_create"):
        detail = "anonymous shared memory (memfd_create) is not available on this system"
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
            detail=f"could not allocate anonymous shared memory: {error}",
            level=Level.NOTE,
            advice=f"{slow} Check memory limits and the container's seccomp profile.",
        )
    return Finding(name=name, detail="works (memfd)")


def named_memory() -> Finding:
    """Check named shared memory, which holds the data of InMemoryDataSource."""
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
            detail=f"could not be allocated: {error}",
            level=Level.PROBLEM,
            advice="InMemoryDataSource needs it. In a container: docker run --shm-size=1g; otherwise"
            " check that /dev/shm is mounted, writable and not full.",
        )
    return Finding(name=name, detail="works")


def temporary_files() -> Finding:
    """Check the folder of temporary files."""
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
            advice="Set TMPDIR to a writable folder with free space.",
        )


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota(file: pathlib.Path) -> float | None:
    """Return the container's CPU quota in cores; None without a limit."""
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
