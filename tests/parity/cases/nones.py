"""None as an element: what every iter operation makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np

import grain

from ..registry import error, stream, value
from .common import INLINE, Iter, Map, index_and_element, numbers


def _none_at_ones(x: int) -> int | None:
    return None if x % 3 == 1 else x


def _none_and_draw(x: int, rng: np.random.Generator) -> int | None:
    return None if x % 3 == 1 else x + int(rng.integers(0, 1000))


class _CountingIterator(grain.DatasetIterator):
    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    def __next__(self) -> int | None:
        if self._next == 6:
            raise StopIteration
        self._next += 1
        return _none_at_ones(self._next - 1)

    def get_state(self) -> dict[str, int]:
        return {"next": self._next}

    def set_state(self, state: dict[str, int]) -> None:
        self._next = state["next"]


class _Counting(grain.IterDataset):
    def __iter__(self) -> _CountingIterator:
        return _CountingIterator()


class _Twice(grain.experimental.FlatMapTransform):
    max_fan_out = 2

    def flat_map(self, element: Any) -> list[Any]:
        return [element, element]


SOURCES = {
    "map": lambda: numbers(6).map(_none_at_ones),
    "map_with_index": lambda: numbers(6).map_with_index(lambda i, x: _none_at_ones(i)),
    "random_map": lambda: numbers(6).seed(1).random_map(_none_and_draw),
    "allow_nones": lambda: (
        Map.range(6).map(_none_at_ones).to_iter_dataset(INLINE, allow_nones=True)
    ),
    "to_iter_dataset": lambda: Map.range(6).map(_none_at_ones).to_iter_dataset(INLINE),
    "iterator": _Counting,
}

OPERATIONS = {
    "map": lambda ds: ds.map(lambda x: (x, 1)),
    "map_with_index": lambda ds: ds.map_with_index(index_and_element),
    "random_map": lambda ds: ds.random_map(lambda x, rng: (x, int(rng.integers(0, 99))), seed=1),
    "filter_of_none": lambda ds: ds.filter(lambda x: x is None),
    "filter_of_the_rest": lambda ds: ds.filter(lambda x: x is not None),
    "filter_of_all": lambda ds: ds.filter(lambda x: True),
    "batch_with_function": lambda ds: ds.batch(2, batch_fn=list),
    "flat_map": lambda ds: grain.experimental.FlatMapIterDataset(ds, _Twice()),
    "zip": lambda ds: grain.experimental.ZipIterDataset([ds, numbers(6)], strict=False),
    "limit": lambda ds: grain.experimental.LimitIterDataset(ds, 4),
    "window_shuffle": lambda ds: grain.experimental.WindowShuffleIterDataset(
        ds, window_size=3, seed=1
    ),
    "mix": lambda ds: Iter.mix([ds, numbers(10, 16)]),
    "interleave": lambda ds: grain.experimental.InterleaveIterDataset(
        [ds, numbers(10, 16)], cycle_length=2
    ),
    "repeat": lambda ds: grain.experimental.RepeatIterDataset(ds, 2),
}


@stream(
    limit=30,
    steps=(0, 2),
    over={
        f"{operation}_over_{source}": (operation, source)
        for source in SOURCES
        for operation in OPERATIONS
    },
)
def none_through(operation: str, source: str) -> Any:
    return OPERATIONS[operation](SOURCES[source]())


@value(over={source: (source,) for source in SOURCES})
def none_as_argument_of_a_filter_over(source: str) -> Any:
    seen: list[Any] = []

    def note(element: Any) -> bool:
        seen.append(element)
        return False

    return [list(SOURCES[source]().filter(note)), seen]


@error(over={source: (source,) for source in SOURCES if source != "to_iter_dataset"})
def error_none_in_concat_then_split_over(source: str) -> Any:
    features = SOURCES[source]().filter(lambda x: x is None)
    return list(grain.experimental.ConcatThenSplitIterDataset(features, length_struct={"a": 3}))


@error(type_only=True, over={"first_fit": ("FirstFit",), "best_fit": ("BestFit",)})
def error_none_in_packing(kind: str) -> Any:
    pack = getattr(grain.experimental, f"{kind}PackIterDataset")
    nones = numbers(3).map(lambda x: None)
    return list(pack(nones, length_struct={"a": 4}, num_packing_bins=2))


@error(type_only=True)
def error_none_in_rebatch() -> Any:
    batches = numbers(6).map(lambda x: np.array([x, x]) if x % 3 != 1 else None)
    return list(grain.experimental.RebatchIterDataset(batches, batch_size=3))
