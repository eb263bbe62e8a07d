"""What a program of the wide table is, and how programs are collected."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import grain

MapDataset = grain.MapDataset
IN_ORDER = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


class Kind(enum.Enum):
    """What `Program.make` returns."""

    STREAM = "stream"
    """An iterable, whose outputs are counted; it is iterated again at its end."""
    CALLS = "calls"
    """A function, whose calls are counted."""
    PEAK = "peak"
    """A function that is called once, in a new process: its peak of memory is measured."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """One program.

    Attributes:
        name: Its name on the command line and in the table.
        group: Its heading in the table.
        make: Prepares the program.
        kind: What `make` returns.
        per: Number of elements of one output or call.
        unit: Of the measured value.
        waits: Whether it waits, or uses threads or processes: it is measured by the clock, others by the
            processor time of the process.
        limit: Prepares the same work without a library, in Python and numpy: an iterable or a function, like
            `make`.
    """

    name: str
    group: str
    make: Callable[[], Any]
    kind: Kind
    per: float = 1
    unit: str = "elements/s"
    waits: bool = False
    limit: Callable[[], Any] | None = None


class Collection:
    """Programs of one group; the functions that make them are decorated with its methods."""

    def __init__(self, group: str, *, waits: bool = False) -> None:
        self._group = group
        self._waits = waits
        self.programs: list[Program] = []

    def stream(self, name: str, **fields: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        """Add a program that returns an iterable."""
        return self._add(name, Kind.STREAM, fields)

    def calls(self, name: str, **fields: Any) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        """Add a program that returns a function."""
        return self._add(name, Kind.CALLS, {"unit": "calls/s"} | fields)

    def peak(self, name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        """Add a program whose peak of memory is measured."""
        return self._add(name, Kind.PEAK, {"unit": "MiB"})

    def _add(
        self, name: str, kind: Kind, fields: dict[str, Any]
    ) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        def add(make: Callable[[], Any]) -> Callable[[], Any]:
            found = {"waits": self._waits} | fields
            self.programs.append(
                Program(name=name, group=self._group, make=make, kind=kind, **found)
            )
            return make

        return add


def in_order(dataset: Any) -> Any:
    """Return a map dataset as a stream that is read by the consumer's thread."""
    return dataset.to_iter_dataset(IN_ORDER)
