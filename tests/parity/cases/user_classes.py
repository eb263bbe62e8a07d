"""Users' own MapDatasets, IterDatasets and DatasetIterators, written as they are in the wild."""

from __future__ import annotations

from typing import Any

import grain

from ..registry import stream, value
from .common import (
    INLINE,
    THREADS,
    Iter,
    Map,
    add_one,
    append_draw,
    index_times_hundred,
    is_third,
    numbers,
)


class _Squares(grain.MapDataset):
    """A source without parents and without `__init__`."""

    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        return (index % 7) ** 2


class _Negative(grain.MapDataset):
    """One parent, given to `super().__init__`, reached through `self._parent`."""

    def __init__(self, parent: grain.MapDataset):
        super().__init__(parent)

    def __len__(self) -> int:
        return len(self._parent)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        element = self._parent[index]
        return None if element is None else -element


class _SumOf(grain.MapDataset):
    """Several parents."""

    def __init__(self, parents: list[grain.MapDataset]):
        super().__init__(parents)

    def __len__(self) -> int:
        return min(len(parent) for parent in self.parents)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        return sum(parent[index] for parent in self.parents)


class _CountingIterator(grain.DatasetIterator):
    """An iterator without parents, its state one number."""

    def __init__(self, stop: int):
        super().__init__()
        self._next = 0
        self._stop = stop

    def __next__(self) -> int:
        if self._next >= self._stop:
            raise StopIteration
        self._next += 1
        return self._next - 1

    def get_state(self) -> dict[str, Any]:
        return {"count": self._next}

    def set_state(self, state: dict[str, Any]) -> None:
        self._next = state["count"]


class _Counting(grain.IterDataset):
    def __init__(self, stop: int):
        super().__init__()
        self._stop = stop

    def __iter__(self) -> grain.DatasetIterator:
        return _CountingIterator(self._stop)


class _PairIterator(grain.DatasetIterator):
    """Joins two neighbours; an odd last one is lost."""

    def __next__(self) -> list[Any]:
        return [next(self._parent), next(self._parent)]

    def get_state(self) -> dict[str, Any]:
        return {"inner": self._parent.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._parent.set_state(state["inner"])


class _Pairs(grain.IterDataset):
    def __iter__(self) -> grain.DatasetIterator:
        return _PairIterator(self._parent.__iter__())


@stream(limit=30)
def user_map_dataset_as_source() -> Any:
    return _Squares().shuffle(3).map(add_one).repeat(2).to_iter_dataset(INLINE)


@stream(limit=30)
def user_map_dataset_in_the_middle() -> Any:
    return (
        _Negative(Map.range(9).shuffle(1).filter(is_third))
        .map(add_one)
        .repeat(2)
        .to_iter_dataset(INLINE)
    )


@stream(limit=30)
def user_map_dataset_with_many_parents() -> Any:
    ds = _SumOf([Map.range(6).shuffle(1), Map.range(100, 108).shuffle(2)])
    return ds.batch(4).repeat(2).to_iter_dataset(INLINE)


@stream(limit=30)
def user_map_dataset_sliced() -> Any:
    return _Squares()[1::2].repeat(2).to_iter_dataset(INLINE)


@stream(limit=30)
def user_map_dataset_in_threads() -> Any:
    return _Negative(Map.range(30).shuffle(1)).to_iter_dataset(THREADS)


@stream(limit=30)
def user_map_dataset_passes_the_seed() -> Any:
    ds = _Negative(Map.range(6).seed(3)).map(abs).shuffle().random_map(append_draw)
    return ds.to_iter_dataset(INLINE)


@stream(limit=30)
def user_map_dataset_mixed_and_concatenated() -> Any:
    ds = Map.concatenate([_Squares(), _Negative(Map.range(3))])
    return Map.mix([ds, _Squares()], [2, 1]).to_iter_dataset(INLINE)


@stream(limit=30)
def user_map_dataset_iterated_directly() -> Any:
    return _Squares()


@stream(limit=30)
def user_iter_dataset_as_source() -> Any:
    return _Counting(9).map(add_one).filter(is_third)


@stream(limit=30)
def user_iter_dataset_batched() -> Any:
    return _Counting(9).batch(4)


@stream(limit=30)
def user_iter_dataset_random_and_indexed() -> Any:
    return _Counting(9).seed(1).random_map(append_draw).map_with_index(index_times_hundred)


@stream(limit=30)
def user_iter_dataset_in_the_middle() -> Any:
    return _Pairs(numbers(9)).map(sum).batch(2)


@stream(limit=30)
def user_iter_dataset_mixed() -> Any:
    return Iter.mix([_Counting(9), _Pairs(numbers(100, 120)).map(sum)], [2, 1])


@stream(limit=30)
def user_iter_dataset_over_user_iter_dataset() -> Any:
    return _Pairs(_Pairs(_Counting(13)))


@stream(limit=30, steps=tuple(range(11)))
def user_iter_dataset_filtered_in_a_mix_of_mixes() -> Any:
    inner = Iter.mix([_Counting(9).filter(is_third), numbers(100, 104)])
    return Iter.mix([numbers(20, 30), inner])


@stream(limit=30, steps=tuple(range(9)))
def user_iter_dataset_batched_in_a_mix_of_mixes() -> Any:
    inner = Iter.mix([_Counting(9).map(add_one).batch(2), numbers(100, 104).batch(2)])
    return Iter.mix([numbers(20, 40).batch(2), inner], [1, 2])


@value
def user_map_dataset_parents() -> Any:
    parent = Map.range(3)
    negative = _Negative(parent)
    return [
        negative._parent is parent,
        len(negative.parents),
        len(_Squares().parents),
        len(negative),
    ]


@value
def user_iter_dataset_parents() -> Any:
    parent = numbers(3)
    pairs = _Pairs(parent)
    return [pairs._parent is parent, len(pairs.parents), len(_Counting(1).parents)]
