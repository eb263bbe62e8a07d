"""What a process holds, and waiting for processes to end."""

from __future__ import annotations

import os
import select
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from grain.execution.processes.template_client import end_idle_template

PATIENCE = 60
"""Seconds after which a wait that would otherwise hang fails."""


def descendants(pid: int) -> list[int]:
    """Return the children of a process and their children.

    Those of `multiprocessing` are left out, and a template that waits for the next pool.
    """
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return []
    found: list[int] = []
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children") as file:
                children = [int(word) for word in file.read().split()]
        except FileNotFoundError:
            continue
        for child in children:
            if b"multiprocessing" in _command_line(child):
                continue
            further = descendants(child)
            if further or not _is_template(child, pid):
                found += [child, *further]
    return found


def _is_template(pid: int, parent: int) -> bool:
    """Return whether a process forks workers, which have the same command line."""
    mark = b"grain-template"
    return mark in _command_line(pid) and mark not in _command_line(parent)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def segments(pid: int | str = "self") -> list[str]:
    """Return the backing names of the shared memory that a process has mapped."""
    with open(f"/proc/{pid}/maps") as file:
        backing = [line.split(maxsplit=5)[5].strip() for line in file if line.count(" ") > 5]
    return sorted(name for name in backing if name.startswith(("/memfd:", "/dev/shm/")))


def census() -> dict[str, list[Any]]:
    """Return the children, threads, open descriptors and shared memory of this process.

    The process that is kept to fork the workers of the next pool is ended before.
    """
    end_idle_template()
    return {
        "children": descendants(os.getpid()),
        "threads": os.listdir("/proc/self/task"),
        "descriptors": list(range(len(os.listdir("/proc/self/fd")))),
        "segments": segments(),
    }


def beyond(before: dict[str, list[Any]]) -> dict[str, Counter[Any]]:
    """Return what is held now and was not before; what other tests left may have gone meanwhile."""
    more = {name: Counter(now) - Counter(before[name]) for name, now in census().items()}
    return {name: extra for name, extra in more.items() if extra}


def wait_until_gone(pid: int) -> None:
    """Wait until a process, not necessarily a child, has ended or is a zombie."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(PATIENCE * 1000), f"process {pid} is still there"
    finally:
        os.close(fd)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a script to end; return its exit code, output and errors."""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err
