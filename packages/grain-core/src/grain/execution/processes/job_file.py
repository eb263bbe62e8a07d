"""The job of a pool, in one unnamed file that all workers map.

The arrays of a job exist once for any number of workers: each worker maps the file privately, so a page
is copied only when that worker writes to it.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from grain.execution.processes import array_pickling, framing, segments
from grain.execution.processes.array_pickling import Pickled


class Setup(NamedTuple):
    """Contents of the file, as a worker reads them."""

    path: list[str]
    argv: list[str]
    memory: memoryview
    init: list[tuple[int, int, bool]] | None
    job: list[tuple[int, int, bool]]

    def load_init(self) -> Callable[[int, int], Any]:
        """Return the user's `worker_init_fn`."""
        function: Callable[[int, int], Any] = self._load(self.init or [])
        return function

    def load_job(self) -> Any:
        """Return the job of the pool."""
        return self._load(self.job)

    def _load(self, table: list[tuple[int, int, bool]]) -> Any:
        buffers = []
        for start, size, readonly in table:
            buffer = self.memory[start : start + size]
            buffers.append(buffer.toreadonly() if readonly else buffer)
        return array_pickling.loads(buffers[0], buffers[1:])


def write(job: Pickled, init: Pickled | None) -> tuple[int, int]:
    """Write the file; return its descriptor and the length of its first section.

    The first section is what a process needs before it can import anything: it starts with `sys.path`.
    """
    buffers: list[tuple[int, memoryview]] = []
    size = 0

    def add(pickled: Pickled) -> list[tuple[int, int, bool]]:
        nonlocal size
        table = []
        for number, buffer in enumerate((memoryview(pickled.stream), *pickled.buffers)):
            table.append((size, buffer.nbytes, number > 0 and buffer.readonly))
            buffers.append((size, buffer))
            size += framing.aligned(buffer.nbytes)
        return table

    tables = (None if init is None else add(init), add(job))
    path = [entry for entry in sys.path if isinstance(entry, str)]
    argv = list(getattr(sys, "argv", [""]))
    setup = marshal.dumps((path, argv, size, *tables))
    start = framing.aligned(len(setup))
    fd = segments.unnamed_file(start + max(size, 1))
    try:
        _write_at(fd, memoryview(setup), 0)
        for offset, buffer in buffers:
            _write_at(fd, buffer, start + offset)
    except BaseException:
        os.close(fd)
        raise
    return fd, len(setup)


def read(fd: int, setup_bytes: int) -> Setup:
    """Map the file and close the descriptor."""
    path, argv, size, init, job = marshal.loads(os.pread(fd, setup_bytes, 0))
    start = framing.aligned(setup_bytes)
    memory = segments.map_private(fd, start + max(size, 1))
    os.close(fd)
    return Setup(path, argv, memory[start:], init, job)


def _write_at(fd: int, data: memoryview, offset: int) -> None:
    while data.nbytes:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written
