"""The processes that a benchmark has started, and the memory that they hold."""

from __future__ import annotations

import collections
import os
import pathlib


def descendants() -> list[int]:
    """Return the ids of the processes that this one has started, and of theirs."""
    parents: dict[int, list[int]] = collections.defaultdict(list)
    for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold any characters.
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(fields[1])].append(int(file.parent.name))
    found = []
    pending = [os.getpid()]
    while pending:
        children = parents[pending.pop()]
        found += children
        pending += children
    return found


def proportional_set_size(process: int) -> int:
    """Return the bytes that a process holds, each shared page divided by the number of its holders."""
    for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {process} has no Pss")
