"""Medians, ranges and ratios of what was measured."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from benchmarks import cases, peers
from benchmarks.results import Outcome, Results


@dataclasses.dataclass(frozen=True)
class Spread:
    """The median of some values and the range they lie in."""

    median: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """This project against one peer in one case, so many times: above 1, this project is better."""

    case: str
    peer: str
    ratio: Spread
    turns: int

    @property
    def lost(self) -> bool:
        """Whether the peer did better, in the median."""
        return self.ratio.median < 1

    @property
    def clear(self) -> bool:
        """Whether all repetitions agree on who did better."""
        return self.ratio.high < 1 or self.ratio.low > 1


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    return Spread(statistics.median(values), min(values), max(values))


def ratio(case: str, ours: Outcome, theirs: Outcome) -> Spread | None:
    """How many times better this project is, repetition by repetition; None if that cannot be said.

    Each repetition of ours is compared with the peer's that was measured right after it: what disturbed
    one most likely disturbed the other.
    """
    pairs = list(zip(ours.values, theirs.values, strict=False))
    if not pairs:
        return None
    if cases.BY_NAME[case].more_is_better:
        return spread([mine / other for mine, other in pairs])
    return spread([other / mine for mine, other in pairs])


def compare(results: Results) -> list[Comparison]:
    """All comparisons that can be made."""
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
                turns = min(len(ours.values), len(theirs.values))
                made.append(Comparison(case=case, peer=peer, ratio=found, turns=turns))
    return made
