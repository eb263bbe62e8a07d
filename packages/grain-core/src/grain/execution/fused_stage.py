"""Chains: a map dataset and the operations right above it that are functions of its blocks.

A worker that knows a chain computes any block of it by itself. What it gives back says for each element
where in the map dataset it ends, which is all that a state needs.
"""

from __future__ import annotations

import bisect
import dataclasses
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from grain.dataset.base import MapDataset
from grain.dataset.batch import BatchIterDataset
from grain.dataset.chunk import EndOfDataError, PartialRead
from grain.dataset.map import has_none
from grain.dataset.stages import StageIterDataset, with_counts
from grain.dataset.to_iter import PrefetchIterDataset
from grain.execution.threads import SplitReader
from grain.index.permutation import IndexArray
from grain.options import ReadOptions

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # Only Linux counts by thread.
    getrusage = None  # type: ignore[assignment]

# Reading in threads pays where this share of the time is spent waiting.
_WAITING_SHARE = 0.5
# And where an element is waited for at least this long; so many of them in a row are no accident.
_SLOW_ELEMENT = 0.0002
_ENOUGH_EVIDENCE = 3


class Block(NamedTuple):
    """A stretch of the map dataset to be computed.

    Attributes:
      start: its first index.
      size: how many indices it has.
      firsts: for each operation of the chain, how many elements came before at that place.
      last: whether the map dataset ends with it.
    """

    start: int
    size: int
    firsts: tuple[int, ...]
    last: bool


@dataclasses.dataclass
class BlockResult:
    """What became of a block.

    Attributes:
      elements: the elements, those before an error if there is one.
      ends: for each element, the index in the map dataset right after what it was made of.
      counts: for each operation, how many elements it has dealt with before `next_index`.
      seconds: how long it took.
      waited: whether reading was mostly waiting for something else than the processor.
      error: what stopped it.
      next_index: where the map dataset is to be read on.
      failed: the place of the operation that failed, if one did.
      passages: for each place between two operations, the indices in the map dataset right after the
        elements that came by; the first place is below the lowest operation. Only where some may have
        been dropped.
      sparse: whether elements were missing where the chain counts on all of them; nothing else is
        told then.
      ended: whether the map dataset turned out to end in this block.
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
    """A boundary between map and iter dataset, and operations above it, lowest first."""

    def __init__(self, boundary: PrefetchIterDataset[Any], stages: Sequence[StageIterDataset[Any]]):
        self.boundary = boundary
        self.stages = tuple(stages)
        self.aligned = any(stage.counts_elements for stage in self.stages)
        self.group = 1
        for stage in self.stages:
            self.group *= stage.group_size
        self._reader = _BlockReader(boundary.parents[0], boundary.read_options)

    def __getstate__(self) -> dict[str, Any]:
        return {"boundary": self.boundary, "stages": self.stages}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["boundary"], state["stages"])  # type: ignore[misc]

    def __str__(self) -> str:
        return str(self.stages[-1] if self.stages else self.boundary)

    def counts_after(self, passed: int, firsts: Sequence[int]) -> list[int]:
        """For each operation, how many elements it has dealt with after `passed` of the map dataset.

        Args:
          passed: how many elements of the map dataset, up to its end or to where a batch is full.
          firsts: how many each operation had dealt with before.
        """
        counts = []
        for stage, first in zip(self.stages, firsts, strict=True):
            counts.append(first + passed)
            if isinstance(stage, BatchIterDataset):
                whole, rest = divmod(passed, stage.group_size)
                passed = whole + (1 if rest and not stage.drop_remainder else 0)
        return counts

    def state_at(self, index: int, counts: Sequence[int]) -> Any:
        """The state where the map dataset stands at `index`."""
        return with_counts(self.stages, counts, {"next_index": index})

    def compute(self, block: Block) -> BlockResult:
        """Computes a block; errors come back as data, so that what came before them is not lost."""
        started = time.perf_counter()
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
            if self.aligned:
                return BlockResult([], (), (), 0.0, sparse=True)
            places = [place for place, element in enumerate(elements) if element is not None]
            elements, ends = [elements[p] for p in places], [ends[p] for p in places]
        # For each operation where its elements end, and how many of them it dealt with.
        passed: list[tuple[Sequence[int], int]] = []
        failed = -1
        for number, (stage, first) in enumerate(zip(self.stages, block.firsts, strict=True)):
            short = 0
            if isinstance(stage, BatchIterDataset):
                short = len(elements) % stage.group_size
                if short and (not whole or stage.drop_remainder):
                    elements, short = elements[: len(elements) - short], 0
            result = stage.apply_chunk(list(elements), first)
            passed.append((ends, result.processed))
            if result.error is not None:
                # The element that failed is gone; reading goes on behind it.
                error, failed, whole = result.error, number, False
                next_index = ends[result.processed]
            if result.offsets is not None:
                ends = [ends[place] for place in result.offsets]
            elements = result.elements
            if short and whole:
                # A short batch is known to be the last one only at the end.
                ends = [*ends[:-1], next_index]
            if len(ends) > len(elements):
                ends = ends[: len(elements)]
        passages = () if self.aligned else (*(inputs for inputs, _ in passed), ends)
        return BlockResult(
            elements=list(elements),
            ends=ends,
            counts=tuple(
                # Those below the one that failed will see again what lies behind it.
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


class _BlockReader(SplitReader):
    """Reads blocks of a map dataset, in threads once reading is seen to be mostly waiting.

    Elements that keep the processor busy are left to one thread: others would be in its way, and the
    other workers are there for that.
    """

    def __init__(self, dataset: MapDataset[Any], options: ReadOptions):
        super().__init__(dataset, options)
        self.waits = False
        self._evidence = 0

    def read(self, indices: IndexArray) -> list[Any]:
        if self.waits and self._max_threads > 1 and indices.size > 1:
            return self._read_split(indices)
        started, busy, pauses = time.perf_counter(), time.thread_time(), _pauses()
        elements: list[Any] = self._dataset.read_many(indices)
        seconds = time.perf_counter() - started
        waiting = seconds - (time.thread_time() - busy)
        # Who was merely kept from the processor has not let go of it.
        paused = getrusage is None or _pauses() - pauses >= len(elements)
        if paused and waiting > max(_WAITING_SHARE * seconds, _SLOW_ELEMENT * len(elements)):
            self._evidence += len(elements)
        else:
            self._evidence = 0
        self.waits = self._evidence >= _ENOUGH_EVIDENCE
        return elements


def _pauses() -> int:
    """How often this thread has let go of the processor to wait for something."""
    return 0 if getrusage is None else getrusage(RUSAGE_THREAD).ru_nvcsw
