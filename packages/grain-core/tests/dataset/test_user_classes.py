"""Users' own datasets and iterators, with the abstract methods only, anywhere in a pipeline."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain

from ..helpers.pipelines import INLINE

Map = grain.MapDataset
Iter = grain.IterDataset
THREADS = grain.ReadOptions(num_threads=4, prefetch_buffer_size=8)


class WithoutInit(grain.MapDataset):
    """No `__init__` at all."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: Any) -> Any:
        return int(index) % 12


class WithoutSuper(WithoutInit):
    """An `__init__` that does not call the base class's."""

    def __init__(self) -> None:
        self.offset = 0

    def __getitem__(self, index: Any) -> Any:
        return int(index) % 12 + self.offset


class WithSuper(WithoutInit):
    def __init__(self) -> None:
        super().__init__()


class OverParent(grain.MapDataset):
    """Over a parent, which it finds as `self._parent`; takes slices too."""

    def __init__(self, parent: grain.MapDataset):
        super().__init__(parent)

    def __len__(self) -> int:
        return len(self._parent)

    def __getitem__(self, index: Any) -> Any:
        return self.slice(index) if isinstance(index, slice) else self._parent[index]


class OverParentWithoutInit(grain.MapDataset):
    """The base class's `__init__` takes the parent."""

    def __len__(self) -> int:
        return len(self.parents[0])

    def __getitem__(self, index: Any) -> Any:
        return self.parents[0][index]


class OwnManyReads(WithoutInit):
    """Reads many at a time, in its own way."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    def __getitems__(self, indices: Any) -> list[Any]:
        self.asked.append(indices)
        return [int(index) % 12 for index in indices]


class SomeNone(WithoutInit):
    def __getitem__(self, index: Any) -> Any:
        return None if index % 3 == 1 else index % 12


MAPS: dict[str, Callable[[], grain.MapDataset]] = {
    "without init": WithoutInit,
    "without super": WithoutSuper,
    "with super": WithSuper,
    "over parent": lambda: OverParent(Map.range(12)),
    "over parent without init": lambda: OverParentWithoutInit(Map.range(12)),
    "over users'": lambda: OverParent(OverParentWithoutInit(WithoutInit())),
    "own many reads": OwnManyReads,
}


def draw(element: Any, rng: np.random.Generator) -> Any:
    return element, int(rng.integers(1000))


# Every operation must yield the same for the user's dataset and for a range.
OPERATIONS: dict[str, Callable[[grain.MapDataset], Any]] = {
    "itself": lambda ds: ds,
    "map": lambda ds: ds.map(lambda x: x + 1),
    "map_with_index": lambda ds: ds.map_with_index(lambda i, x: 100 * i + x),
    "random_map": lambda ds: ds.random_map(draw, seed=3),
    "filter": lambda ds: ds.filter(lambda x: x % 2 == 0),
    "shuffle": lambda ds: ds.shuffle(seed=5),
    "slice": lambda ds: ds.slice(slice(2, None, 3)),
    "pick": lambda ds: ds.slice([3, 3, -1]),
    "repeat": lambda ds: ds.shuffle(seed=5).repeat(2),
    "batch": lambda ds: ds.batch(5),
    "batch_fn": lambda ds: ds.batch(5, batch_fn=list),
    "seed": lambda ds: ds.seed(7).shuffle().random_map(draw),
    "mix": lambda ds: Map.mix([ds, Map.range(100, 130)], [1, 2]),
    "mix first": lambda ds: Map.mix([Map.range(100, 130), ds]).batch(4),
    "concatenate": lambda ds: Map.concatenate([ds, Map.range(3), ds]).shuffle(1),
    "iter": lambda ds: ds.to_iter_dataset(INLINE).filter(lambda x: x % 2 == 0).batch(2),
    "threads": lambda ds: ds.shuffle(1).repeat(3).to_iter_dataset(THREADS).map(lambda x: x + 1),
    "iter mix": lambda ds: Iter.mix([ds, ds.to_iter_dataset(INLINE)]),
    "apply": lambda ds: ds.seed(1).apply([grain.transforms.Batch(3, drop_remainder=True)]),
}


def plain(elements: Any) -> list[Any]:
    return [element.tolist() if hasattr(element, "tolist") else element for element in elements]


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_users_map_dataset_takes_part_like_any_other(kind, operation):
    apply = OPERATIONS[operation]
    assert plain(apply(MAPS[kind]())) == plain(apply(Map.range(12)))


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_pipeline_over_a_users_map_dataset_resumes(kind, operation):
    apply = OPERATIONS[operation]
    iterator = iter(apply(MAPS[kind]()))
    next(iterator)
    state = iterator.get_state()
    fresh = iter(apply(MAPS[kind]()))
    fresh.set_state(state)
    assert plain(fresh) == plain(iterator)


@pytest.mark.parametrize("kind", MAPS)
def test_a_users_map_dataset_reads_many_at_a_time_and_pickles(kind):
    ds = MAPS[kind]()
    assert ds.__getitems__([3, 1, 3]) == [3, 1, 3]
    copied = pickle.loads(pickle.dumps(ds.shuffle(1)))
    assert list(copied) == list(ds.shuffle(1))


def test_a_users_dataset_gets_integers_of_python():
    seen = []

    class Watching(WithoutInit):
        def __getitem__(self, index: Any) -> Any:
            seen.append(index)
            return index

    ds = Watching()
    list(ds.shuffle(1).repeat(2).to_iter_dataset(THREADS))
    ds.batch(3).__getitems__(np.array([1, 2]))
    assert {type(index) for index in seen} == {int}


def test_a_users_own_many_reads_are_used():
    ds = OwnManyReads()
    list(ds.shuffle(1).batch(6))
    assert [len(indices) for indices in ds.asked] == [6, 6]
    assert all(type(index) is int for indices in ds.asked for index in indices)


def test_nones_of_a_users_dataset_are_skipped():
    assert list(SomeNone()) == [0, 2, 3, 5, 6, 8, 9, 11]
    assert list(SomeNone().map(lambda x: x * 10).to_iter_dataset(THREADS)) == [
        x * 10 for x in (0, 2, 3, 5, 6, 8, 9, 11)
    ]


def test_parents_and_names_of_users_datasets():
    parent = Map.range(3)
    ds = OverParent(parent)
    assert ds._parent is parent
    assert ds.parents == (parent,)
    assert WithoutInit().parents == ()
    assert str(ds) == "OverParent"
    with pytest.raises(ValueError, match="WithoutInit has 0 parents"):
        WithoutInit()._parent  # noqa: B018


def test_a_seed_given_upstream_reaches_through_users_datasets():
    through = OverParent(Map.range(12).seed(7)).map(lambda x: x).shuffle()
    also = Map.range(12).seed(7).map(lambda x: x).map(lambda x: x).shuffle()
    assert list(through) == list(also)


# --- iterators -----------------------------------------------------------------------------------


class CountIterator(grain.DatasetIterator):
    def __init__(self, stop: int):
        super().__init__()
        self.at, self.stop = 0, stop

    def __next__(self) -> int:
        if self.at >= self.stop:
            raise StopIteration
        self.at += 1
        return self.at - 1

    def get_state(self) -> Any:
        return {"at": self.at}

    def set_state(self, state: Any) -> None:
        self.at = state["at"]


class CountIteratorWithoutSuper(CountIterator):
    def __init__(self, stop: int):
        self.at, self.stop = 0, stop


class Count(grain.IterDataset):
    """No `__init__`; the iterator is the user's."""

    kind: type = CountIterator

    def __iter__(self) -> grain.DatasetIterator:
        return self.kind(12)


class CountWithoutSuper(Count):
    kind = CountIteratorWithoutSuper

    def __init__(self) -> None:
        self.something = 1


class PassOnIterator(grain.DatasetIterator):
    """No `__init__`: the base class's takes the parent."""

    def __next__(self) -> Any:
        return next(self._parent)

    def get_state(self) -> Any:
        return {"inner": self._parent.get_state()}

    def set_state(self, state: Any) -> None:
        self._parent.set_state(state["inner"])


class PassOn(grain.IterDataset):
    def __init__(self, parent: grain.IterDataset):
        super().__init__(parent)

    def __iter__(self) -> grain.DatasetIterator:
        return PassOnIterator(self._parent.__iter__())


class OursInside(grain.IterDataset):
    """The user's dataset, one of the library's iterators."""

    def __iter__(self) -> grain.DatasetIterator:
        return iter(Map.range(12).to_iter_dataset(INLINE))


ITERS: dict[str, Callable[[], grain.IterDataset]] = {
    "count": Count,
    "without super": CountWithoutSuper,
    "pass on": lambda: PassOn(Map.range(12).to_iter_dataset(INLINE)),
    "pass on threads": lambda: PassOn(Map.range(12).to_iter_dataset(THREADS)),
    "pass on users'": lambda: PassOn(PassOn(Count())),
    "pass on a map": lambda: PassOn(Count().map(lambda x: x).filter(lambda x: True)),
    "ours inside": OursInside,
}

ITER_OPERATIONS: dict[str, Callable[[grain.IterDataset], grain.IterDataset]] = {
    "itself": lambda ds: ds,
    "map": lambda ds: ds.map(lambda x: x + 1),
    "map_with_index": lambda ds: ds.map_with_index(lambda i, x: 100 * i + x),
    "random_map": lambda ds: ds.random_map(draw, seed=3),
    "filter": lambda ds: ds.filter(lambda x: x % 5 == 0),
    "batch": lambda ds: ds.batch(5),
    "seed": lambda ds: ds.seed(3).random_map(draw),
    "mix": lambda ds: Iter.mix([ds, Map.range(100, 130).to_iter_dataset(INLINE)], [1, 2]),
    "named mix": lambda ds: Iter.mix({"b": ds, "a": ds.map(lambda x: -x)}),
    "all": lambda ds: (
        Iter.mix([ds.map(lambda x: x + 1), ds.filter(bool)]).batch(3).map(lambda x: x * 2)
    ),
    "no workers": lambda ds: ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=0)),
}


@pytest.mark.parametrize("kind", ITERS)
@pytest.mark.parametrize("operation", ITER_OPERATIONS)
def test_a_users_iter_dataset_takes_part_like_any_other(kind, operation):
    apply = ITER_OPERATIONS[operation]
    expected = plain(apply(Map.range(12).to_iter_dataset(INLINE)))
    assert plain(apply(ITERS[kind]())) == expected


@pytest.mark.parametrize("kind", ITERS)
@pytest.mark.parametrize("operation", ITER_OPERATIONS)
def test_a_pipeline_over_a_users_iterator_resumes_after_every_element(kind, operation):
    apply = ITER_OPERATIONS[operation]
    iterator = iter(apply(ITERS[kind]()))
    states, elements = [iterator.get_state()], []
    for element in iterator:
        elements.append(element)
        states.append(iterator.get_state())
    for place, state in enumerate(states):
        fresh = iter(apply(ITERS[kind]()))
        fresh.set_state(state)
        assert plain(fresh) == plain(elements[place:])


@pytest.mark.parametrize("kind", [kind for kind in ITERS if kind != "ours inside"])
def test_the_length_of_a_users_iter_dataset_is_unknown(kind):
    with pytest.raises(TypeError, match="known only by reading"):
        len(ITERS[kind]())
    with pytest.raises(TypeError, match="known only by reading"):
        len(ITERS[kind]().map(abs).batch(2))


@pytest.mark.parametrize("kind", ITERS)
def test_a_users_iterator_has_everything_an_iterator_has(kind):
    with iter(ITERS[kind]()) as iterator:
        iterator.start_prefetch()
        assert iter(iterator) is iterator
        assert next(iterator) == 0
        state = iterator.state_dict()
        assert next(iterator) == 1
        iterator.load_state_dict(state)
        assert next(iterator) == 1


def test_closing_reaches_the_parents_of_a_users_iterator():
    parent = Map.range(12).to_iter_dataset(INLINE)
    iterator = iter(PassOn(parent).map(lambda x: x))
    assert next(iterator) == 0
    iterator.close()
    with pytest.raises(ValueError, match="Trying to advance a closed iterator"):
        next(iterator.parents[0].parents[0])


def test_a_users_iterator_is_not_read_ahead_of_what_was_requested():
    """An iterator whose state is valid only at its position."""
    inner = CountIterator(12)

    class Given(grain.IterDataset):
        def __iter__(self) -> grain.DatasetIterator:
            return inner

    iterator = iter(Given().map(lambda x: x).map_with_index(lambda i, x: x))
    for step in range(12):
        assert next(iterator) == step
        assert inner.at == step + 1


def test_an_error_in_a_users_iterator_passes_and_the_stream_resumes():
    class FailingIterator(CountIterator):
        def __next__(self) -> int:
            element = super().__next__()
            if element == 3:
                raise LookupError("three")
            return element

    class Failing(Count):
        kind = FailingIterator

    iterator = iter(Failing().map(lambda x: x))
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(LookupError, match="three"):
        next(iterator)
    assert list(iterator) == list(range(4, 12))


# --- own ways to read many at a time -------------------------------------------------------------


class Miscounting(WithoutInit):
    """A dataset that returns more or fewer elements than requested."""

    def __init__(self, more: int):
        super().__init__()
        self.more = more

    def __getitems__(self, indices: Any) -> list[Any]:
        return [0] * (len(indices) + self.more)


@pytest.mark.parametrize("more", [-1, 1, 5])
@pytest.mark.parametrize(
    "above",
    [
        lambda ds: ds.seed(1),
        lambda ds: ds.shuffle(3),
        lambda ds: ds.map(lambda x: x),
        lambda ds: ds.batch(3),
        lambda ds: ds.repeat(2),
    ],
    ids=["seed", "shuffle", "map", "batch", "repeat"],
)
def test_too_many_or_too_few_elements_at_a_time_are_an_error_with_both_counts(more, above):
    ds = above(Miscounting(more))
    for read in (lambda: ds.__getitems__([0, 1]), lambda: ds[0], lambda: next(iter(ds))):
        with pytest.raises(
            ValueError, match=r"Miscounting.__getitems__ returned (\d+) elements for (\d+)"
        ) as e:
            read()
        given, asked = map(int, re.findall(r"\d+", str(e.value))[:2])
        assert given == asked + more
        assert "over Miscounting" in "".join(e.value.__notes__)


class Sorting(WithoutInit):
    """Reads in another order, by the way that every map dataset has."""

    depth = 0

    def __getitems__(self, indices: Any) -> Any:
        self.depth += 1
        assert self.depth == 1, "called by itself"
        order = sorted(range(len(indices)), key=indices.__getitem__)
        read = super().__getitems__([indices[place] for place in order])
        self.depth -= 1
        return tuple(read[order.index(place)] for place in range(len(indices)))


def test_an_own_way_to_read_many_may_call_the_one_that_it_replaces():
    assert Sorting().map(lambda x: x + 1).__getitems__([5, 1, 3]) == [6, 2, 4]
    assert list(Sorting().shuffle(1)) == list(Map.range(12).shuffle(1))
