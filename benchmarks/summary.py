"""Medians, ranges and ratios of results."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from benchmarks import cases, peers
from benchmarks.results import Outcome, Results


@dataclasses.dataclass(frozen=True)
class Spread:
    """The median and the range of values."""

    median: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """This project against one peer in one case; a ratio above 1 means that this project is better."""

    case: str
    peer: str
    ratio: Spread
    repetitions: int

    @property
    def lost(self) -> bool:
        """Whether the peer is better, in the median."""
        return self.ratio.median < 1

    @property
    def clear(self) -> bool:
        """Whether all repetitions agree on which is better."""
        return self.ratio.high < 1 or self.ratio.low > 1


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of at least one value."""
    return Spread(statistics.median(values), min(values), max(values))


def ratio(case: str, ours: Outcome, theirs: Outcome) -> Spread | None:
    """Return how many times better this project is, by repetition, or None without values.

    Each of our repetitions is compared with the peer's that was measured right after it, since other load
    most likely affected both.
    """
    pairs = list(zip(ours.values, theirs.values, strict=False))
    if not pairs:
        return None
    if cases.BY_NAME[case].more_is_better:
        return spread([mine / other for mine, other in pairs])
    return spread([other / mine for mine, other in pairs])


def compare(results: Results) -> list[Comparison]:
    """Return all comparisons."""
    made = []
    for case in results.cases():
        ours = results.find(case, peers.OURS)
        if ours is None:
            continue
        for peer in results.peers():
            theirs = results.find(case, peer)
            if peer == peers.OURS or theirs is None:
                continue
            found = ratio(case, ours, theirs)
            if found is not None:
                repetitions = min(len(ours.values), len(theirs.values))
                made.append(Comparison(case=case, peer=peer, ratio=found, repetitions=repetitions))
    return made
