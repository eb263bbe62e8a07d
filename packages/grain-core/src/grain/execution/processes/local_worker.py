"""One worker process as the pool sees it: process, channel, page, and the task it was seen computing."""

from __future__ import annotations

import os
import time

from grain.execution.processes.channel import Channel
from grain.execution.processes.control import STACK_OFFSET, TAKING, WorkerPage
from grain.execution.processes.process_handle import ProcessHandle
from grain.execution.processes.stack_signal import STACK_SIGNAL

_STACK_BYTES = 64 << 10
_STACK_SECONDS = 0.5


class LocalWorker:
    """A running worker.

    Args:
        index: Index of the worker in its pool; a replacement has the same one.
        process: The process.
        channel: The connection to it.
        page: The memory shared with it.
        page_fd: The file of that memory, which this object owns.

    Attributes:
        retiring: Why the worker is about to exit by itself, if it is.
        lost: Whether the worker was found to have exited.
        background: Tasks that the worker computes in the background.
        warned: The task whose long duration was reported.
    """

    def __init__(
        self, index: int, process: ProcessHandle, channel: Channel, page: WorkerPage, page_fd: int
    ) -> None:
        self.index = index
        self.process = process
        self.channel = channel
        self.page = page
        self.started = time.monotonic()
        self.retiring: str | None = None
        self.lost = False
        self.background: set[int] = set()
        self.warned: int | None = None
        self._page_fd = page_fd
        self._seen = 0
        self._seen_since = self.started

    def observe(self, now: float) -> tuple[int, float]:
        """Return the current task (0: none, `TAKING`: unknown) and since when it was seen, in seconds."""
        current = self.page.current[0]
        if current != self._seen or (current == 0 and self.page.loaded):
            self._seen, self._seen_since = current, now
        return current, now - self._seen_since

    def forget(self) -> None:
        """Count the duration of the current task from the next observation."""
        self._seen = -1

    def stack(self) -> str:
        """Return the stacks of the worker's threads, or why they are not known."""
        state = _process_state(self.process.pid)
        if state in ("T", "t"):
            return "The process is stopped (by SIGSTOP, SIGTSTP or a debugger)."
        if STACK_SIGNAL is None or not self.page.loaded:
            return "Its stack is not known."
        before = os.fstat(self._page_fd).st_size
        self.process.send_signal(STACK_SIGNAL)
        deadline = time.monotonic() + _STACK_SECONDS
        size = before
        while time.monotonic() < deadline and not self.process.poll():
            time.sleep(0.01)
            last, size = size, os.fstat(self._page_fd).st_size
            if size > before and size == last:
                break
        start = max(before, STACK_OFFSET)
        text = os.pread(self._page_fd, min(max(size - start, 0), _STACK_BYTES), start)
        if not text:
            return f"It did not report its stack (process state {state})."
        return "Its stack, innermost call first:\n" + text.decode(errors="replace").strip()

    def close(self) -> None:
        """Close descriptors; results that were opened stay valid."""
        if self.lost:
            return
        self.lost = True
        self.channel.close()
        self.process.close()
        os.close(self._page_fd)


def name_of_task(current: int) -> str:
    """Return how a task is called in a message."""
    return "taking a task" if current == TAKING else "computing the same task"


def _process_state(pid: int) -> str:
    """Return the state letter of a process, or "?"."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "?"
