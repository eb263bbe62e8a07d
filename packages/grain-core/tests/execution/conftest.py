"""What the tests of pipelines over worker processes share."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grain._policy import use_policy
from grain.dataset import iterator
from grain.execution import adaptive_reader, block_threads, split_reader

from ..helpers.processes import beyond, census
from ..helpers.threads import new_threads, wait_for_end
from .gated_source import Clock, GatedSource
from .meeting import Meeting, new_meeting

# All warnings are errors, but that programs compare several passes over one dataset.
_WARNINGS = ("-W", "error", "-W", "ignore:This dataset was read to its end before")
_PRELUDE = """
import gc, os, signal, sys, threading, time
import numpy as np
import grain
from grain import IterDataset, MapDataset, MultiprocessingOptions

def children(pid=None):
    # The template of all pools, and their workers.
    found = []
    for task in os.listdir(f"/proc/{pid or os.getpid()}/task"):
        with open(f"/proc/{pid or os.getpid()}/task/{task}/children") as file:
            for child in file.read().split():
                found += [child, *children(child)]
    return found
"""


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
            [sys.executable, *_WARNINGS, "-" if stdin else str(path), *map(str, arguments)],
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
def change_policy() -> Iterator[Callable[..., Any]]:
    """Change tuning constants of this process until the test ends."""
    with contextlib.ExitStack() as stack:
        yield lambda **changes: stack.enter_context(use_policy(**changes))


@pytest.fixture
def meet(tmp_path: Path) -> Meeting:
    """A meeting of two workers."""
    return new_meeting(tmp_path, "first")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that stands still unless the test advances it."""
    stopped = Clock()
    for module in (adaptive_reader, block_threads, split_reader, iterator):
        monkeypatch.setattr(module, "time", stopped)
    return stopped


@pytest.fixture
def reading_threads() -> Iterator[Callable[[], list[threading.Thread]]]:
    """Return the threads that read for this test; when it ends, they must have ended."""
    before = set(threading.enumerate())

    def readers() -> list[threading.Thread]:
        # A thread that is about to start is listed, and cannot be joined.
        threads = [t for t in threading.enumerate() if t.is_alive()]
        return [t for t in threads if t.name == "grain-read" and t not in before]

    yield readers
    wait_for_end(lambda: new_threads(before, "grain-read"))


@pytest.fixture
def gated() -> type[GatedSource]:
    """The class of sources whose reads wait at a gate."""
    return GatedSource
