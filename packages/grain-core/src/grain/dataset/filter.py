"""Filters: the map form leaves None behind, the iter form closes the gap."""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from grain import transforms
from grain._exceptions import add_note
from grain.dataset.chunk import apply_each
from grain.dataset.element_spec import get_element_spec
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import DatasetIterator, Transformed
from grain.dataset.map import TransformIterDataset, TransformMapDataset, function_of
from grain.dataset.map_dataset import MapDataset
from grain.dataset.node import ExecutionTrait, computed
from grain.dataset.stages import StageIterator
from grain.index.permutation import IndexArray
from grain.options import DatasetOptions

T = TypeVar("T")

_WINDOW = 1000


class DropRateMonitor:
    """Warns or raises when too many of the last elements were dropped."""

    def __init__(self, operation: Any, options: DatasetOptions):
        self._operation = operation
        self._options = options
        self._enabled = bool(options.warn_ratio or options.raise_ratio)
        self._seen = 0
        self._kept = 0

    def window_lasts(self, seen: int) -> bool:
        """Whether so many more elements leave nothing to be looked at yet."""
        return not self._enabled or self._seen + seen < _WINDOW

    def watch(self, seen: int, kept: Sequence[int] | None) -> tuple[int, ValueError] | None:
        """Counts the elements of a stretch and looks at each window of a thousand.

        Args:
          seen: how many elements there were.
          kept: the places of those that were kept, in order; None where all of them were.

        Returns:
          How many elements of the stretch were seen when too many were dropped, and the error.
        """
        if not self._enabled:
            return None
        begin = 0
        while self._seen + seen - begin >= _WINDOW:
            end = begin + _WINDOW - self._seen
            self._count(begin, end, kept)
            error = self._judge()
            if error is not None:
                return end, error
            begin = end
        self._count(begin, seen, kept)
        return None

    def _count(self, begin: int, end: int, kept: Sequence[int] | None) -> None:
        self._seen += end - begin
        inside = end - begin if kept is None else bisect_left(kept, end) - bisect_left(kept, begin)
        self._kept += inside

    def add(self, seen: int, kept: int) -> None:
        """Counts elements of which only the numbers are known; looks when there are a thousand."""
        self._seen += seen
        self._kept += kept
        if self._enabled and self._seen >= _WINDOW:
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
            message = self._message(dropped, seen, "filter_warn_threshold_ratio")
            warnings.warn(message, stacklevel=2)
        return None

    def _message(self, dropped: float, seen: int, option: str) -> str:
        return (
            f"Transformation {self._operation} skipped {dropped:.2%} of the last seen {seen} "
            "elements. Please check the filtering logic. If this is intended, consider pre-filtering "
            "the input dataset before training. To disable this check, set "
            f"`grain.experimental.DatasetOptions.{option}` used in `WithOptionsIterDataset` to `None`."
        )


def _decide(
    function: Callable[[Any], Any], elements: list[Any]
) -> tuple[list[bool], Exception | None]:
    """Whether to keep each element, up to the first for which that cannot be told."""
    answers: list[Any] = []
    error = apply_each(function, elements, answers)
    flags: list[bool] = []
    undecided = apply_each(bool, answers, flags)
    return flags, error if undecided is None else undecided


class FilterMapDataset(TransformMapDataset[T]):
    """None in the place of every element for which the function is false."""

    fingerprint_name = "filter"

    def __init__(self, parent: MapDataset[T], transform: transforms.Filter | Callable[[T], bool]):
        function = function_of(transform, transforms.Filter, "filter", "filter")
        super().__init__(parent, transform, function)

    def _apply(self, indices: IndexArray, elements: list[Any], out: list[Any]) -> Exception | None:
        flags, error = _decide(self._function, elements)
        pairs = zip(elements, flags, strict=False)
        out += [element if flag else None for element, flag in pairs]
        return error

    @computed
    def is_sparse(self) -> bool:
        return True

    @computed
    def is_surely_sparse(self) -> bool:
        return True

    def infer_element_spec(self) -> Any:
        return get_element_spec(self._parent)


class FilterIterDataset(TransformIterDataset[T]):
    """The elements for which the function is true; and None, unless a subclass wants it otherwise."""

    fingerprint_name = "filter"

    _skips_none = True

    def __init__(self, parent: IterDataset[T], transform: transforms.Filter | Callable[[T], bool]):
        function = function_of(transform, transforms.Filter, "filter", "filter")
        super().__init__(parent, transform, function)

    drops_elements = True
    execution_trait = ExecutionTrait.ELEMENTWISE

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return FilterDatasetIterator(parents[0], self)

    def apply_chunk(self, elements: list[Any], first: int) -> Transformed:
        del first
        function = self._function
        if self._skips_none:
            flags, error = _decide(lambda x: x is None or function(x), elements)
        else:
            flags, error = _decide(function, elements)
        places = [place for place, flag in enumerate(flags) if flag]
        if error is not None:
            add_note(error, f"raised in {self}, over {self.describe_sources()}.")
        return Transformed([elements[place] for place in places], places, len(flags), error)

    def known_length(self) -> int | None:
        return None

    def infer_element_spec(self) -> Any:
        return get_element_spec(self._parent)


class FilterDatasetIterator(StageIterator[T]):
    """Filters chunk by chunk."""

    def __init__(self, parent: DatasetIterator[T], dataset: FilterIterDataset[T]):
        super().__init__(parent, dataset)
        # Its name, not itself: an iterator that is dropped goes at once, with all it holds.
        self._watch = DropRateMonitor(str(self), self._context.options)

    def _transform(self, elements: list[Any]) -> Transformed:
        result = super()._transform(elements)
        places = result.offsets or []
        excess = self._watch.watch(result.processed, places)
        if excess is None:
            return result
        # The elements of this window are given first, and the stream goes on behind it.
        end, error = excess
        places = places[: bisect_left(places, end)]
        return Transformed(result.elements[: len(places)], places, end - 1, error)
