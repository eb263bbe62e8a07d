"""What the tests of pipelines over worker processes share."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.parity.encoding import encode

import grain

from .meeting import Meeting, new_meeting

PATIENCE = 60  # seconds; only a bound for what would otherwise hang

_PRELUDE = """
import gc, os, signal, sys, threading, time
import numpy as np
import grain
from grain import IterDataset, MapDataset, MultiprocessingOptions

def children():
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        return file.read().split()
"""


def with_workers(dataset: grain.IterDataset, count: int, **options: Any) -> grain.IterDataset:
    """The dataset over `count` worker processes; 0 for none."""
    return dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=count, **options))


def through_json(state: Any) -> Any:
    """A state as it comes back from a file."""
    return json.loads(state if isinstance(state, bytes) else json.dumps(state))


def step(iterator: Any) -> tuple[str, Any, Any]:
    """One step of an iterator: what happened, with what, and the state after it."""
    try:
        kind, value = "element", encode(next(iterator))
    except StopIteration:
        kind, value = "end", None
    except Exception as error:
        kind, value = "error", [type(error).__name__, str(error), getattr(error, "__notes__", [])]
    return kind, value, through_json(iterator.get_state())


def steps(iterator: Any, most: int = 400) -> list[tuple[str, Any, Any]]:
    """All steps to the end, or to an error that comes again and again."""
    found: list[tuple[str, Any, Any]] = []
    while len(found) < most:
        found.append(step(iterator))
        if found[-1][0] == "end" or (found[-1][0] == "error" and found[-3:-1] == [found[-1]] * 2):
            break
    return found


def descendants(pid: int) -> list[int]:
    """The children of a process, and theirs; not those that the standard library keeps for itself."""
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
            if not _is_of_the_standard_library(child):
                found += [child, *descendants(child)]
    return found


def _is_of_the_standard_library(pid: int) -> bool:
    """Whether a process is `multiprocessing`'s own, which other tests may have started."""
    try:
        return b"multiprocessing" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def segments(pid: int | str = "self") -> list[str]:
    """The shared memory that a process has mapped: what backs each mapping."""
    with open(f"/proc/{pid}/maps") as file:
        backing = [line.split(maxsplit=5)[5].strip() for line in file if line.count(" ") > 5]
    return sorted(name for name in backing if name.startswith(("/memfd:", "/dev/shm/")))


def census() -> dict[str, list[Any]]:
    """What this process holds: children, threads, open descriptors, and shared memory."""
    return {
        "children": descendants(os.getpid()),
        "threads": os.listdir("/proc/self/task"),
        "descriptors": list(range(len(os.listdir("/proc/self/fd")))),
        "segments": segments(),
    }


def beyond(before: dict[str, list[Any]]) -> dict[str, Counter[Any]]:
    """What is held now and was not before; what other tests left behind may have gone meanwhile."""
    more = {name: Counter(now) - Counter(before[name]) for name, now in census().items()}
    return {name: extra for name, extra in more.items() if extra}


def wait_until_gone(pid: int) -> None:
    """Waits until a process, not necessarily a child, has ended and is no more than a zombie."""
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
    """Waits for a script; its exit code, output and errors."""
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


@pytest.fixture
def leaves_nothing() -> Iterator[None]:
    """Fails if the test leaves a process, thread, descriptor or segment."""
    before = census()
    yield
    assert not beyond(before)


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a script, with all warnings as errors, in a process group of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(body: str, *arguments: Any, stdin: bool = False) -> subprocess.Popen[str]:
        text = _PRELUDE + textwrap.dedent(body)
        path = tmp_path / f"script{len(started)}.py"
        path.write_text(text)
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-" if stdin else str(path), *map(str, arguments)],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        started.append(process)
        if process.stdin is not None:
            process.stdin.write(text)
            process.stdin.close()
            process.stdin = None
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def fifo(tmp_path: Path) -> Any:
    """A named pipe over which a worker says where it is."""

    class Fifo:
        path = str(tmp_path / "fifo")

        def read(self) -> str:
            """Waits until some process has written to the pipe and closed it."""
            with open(self.path) as file:
                return file.read()

    os.mkfifo(Fifo.path)
    return Fifo()


@pytest.fixture
def meet(tmp_path: Path) -> Meeting:
    """A meeting of two workers."""
    return new_meeting(tmp_path, "first")
