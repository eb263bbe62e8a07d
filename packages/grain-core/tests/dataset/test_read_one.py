"""Single reads: `ds[i]` is the element, or raises the error, that reading many elements gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
import grain.experimental as ge
from grain import transforms
from grain.dataset.map_dataset import MapDataset
from grain.dataset.shuffle import ShuffleMapDataset

M = grain.MapDataset


class Split(transforms.FlatMap):
    max_fan_out = 3

    def flat_map(self, element):
        return (element + piece for piece in range(int(element) % 4))


class Third(transforms.DatasetSelectionMap):
    def __len__(self):
        return 30

    def __getitem__(self, index):
        return index % 3, index // 3


class Batched:
    """A source that is read many records at a time."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return index * 2

    def __getitems__(self, indices):
        return [index * 2 for index in indices]


class Singly(MapDataset):
    """A user's dataset."""

    def __init__(self):
        super().__init__()

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return self.slice(index) if isinstance(index, slice) else index % 20 + 1


class Late(ShuffleMapDataset):
    """A user's operation that reads arrays of indices differently from its base class."""

    def read_many(self, indices):
        return [
            (int(index), element)
            for index, element in zip(indices, super().read_many(indices), strict=True)
        ]


def deep(depth: int) -> Any:
    ds = M.range(5)
    for number in range(depth):
        ds = M.concatenate([ds, M.range(number, number + 2)])
    return ds


def parts(count: int) -> list[Any]:
    return [
        M.range(100 * number, 100 * number + 20 + number).shuffle(number) for number in range(count)
    ]


PIPELINES = {
    "range": lambda: M.range(3, 30, 2),
    "huge range": lambda: M.range(-(2**70), 2**70, 2**64),
    "list": lambda: M.source(list("abcdefg")),
    "array": lambda: M.source(np.arange(12).reshape(6, 2)),
    "batched source": lambda: M.source(Batched()),
    "user's dataset": lambda: Singly().map(lambda x: x + 1),
    "user's operation": lambda: Late(M.range(12), seed=3).map(lambda pair: pair),
    "shuffle": lambda: M.range(50).shuffle(seed=7),
    "long shuffle": lambda: M.range(10**12).shuffle(seed=7),
    "window shuffle": lambda: M.range(50).window_shuffle(8, seed=1),
    "window shuffle across epochs": lambda: ge.WindowShuffleMapDataset(M.range(50), window_size=8, seed=1),
    "slice": lambda: M.range(50).shuffle(seed=1)[5:40:3],
    "picked": lambda: M.range(50).slice([7, 7, -1, 0]),
    "repeat": lambda: M.range(7).shuffle(seed=1).repeat(3),
    "repeat alike": lambda: M.range(7).shuffle(seed=1).repeat(3, reseed_each_epoch=False),
    "seed": lambda: M.range(20).seed(3).shuffle().random_map(lambda x, rng: x + rng.random()),
    "maps": lambda: M.range(20).map(lambda x: x + 1).map_with_index(lambda i, x: (i, x)),
    "filter": lambda: M.range(20).filter(lambda x: x % 3).map(lambda x: -x).filter(lambda x: x < -3),
    "flat map": lambda: M.range(10).filter(lambda x: x != 5).flat_map(Split()),
    "batch": lambda: M.range(10).shuffle(seed=1).batch(3),
    "zip": lambda: M.range(20).zip(M.range(20).shuffle(seed=2), M.range(20).filter(lambda x: x % 2)),
    "zip of many": lambda: ge.ZipMapDataset([M.range(n, n + 20).shuffle(n) for n in range(40)]),
    "concatenate": lambda: M.concatenate([M.range(0), *parts(5), M.range(0)]),
    "nested concatenate": lambda: deep(30),
    "concatenate of many": lambda: M.concatenate(parts(40)).shuffle(seed=5),
    "mix": lambda: M.mix(parts(3), [1, 2, 3.5]),
    "mix of many": lambda: M.mix([part.map(lambda x: -x) for part in parts(40)]).shuffle(seed=5),
    "mix of sources": lambda: M.mix([M.source(list("abcd")).repeat() for _ in range(40)], range(1, 41)),
    "mix of unlike parts": lambda: M.mix([M.range(20), M.source(list("abcd")), deep(2)]).shuffle(seed=1),
    "mix of slices": lambda: M.mix([M.range(90)[n:80:2] for n in range(40)]),
    "changed mix": lambda: M.mix({"a": M.range(90), "b": M.range(90)}).change_at(7, {"b": M.range(90)}),
    "selection": lambda: M.select_from_datasets([M.range(20), M.range(9).shuffle(1), M.range(9)], Third()),
}  # fmt: skip


def same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and np.array_equal(np.asarray(left), np.asarray(right))


@pytest.mark.parametrize("name", PIPELINES)
@given(indices=st.lists(st.integers(-200, 400), min_size=1, max_size=12))
@settings(deadline=None, max_examples=15)
def test_single_reads_and_reads_of_many_agree(name, indices):
    ds = PIPELINES[name]()
    many = ds.__getitems__(indices)
    for index, element in zip(indices, many, strict=True):
        assert same(ds[index], element)
        assert same(ds.read_one(index), element)
        assert same(PIPELINES[name]()[np.int32(index)], element)


@pytest.mark.parametrize("name", PIPELINES)
def test_scattered_reads_agree_with_reads_in_order(name):
    ds = PIPELINES[name]()
    count = min(len(ds), 120)
    order = np.random.default_rng(0).permutation(count).tolist()
    in_order = [ds[index] for index in range(count)]
    for index, element in zip(order, ds.__getitems__(order), strict=True):
        assert same(element, in_order[index])


def fail(element: Any, *_: Any) -> Any:
    raise ValueError(f"no {element}")


def stop(element: Any, *_: Any) -> Any:
    raise StopIteration


class Failing:
    def __init__(self, error: Exception):
        self.error = error

    def __len__(self):
        return 5

    def __getitem__(self, index):
        raise self.error


class Lost(transforms.DatasetSelectionMap):
    def __init__(self, choice):
        self.choice = choice

    def __len__(self):
        return 5

    def __getitem__(self, index):
        return self.choice


class Explosive(transforms.FlatMap):
    max_fan_out = 2

    def flat_map(self, element):
        return [element] * 3


FAILURES = {
    "map": lambda: M.range(5).map(fail),
    "map that stops": lambda: M.range(5).map(stop).map(abs),
    "map with index": lambda: M.range(5).map_with_index(fail),
    "map with index that stops": lambda: M.range(5).map_with_index(stop),
    "random map": lambda: M.range(5).random_map(fail, seed=1),
    "random map that stops": lambda: M.range(5).random_map(stop, seed=1),
    "filter": lambda: M.range(5).filter(fail),
    "filter that stops": lambda: M.range(5).filter(stop),
    "filter without truth": lambda: M.range(5).filter(lambda x: np.arange(3)),
    "flat map": lambda: M.range(5).flat_map(Explosive()),
    "source": lambda: M.source(Failing(KeyError("x"))).shuffle(seed=1),
    "source that stops": lambda: M.source(Failing(StopIteration())).repeat(2),
    "mapping": lambda: M.source({"a": 1, 7: 2}),
    "zip": lambda: M.range(5).zip(M.range(5).map(fail)),
    "mix": lambda: M.mix([M.range(5).map(fail), M.range(5).map(fail)]),
    "mix of many": lambda: M.mix([M.range(5).map(fail) for _ in range(40)]),
    "concatenate": lambda: M.concatenate([M.range(5).map(fail), M.range(5)]),
    "selection out of range": lambda: M.select_from_datasets([M.range(5)], Lost((7, 0))),
    "selection of one number": lambda: M.select_from_datasets([M.range(5)], Lost(3)),
    "empty": lambda: M.range(0).map(abs),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_a_single_read_fails_like_a_read_of_many(name):
    ds = FAILURES[name]()
    with pytest.raises(Exception) as many:  # noqa: PT011
        ds.__getitems__([3])
    with pytest.raises(type(many.value)) as one:
        ds[3]
    assert str(one.value) == str(many.value)
    assert getattr(one.value, "__notes__", None) == getattr(many.value, "__notes__", None)


def test_elements_before_an_error_in_one_of_many_datasets_are_read():
    datasets = [M.range(100).map(lambda x: x if x < 2 else fail(x)) for _ in range(40)]
    iterator = iter(M.mix(datasets).to_iter_dataset())
    assert [next(iterator) for _ in range(80)] == [0] * 40 + [1] * 40
    with pytest.raises(ValueError, match="no 2"):
        next(iterator)
