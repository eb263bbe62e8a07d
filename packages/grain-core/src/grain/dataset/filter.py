"""Filters: the map form replaces elements by None, the iter form leaves them out."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from grain import transforms
from grain._exceptions import add_note
from grain._lazy import LazyModule
from grain._policy import current_policy
from grain.dataset.chunk import Chunk, apply_each
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import DatasetIterator, Transformed
from grain.dataset.map import TransformIterDataset, TransformMapDataset, function_of
from grain.dataset.map_dataset import MapDataset
from grain.dataset.node import ExecutionTrait, computed
from grain.dataset.sparse_reads import SparseReads
from grain.dataset.stages import StageIterator, stage_iterator_name
from grain.index.permutation import IndexArray
from grain.options import DatasetOptions

T = TypeVar("T")
S = TypeVar("S")

# Imported when there is something to log: most programs do not load it otherwise.
_logging: Any = LazyModule("logging")

# When each operation was last warned about: a filter may drop too many elements for days.
_warned: dict[str, float] = {}
_MOST_WARNED = 256


class DropRateMonitor:
    """A monitor that warns or raises when too many of the last elements were dropped.

    Args:
        name: Function that returns the name of the operation. It must hold no iterator: a reference cycle
            would keep a dropped iterator alive.
        options: The shares of dropped elements at which to warn and to raise.
    """

    def __init__(self, name: Callable[[], str], options: DatasetOptions):
        self._name = name
        self._options = options
        self._enabled = bool(options.warn_ratio or options.raise_ratio)
        policy = current_policy()
        self._window = policy.drop_rate_window
        self._warning_seconds = policy.drop_warning_seconds
        self._seen = 0
        self._kept = 0

    def until_judged(self) -> int | None:
        """Return how many elements complete the window; None if there is nothing to judge."""
        return self._window - self._seen if self._enabled else None

    def window_lasts(self, seen: int) -> bool:
        """Return whether `seen` more elements do not complete the window."""
        return not self._enabled or self._seen + seen < self._window

    def watch(
        self, seen: int, kept: Sequence[int] | Callable[[int, int], int] | None
    ) -> tuple[int, ValueError] | None:
        """Count the elements of a chunk and judge each complete window.

        Args:
            seen: Number of elements of the chunk.
            kept: Offsets of the elements that were kept, in order, or a function that counts them between
                two offsets; None if all were.

        Returns:
            The number of elements up to the end of the window that dropped too many, and the error.
        """
        if not self._enabled:
            return None
        begin = 0
        while self._seen + seen - begin >= self._window:
            end = begin + self._window - self._seen
            self._count(begin, end, kept)
            error = self._judge()
            if error is not None:
                return end, error
            begin = end
        self._count(begin, seen, kept)
        return None

    def _count(
        self, begin: int, end: int, kept: Sequence[int] | Callable[[int, int], int] | None
    ) -> None:
        self._seen += end - begin
        if kept is None:
            self._kept += end - begin
        elif callable(kept):
            self._kept += kept(begin, end)
        else:
            self._kept += bisect_left(kept, end) - bisect_left(kept, begin)

    def add(self, seen: int, kept: int) -> None:
        """Count elements of which only the numbers are known; judge the window when it is complete."""
        self._seen += seen
        self._kept += kept
        if self._enabled and self._seen >= self._window:
            error = self._judge()
            if error is not None:
                raise error

    def _judge(self) -> ValueError | None:
        options = self._options
        seen, dropped = self._seen, (self._seen - self._kept) / self._seen
        self._seen = self._kept = 0
        if options.raise_ratio and dropped >= options.raise_ratio:
            return ValueError(self._message(dropped, seen, "filter_raise_threshold_ratio"))
        if options.warn_ratio and dropped >= options.warn_ratio:
            self._warn(dropped, seen)
        return None

    def _warn(self, dropped: float, seen: int) -> None:
        name, now = self._name(), time.monotonic()
        if now - _warned.get(name, -math.inf) >= self._warning_seconds:
            if len(_warned) >= _MOST_WARNED:
                _warned.clear()
            _warned[name] = now
            message = self._message(dropped, seen, "filter_warn_threshold_ratio")
            _logging.getLogger("grain").warning(message)

    def _message(self, dropped: float, seen: int, option: str) -> str:
        return (
            f"Transformation {self._name()} skipped {100 * dropped:.2f} % of the last seen {seen} "
            "elements. Please check the filtering logic. If this is intended, consider pre-filtering "
            "the input dataset before training. To disable this check, set "
            f"`grain.experimental.DatasetOptions.{option}` used in `WithOptionsIterDataset` to `None`."
        )


def _decide(
    function: Callable[[Any], Any], elements: list[Any], select: Callable[[list[Any]], S]
) -> tuple[S, Exception | None]:
    """Return what `select` makes of the answers for elements, and the error of the first that failed.

    There are no answers for the element that failed and those after it.
    """
    answers: list[Any] = []
    error = apply_each(function, elements, answers)
    try:
        return select(answers), error
    except Exception:
        # An answer is neither true nor false: find it, and keep those before it.
        flags: list[bool] = []
        undecided = apply_each(bool, answers, flags)
        return select(flags), error if undecided is None else undecided


class FilterMapDataset(TransformMapDataset[T]):
    """The elements for which the function is true, and None instead of the others."""

    fingerprint_name = "filter"
    preserves_elements = True

    def __init__(self, parent: MapDataset[T], transform: transforms.Filter | Callable[[T], bool]):
        function = function_of(transform, transforms.Filter, "filter", "filter")
        super().__init__(parent, transform, function)

    def _apply(self, indices: IndexArray, elements: list[Any], out: list[Any]) -> Exception | None:
        kept, error = _decide(self._function, elements, partial(self._keep, elements))
        out += kept
        return error

    def _keep(self, elements: list[Any], answers: list[Any]) -> list[Any]:
        """Return the elements whose answer is true, and None instead of the others."""
        pairs = zip(elements, answers, strict=False)
        return [element if answer else None for element, answer in pairs]

    @computed
    def is_sparse(self) -> bool:
        return True

    @computed
    def is_surely_sparse(self) -> bool:
        return True


class FilterIterDataset(TransformIterDataset[T]):
    """The elements for which the function is true; the function also decides about None."""

    fingerprint_name = "filter"
    preserves_elements = True

    def __init__(self, parent: IterDataset[T], transform: transforms.Filter | Callable[[T], bool]):
        function = function_of(transform, transforms.Filter, "filter", "filter")
        super().__init__(parent, transform, function)

    drops_elements = True
    execution_trait = ExecutionTrait.ELEMENTWISE

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return FilterDatasetIterator(parents[0], self)

    def accepts_state(self, state: Any) -> bool:
        accepted: bool = self._parent.accepts_state(state)
        return accepted

    def apply_chunk(self, elements: list[Any], first: int) -> Transformed:
        del first

        def select(answers: list[Any]) -> tuple[list[int], int]:
            return [offset for offset, answer in enumerate(answers) if answer], len(answers)

        (offsets, decided), error = _decide(self._function, elements, select)
        if error is not None:
            add_note(error, f"raised in {self}, over {self.describe_sources()}.")
        return Transformed([elements[offset] for offset in offsets], offsets, decided, error)

    def known_length(self) -> int | None:
        return None


class FilterDatasetIterator(StageIterator[T]):
    """An iterator that filters chunk by chunk, and watches how many elements are dropped."""

    def __init__(self, parent: DatasetIterator[T], dataset: FilterIterDataset[T]):
        super().__init__(parent, dataset)
        self._watch = DropRateMonitor(lambda: stage_iterator_name(dataset), self._context.options)
        self._reads = SparseReads()

    def _pull(self, limit: int) -> Chunk:
        kept = self._reads.take(limit)
        if kept.elements:
            return kept
        chunk = super()._pull(limit)
        # An error comes after all elements before it.
        return chunk if self._error is not None else self._reads.put(chunk, limit)

    def _next_input(self, limit: int) -> Chunk:
        return super()._next_input(self._reads.start(limit))

    def _live_state(self) -> Any:
        delivered = self._reads.state_function()
        return super()._live_state() if delivered is None else delivered()

    def _live_state_function(self) -> Callable[[], Any]:
        delivered = self._reads.state_function()
        return super()._live_state_function() if delivered is None else delivered

    def _restore(self, state: Any) -> None:
        self._reads.reset()
        super()._restore(state)

    def _transform(self, elements: list[Any]) -> Transformed:
        result = super()._transform(elements)
        self._reads.end()
        offsets = result.offsets or []
        excess = self._watch.watch(result.processed, offsets)
        if excess is None:
            return result
        # The elements of this window are returned first, and the stream resumes after it.
        end, error = excess
        offsets = offsets[: bisect_left(offsets, end)]
        return Transformed(result.elements[: len(offsets)], offsets, end - 1, error)
