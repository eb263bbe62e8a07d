"""Drop rate monitoring of a fused stage, at exactly the elements at which it happens without workers."""

from __future__ import annotations

import dataclasses
import functools
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from grain.dataset.filter import DropRateMonitor
from grain.dataset.stages import StageIterDataset
from grain.execution.fused_stage import BlockResult, BlockTask, FusedStage
from grain.options import DatasetOptions


@dataclasses.dataclass(frozen=True)
class DropExcess:
    """Too many elements were dropped.

    Attributes:
        index: Index in the map dataset at which that was found.
        errors: One error for each operation for which it was found there, in the order to raise them.
    """

    index: int
    errors: list[Exception]


class FusedDropMonitor:
    """One monitor for each operation of a fused stage that drops elements: the boundary, and filters.

    Operations are numbered: 0 is the boundary, the stages follow. A fused stage that counts elements has
    no monitor: it relies on none being dropped.
    """

    def __init__(self, stage: FusedStage, options: DatasetOptions):
        self._monitors: dict[int, DropRateMonitor] = {}
        if stage.counts_elements:
            return
        if not stage.boundary.allow_nones:
            self._monitors[0] = DropRateMonitor(lambda: stage.boundary.iterator_name, options)
        for number, part in enumerate(stage.stages, start=1):
            if part.drops_elements:
                name = functools.partial(_filter_name, part)
                self._monitors[number] = DropRateMonitor(name, options)

    def observe(self, block: BlockTask, result: BlockResult) -> DropExcess | None:
        """Count the elements of a block, up to where too many were dropped."""
        inputs = {number: self._inputs(number, block, result) for number in self._monitors}
        if all(monitor.window_lasts(len(inputs[n])) for n, monitor in self._monitors.items()):
            for number, monitor in self._monitors.items():
                kept = bisect_right(result.passages[number], result.next_index)
                monitor.add(len(inputs[number]), kept)
            return None
        return self._observe_windows(inputs, result)

    @staticmethod
    def _inputs(number: int, block: BlockTask, result: BlockResult) -> Sequence[int]:
        """Return, for each element that an operation processed, the index in the map dataset after it."""
        if number == 0:
            return range(block.start + 1, result.next_index + 1)
        return result.passages[number - 1][: result.counts[number - 1]]

    def _observe_windows(
        self, inputs: dict[int, Sequence[int]], result: BlockResult
    ) -> DropExcess | None:
        """Check windows in the order in which they end; of those that end together, the top one first."""
        counted = dict.fromkeys(self._monitors, 0)
        errors: list[Exception] = []
        stop = result.next_index

        def count(number: int, end: int) -> None:
            begin, counted[number] = counted[number], end
            if begin < end:
                ends, kept = inputs[number], result.passages[number]
                before = bisect_right(kept, ends[begin - 1]) if begin else 0
                try:
                    self._monitors[number].add(
                        end - begin, bisect_right(kept, ends[end - 1]) - before
                    )
                except ValueError as error:
                    errors.append(error.with_traceback(None))

        while True:
            ending: list[tuple[int, int, int]] = []
            for number, monitor in self._monitors.items():
                remaining = monitor.until_judged()
                if remaining is None:
                    continue
                end = counted[number] + remaining
                if end <= len(inputs[number]) and inputs[number][end - 1] <= stop:
                    ending.append((inputs[number][end - 1], -number, end))
            if not ending:
                break
            index, number, end = min(ending)
            count(-number, end)
            if errors:
                stop = index
        for number in self._monitors:
            count(number, bisect_right(inputs[number], stop))
        return DropExcess(stop, errors) if errors else None


def _filter_name(part: StageIterDataset[Any]) -> str:
    """Return the name that the iterator of a filter has in messages."""
    return "FilterDatasetIterator" + str(part).removeprefix(type(part).__name__)
