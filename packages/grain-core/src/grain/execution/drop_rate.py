"""Watching over what a chain drops, at exactly the elements at which it is watched without workers."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Sequence

from grain.dataset.filter import DropRateMonitor
from grain.execution.fused_stage import Block, BlockResult, FusedStage
from grain.options import DatasetOptions


@dataclasses.dataclass(frozen=True)
class Excess:
    """Too many elements were dropped.

    Attributes:
      index: where the map dataset stood when that was seen.
      errors: one for each operation of which it was seen there, in the order in which they come.
    """

    index: int
    errors: list[Exception]


class FusedDropMonitor:
    """One watch for each part of a chain that drops elements: the boundary, and filters.

    A chain that counts has none: it relies on all elements being there.
    """

    def __init__(self, chain: FusedStage, options: DatasetOptions):
        self._watches: dict[int, DropRateMonitor] = {}
        if chain.aligned:
            return
        if not chain.boundary.allow_nones:
            self._watches[0] = DropRateMonitor(chain.boundary.iterator_name, options)
        for place, stage in enumerate(chain.stages, start=1):
            if stage.drops_elements:
                name = "FilterDatasetIterator" + str(stage).removeprefix(type(stage).__name__)
                self._watches[place] = DropRateMonitor(name, options)

    def judge(self, block: Block, computed: BlockResult) -> Excess | None:
        """Counts what became of a block, up to where too much of it was dropped."""
        inputs = {place: self._inputs(place, block, computed) for place in self._watches}
        windows_last = [
            watch.window_lasts(len(inputs[place])) for place, watch in self._watches.items()
        ]
        if all(windows_last):
            for place, watch in self._watches.items():
                kept = bisect_right(computed.passages[place], computed.next_index)
                watch.add(len(inputs[place]), kept)
            return None
        return self._judge_windows(inputs, computed)

    @staticmethod
    def _inputs(place: int, block: Block, computed: BlockResult) -> Sequence[int]:
        """For each element that a part dealt with, the index in the map dataset right after it."""
        if place == 0:
            return range(block.start + 1, computed.next_index + 1)
        return computed.passages[place - 1][: computed.counts[place - 1]]

    def _judge_windows(
        self, inputs: dict[int, Sequence[int]], computed: BlockResult
    ) -> Excess | None:
        """Looks at windows in the order in which they end; of those that end together, the top first."""
        counted = dict.fromkeys(self._watches, 0)
        errors: list[Exception] = []
        stop = computed.next_index

        def count(place: int, end: int) -> None:
            begin, counted[place] = counted[place], end
            if begin < end:
                ends, kept = inputs[place], computed.passages[place]
                before = bisect_right(kept, ends[begin - 1]) if begin else 0
                try:
                    self._watches[place].add(
                        end - begin, bisect_right(kept, ends[end - 1]) - before
                    )
                except ValueError as error:
                    errors.append(error.with_traceback(None))

        while True:
            ending: list[tuple[int, int, int]] = []
            for place, watch in self._watches.items():
                remaining = watch.until_judged()
                if remaining is None:
                    continue
                end = counted[place] + remaining
                if end <= len(inputs[place]) and inputs[place][end - 1] <= stop:
                    ending.append((inputs[place][end - 1], -place, end))
            if not ending:
                break
            index, place, end = min(ending)
            count(-place, end)
            if errors:
                stop = index
        for place in self._watches:
            count(place, bisect_right(inputs[place], stop))
        return Excess(stop, errors) if errors else None
