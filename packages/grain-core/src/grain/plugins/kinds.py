"""The kinds of things that plugins provide."""

from __future__ import annotations

import enum


class Kind(enum.StrEnum):
    """What sort of thing a spec describes, which decides where its public names appear."""

    MAP_SOURCE = "map-source"
    """Random access: `len(source)` and `source[index]`. Found in `grain.sources`."""

    ITER_SOURCE = "iter-source"
    """An `IterDataset` that reads in its own order and resumes. Found in `grain.sources`."""

    TRANSFORM = "transform"
    """A transformation of elements. Found in `grain.transforms`."""

    EXECUTOR = "executor"
    """Computes blocks of a pipeline ahead of its consumer. Found by name only."""


SOURCE_KINDS = frozenset({Kind.MAP_SOURCE, Kind.ITER_SOURCE})
"""The kinds `grain_sources()` may return and `grain.sources.open` may choose."""
