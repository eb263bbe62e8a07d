"""Fixtures for tests with real worker processes.

Jobs are local objects, so that workers get them by value and need not import pytest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import textwrap

import pytest

import grain
from grain.execution.processes.pool import WorkerPool
from grain.execution.processes.template_client import end_idle_template

from ...helpers import processes


def apply(function):
    """A job that applies one function to every task."""

    class Apply:
        def start(self, worker_index, worker_count):
            return function

    return Apply()


@pytest.fixture
def make_pool():
    """Makes pools that are closed when the test ends; a plain function becomes a job."""
    pools = []

    def make(job, num_workers=2, **options):
        pool = WorkerPool(
            job if hasattr(job, "start") else apply(job), num_workers=num_workers, **options
        )
        pools.append(pool)
        return pool

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture(params=["update", "environment", "context manager"])
def give_setting(request, monkeypatch):
    """Gives a setting, as text, in each of the ways there are, until the test ends."""
    with contextlib.ExitStack() as restored:

        def give(name, text):
            if request.param == "environment":
                monkeypatch.setenv(f"GRAIN_{name.upper()}", text)
                return
            monkeypatch.delenv(f"GRAIN_{name.upper()}", raising=False)
            if request.param == "context manager":
                restored.enter_context(grain.config.override(**{name: text}))
            else:
                before = grain.config.get_or_default(name)
                restored.enter_context(grain.config.override(**{name: before}))
                grain.config.update(name, text)

        yield give


@pytest.fixture
def wait_until_gone():
    """Waits until a process, not necessarily a child, has ended and is no more than a zombie."""
    return processes.wait_until_gone


@pytest.fixture
def fifo(tmp_path):
    """A named pipe over which a worker says where it is."""

    class Fifo:
        path = str(tmp_path / "fifo")

        def read(self):
            """Waits until some process has written to the pipe and closed it."""
            with open(self.path) as file:
                return file.read()

    os.mkfifo(Fifo.path)
    return Fifo()


_PRELUDE = """
import os, signal, sys, threading, time
import numpy as np
from grain.execution.processes.error_report import WorkerDied
from grain.execution.processes.pool import WorkerPool

class Apply:
    def __init__(self, function):
        self.function = function
    def start(self, worker_index, worker_count):
        return self.function
"""


@pytest.fixture
def script(tmp_path):
    """Starts a script, with all warnings as errors, in a process group of its own."""
    started = []

    def start(body, *arguments):
        path = tmp_path / f"script{len(started)}.py"
        path.write_text(_PRELUDE + textwrap.dedent(body))
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(path), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@dataclasses.dataclass(frozen=True)
class Holdings:
    """What a process holds at a moment."""

    children: frozenset[str]
    threads: frozenset[str]
    descriptors: int

    def beyond(self, before: Holdings) -> list[str]:
        """What is held now and was not before; threads of other tests may have ended meanwhile."""
        more = [f"child {pid}" for pid in self.children - before.children]
        more += [f"thread {tid}" for tid in self.threads - before.threads]
        if self.descriptors > before.descriptors:
            more.append(f"{self.descriptors - before.descriptors} descriptors")
        return more


@pytest.fixture
def census():
    """What this process holds: children, threads, and open descriptors.

    The process that is kept to fork the workers of the next pool is ended before.
    """

    def count():
        end_idle_template()
        pid = os.getpid()
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
        return Holdings(
            frozenset(children),
            frozenset(os.listdir("/proc/self/task")),
            len(os.listdir("/proc/self/fd")),
        )

    return count
