"""Fused stages: a map dataset and the stages directly above it, computed as one task per block.

A worker that holds a fused stage computes any block without further input. Its result carries, for each
element, the index in the map dataset after the last record that the element was made of, which is all
that a state needs. Results are pure functions of the task, so a lost task can be submitted again.

An error ends its block: the result holds the elements before it, the error as data, and where to
continue. The element that failed is skipped where a stage failed, and read again where the map dataset
failed.
"""

from __future__ import annotations

import bisect
import dataclasses
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from grain.dataset.chunk import EndOfDataError, PartialRead
from grain.dataset.map import has_none
from grain.dataset.stages import StageIterDataset, with_counts
from grain.dataset.to_iter import PrefetchIterDataset
from grain.execution.split_reader import SplitReader

# Records that a message names.
_MOST_RECORDS = 8


class BlockTask(NamedTuple):
    """A range of indices of the map dataset to be computed.

    Attributes:
        start: First index.
        size: Number of indices.
        firsts: For each stage, the number of elements before the block in the input of the stage.
        last: Whether the map dataset ends with the block.
    """

    start: int
    size: int
    firsts: tuple[int, ...]
    last: bool


@dataclasses.dataclass
class BlockResult:
    """The elements of a block.

    Attributes:
        elements: The elements, those before an error if there is one.
        ends: For each element, the index in the map dataset after the last record it was made of.
        counts: For each stage, the number of elements it has processed before `next_index`.
        seconds: Seconds that the block took.
        waited: Whether reading mostly waited for I/O.
        error: The error that ended the block.
        next_index: Index in the map dataset at which to continue.
        failed: Number of the stage that failed, or -1.
        passages: For the input of each stage and the output of the last, the indices in the map dataset
            after each element there. Only where elements may have been dropped.
        sparse: Whether elements are missing although a stage counts them; nothing else is set then.
        ended: Whether the map dataset was found to end in this block.
    """

    elements: list[Any]
    ends: Sequence[int]
    counts: tuple[int, ...]
    seconds: float
    waited: bool = False
    error: Exception | None = None
    next_index: int = 0
    failed: int = -1
    passages: Sequence[Sequence[int]] = ()
    sparse: bool = False
    ended: bool = False


class FusedStage:
    """The boundary between map and iter dataset, and stages above it.

    Args:
        boundary: Reads the map dataset in order.
        stages: Stages above the boundary, lowest first.

    Attributes:
        counts_elements: Whether a stage counts elements, and so relies on none being dropped.
        group_size: Elements of the map dataset per element of the result.
    """

    def __init__(self, boundary: PrefetchIterDataset[Any], stages: Sequence[StageIterDataset[Any]]):
        self.boundary = boundary
        self.stages = tuple(stages)
        self.counts_elements = any(stage.counts_elements for stage in self.stages)
        self.group_size = 1
        for stage in self.stages:
            self.group_size *= stage.group_size
        self._reader: SplitReader | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"boundary": self.boundary, "stages": self.stages}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["boundary"], state["stages"])  # type: ignore[misc]

    def __str__(self) -> str:
        return str(self.stages[-1] if self.stages else self.boundary)

    def describe_task(self, start: int, stop: int) -> str:
        """Return the operations that compute indices of the map dataset, and the records they read."""
        indices = f"index {start}" if stop == start + 1 else f"indices {start} to {stop - 1}"
        operations = [str(stage) for stage in reversed(self.stages)]
        level = [(self.boundary.parents[0], index) for index in range(start, stop)]
        records: dict[str, list[int]] = {}
        others = ""
        while level:
            if len(level) > _MOST_RECORDS:
                others = " and others"
            below: dict[tuple[int, int], tuple[Any, int]] = {}
            for node, index in level[:_MOST_RECORDS]:
                if node.parents:
                    operations.append(str(node))
                origins = node.origins(index)
                below |= {(id(parent), number): (parent, number) for parent, number in origins}
                if not origins:
                    records.setdefault(str(node), []).append(index % max(1, len(node)))
            level = list(below.values())
        made = " and ".join(
            f"{'element' if len(found) == 1 else 'elements'} {', '.join(map(str, found))} of {source}"
            for source, found in records.items()
        )
        names = ", ".join(dict.fromkeys(operations)) or str(self)
        return f"{indices}, made of {made}{others} by {names}"

    def counts_after(self, passed: int, firsts: Sequence[int]) -> list[int]:
        """Return, for each stage, how many elements it has processed after `passed` of the map dataset.

        Args:
            passed: Elements of the map dataset, up to its end or to the end of a batch.
            firsts: For each stage, the elements it had processed before.
        """
        counts = []
        for stage, first in zip(self.stages, firsts, strict=True):
            counts.append(first + passed)
            whole, rest = divmod(passed, stage.group_size)
            passed = whole + (1 if rest and not stage.drop_remainder else 0)
        return counts

    def state_at(self, index: int, counts: Sequence[int]) -> Any:
        """Return the state with the map dataset at `index`."""
        return with_counts(self.stages, counts, {"next_index": index})

    def compute(self, block: BlockTask) -> BlockResult:
        """Compute a block; an error is part of the result, so that the elements before it are kept."""
        started = time.perf_counter()
        if self._reader is None:  # Not earlier: only workers read.
            self._reader = SplitReader(self.boundary.parents[0], self.boundary.read_options)
        elements = self._reader.read(
            np.arange(block.start, block.start + block.size, dtype=np.int64)
        )
        error = elements.error if isinstance(elements, PartialRead) else None
        next_index = block.start + len(elements)
        ended = isinstance(error, EndOfDataError)
        if ended:
            error = None
        whole = error is None and (block.last or ended)
        ends: Sequence[int] = range(block.start + 1, next_index + 1)
        if not self.boundary.allow_nones and has_none(elements):
            if self.counts_elements:
                return BlockResult([], (), (), 0.0, sparse=True)
            offsets = [offset for offset, element in enumerate(elements) if element is not None]
            elements, ends = [elements[o] for o in offsets], [ends[o] for o in offsets]
        # For each stage, the ends of its input elements, and how many of them it processed.
        passed: list[tuple[Sequence[int], int]] = []
        failed = -1
        for number, (stage, first) in enumerate(zip(self.stages, block.firsts, strict=True)):
            short = len(elements) % stage.group_size
            if short and (not whole or stage.drop_remainder):
                elements, short = elements[: len(elements) - short], 0
            result = stage.apply_chunk(list(elements), first)
            passed.append((ends, result.processed))
            if result.error is not None:
                # The element that failed is skipped; reading continues after it.
                error, failed, whole = result.error, number, False
                next_index = ends[result.processed]
            if result.offsets is not None:
                ends = [ends[offset] for offset in result.offsets]
            elements = result.elements
            if short and whole:
                # A short batch is known to be the last one only at the end.
                ends = [*ends[:-1], next_index]
            if len(ends) > len(elements):
                ends = ends[: len(elements)]
        passages = () if self.counts_elements else (*(inputs for inputs, _ in passed), ends)
        return BlockResult(
            elements=list(elements),
            ends=ends,
            counts=tuple(
                # Stages below the failed one process the elements after the failure again.
                processed if number >= failed else bisect.bisect_right(inputs, next_index)
                for number, (inputs, processed) in enumerate(passed)
            ),
            seconds=time.perf_counter() - started,
            waited=self._reader.waits,
            error=error,
            next_index=next_index,
            failed=failed,
            passages=passages,
            ended=ended,
        )
