"""The recorder `_stats` of classes that users write, in observed pipelines.

The `__next__` and `__getitem__` of such a class are measured without it. `record_self_time` adds the work
that they do not contain, such as that of a thread of their own: its time is the node's, in that thread. Work
that is measured already is not counted twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

from grain.dataset.stats import Stats
from grain.observe.recording import NodeCounters, Recorders


class _Probed(Protocol):
    @property
    def recorders(self) -> Recorders:
        """The recorders of the pipeline in this process."""

    @property
    def node(self) -> int:
        """The number of the node."""


class ObservedStats(Stats):
    """The recorder of one node of an observed pipeline.

    Args:
        probe: The recorders of the pipeline, and the number of the node.
    """

    def __init__(self, probe: _Probed):
        self._probe = probe

    @contextlib.contextmanager
    def record_self_time(self, *, num_elements: int = 1, offset_ns: float = 0) -> Iterator[None]:
        """Record the time of a `with` block as work of the node.

        Args:
            num_elements: Accepted for compatibility: elements are counted where they are returned.
            offset_ns: Nanoseconds of work before the block.
        """
        del num_elements
        recorder = self._probe.recorders.current()
        node = self._probe.node
        frame = recorder.open(node)
        try:
            yield
        finally:
            recorder.close(frame)
            if offset_ns:
                counters = recorder.counters.setdefault(node, NodeCounters())
                counters.working += int(offset_ns)


class StatsMember:
    """The member `_stats` of classes of observed nodes and iterators; an attribute takes precedence."""

    def __get__(self, owner: Any, kind: type | None = None) -> Stats:
        if owner is None or (probe := getattr(owner, "_grain_probe", None)) is None:
            return Stats()
        return ObservedStats(probe)
