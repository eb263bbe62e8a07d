"""What every worker of a pool is given when it starts, in one unnamed file that all of them map.

The arrays of a job exist once however many workers there are: each worker maps the file privately,
so a page becomes its own only when it writes to it.
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
    """The file's contents, on the worker's side."""

    argv: list[str]
    memory: memoryview
    init: list[tuple[int, int, bool]] | None
    job: list[tuple[int, int, bool]]

    def load_init(self) -> Callable[[int, int], Any]:
        """The function the user wants called in each worker, if there is one."""
        function: Callable[[int, int], Any] = self._load(self.init or [])
        return function

    def load_job(self) -> Any:
        """The job that was given to the pool."""
        return self._load(self.job)

    def _load(self, table: list[tuple[int, int, bool]]) -> Any:
        pieces = [self.memory[start : start + size] for start, size, _ in table]
        buffers = [
            piece.toreadonly() if readonly else piece
            for piece, (_, _, readonly) in zip(pieces, table, strict=True)
        ]
        return array_pickling.loads(buffers[0], buffers[1:])


def write(job: Pickled, init: Pickled | None) -> tuple[int, int]:
    """Writes the file. Returns its descriptor and the length of the part that `read` starts with.

    That part is what a process needs before it can import anything: it starts with `sys.path`.
    """
    pieces: list[tuple[int, memoryview]] = []
    size = 0

    def add(pickled: Pickled) -> list[tuple[int, int, bool]]:
        nonlocal size
        table = []
        for number, piece in enumerate((memoryview(pickled.stream), *pickled.buffers)):
            table.append((size, piece.nbytes, number > 0 and piece.readonly))
            pieces.append((size, piece))
            size += framing.aligned(piece.nbytes)
        return table

    tables = (None if init is None else add(init), add(job))
    path = [entry for entry in sys.path if isinstance(entry, str)]
    argv = list(getattr(sys, "argv", [""]))
    setup = marshal.dumps((path, argv, size, *tables))
    start = framing.aligned(len(setup))
    fd = segments.unnamed_file(start + max(size, 1))
    try:
        _write_at(fd, memoryview(setup), 0)
        for offset, piece in pieces:
            _write_at(fd, piece, start + offset)
    except BaseException:
        os.close(fd)
        raise
    return fd, len(setup)


def read(fd: int, setup_bytes: int) -> Setup:
    """Maps the file and closes the descriptor."""
    _, argv, size, init, job = marshal.loads(os.pread(fd, setup_bytes, 0))
    start = framing.aligned(setup_bytes)
    memory = segments.map_private(fd, start + max(size, 1))
    os.close(fd)
    return Setup(argv, memory[start:], init, job)


def _write_at(fd: int, data: memoryview, offset: int) -> None:
    while data.nbytes:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written
