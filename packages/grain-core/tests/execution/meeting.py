"""Workers that wait for each other, so that work is spread whatever the speed of the machine."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from .pipelines import heavy

_PATIENCE = 60  # seconds; only a bound for what would otherwise hang


class Meeting:
    """A slow function whose workers wait for each other until `count` of them have been asked.

    In this process it does not wait.
    """

    def __init__(self, directory: Path, count: int = 2):
        self.directory, self.count, self.host = str(directory), count, os.getpid()

    def __call__(self, x: Any) -> int:
        heavy(x)
        pid = os.getpid()
        if pid == self.host:
            return pid
        open(os.path.join(self.directory, str(pid)), "w").close()
        deadline = time.monotonic() + _PATIENCE
        while len(os.listdir(self.directory)) < self.count and time.monotonic() < deadline:
            time.sleep(0.001)
        return pid


def new_meeting(tmp_path: Path, name: str, count: int = 2) -> Meeting:
    """A meeting of `count` workers."""
    (tmp_path / name).mkdir()
    return Meeting(tmp_path / name, count)


def assert_spread(pids: list[int], count: int) -> None:
    """Assert that all workers took part, and this process did not."""
    assert os.getpid() not in pids
    assert len(set(pids)) == count
