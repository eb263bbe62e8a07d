"""The life of an iterator: lengths, closing, states that are refused, other names of the same things."""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import grain

from ..helpers.pipelines import INLINE, Twice, numbers

Map = grain.MapDataset


def draw(element: Any, rng: Any) -> Any:
    return element, rng.random()


# --- lengths -------------------------------------------------------------------------------------

KNOWN: dict[str, tuple[Callable[[], Any], int]] = {
    "boundary": (lambda: numbers(7), 7),
    "empty": (lambda: numbers(0), 0),
    "map": (lambda: numbers(7).map(abs), 7),
    "map_with_index": (lambda: numbers(7).map_with_index(lambda i, x: x), 7),
    "random_map": (lambda: numbers(7).random_map(draw, seed=1), 7),
    "seed": (lambda: numbers(7).seed(1), 7),
    "batch": (lambda: numbers(7).batch(3), 3),
    "batch that drops": (lambda: numbers(7).batch(3, drop_remainder=True), 2),
    "batch of batches": (lambda: numbers(7).batch(2).batch(3, batch_fn=list), 2),
    "options": (
        lambda: grain.experimental.WithOptionsIterDataset(
            numbers(7), grain.experimental.DatasetOptions()
        ),
        7,
    ),
    "nones": (
        lambda: Map.range(7).filter(bool).to_iter_dataset(INLINE, allow_nones=True),
        7,
    ),
    "no worker": (lambda: numbers(7).mp_prefetch(grain.MultiprocessingOptions(num_workers=0)), 7),
    "workers": (lambda: numbers(7).mp_prefetch(grain.MultiprocessingOptions(num_workers=2)), 7),
}

UNKNOWN: dict[str, Callable[[], Any]] = {
    "filter": lambda: numbers().filter(bool),
    "filter on a map dataset": lambda: Map.range(3).filter(bool).to_iter_dataset(),
    "map over filter": lambda: numbers().filter(bool).map(abs),
    "batch over filter": lambda: numbers().filter(bool).batch(2),
    "flat map": lambda: numbers().apply(Twice()),
    "flat map on a map dataset": lambda: Map.range(3).apply(Twice()).to_iter_dataset(),
    "mix": lambda: grain.IterDataset.mix([numbers(), numbers()]),
    "workers over filter": lambda: (
        numbers().filter(bool).mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_length_that_is_known_without_reading_is_returned(name):
    make, length = KNOWN[name]
    assert len(make()) == length


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "workers"])
def test_a_known_length_is_the_number_of_elements(name):
    make, length = KNOWN[name]
    assert sum(1 for _ in make()) == length


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_length_known_only_by_reading_is_a_type_error(name):
    with pytest.raises(TypeError, match=r"has no len\(\): .*known only by reading"):
        len(UNKNOWN[name]())


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_dataset_of_unknown_length_can_be_made_a_list(name):
    if not name.startswith("workers"):
        assert isinstance(list(UNKNOWN[name]()), list)


@pytest.mark.parametrize(
    "make", [lambda: numbers(), lambda: numbers(0), UNKNOWN["filter"], UNKNOWN["mix"]]
)
def test_an_iter_dataset_is_true(make):
    assert make()


# --- closing -------------------------------------------------------------------------------------

PIPELINES: dict[str, Callable[[], Any]] = {
    "boundary": lambda: numbers(60),
    "map dataset": lambda: Map.range(60),
    "map": lambda: numbers(60).map(abs),
    "filter": lambda: numbers(60).filter(lambda x: x % 2 == 0),
    "counted": lambda: numbers(60).map_with_index(lambda i, x: i * x),
    "random": lambda: numbers(60).random_map(draw, seed=1),
    "batch": lambda: numbers(60).batch(3, batch_fn=list),
    "flat map": lambda: numbers(60).apply(Twice()),
    "mix": lambda: grain.IterDataset.mix([numbers(60), numbers(60).map(lambda x: -x)]),
    "threads": lambda: Map.range(60).to_iter_dataset(grain.ReadOptions(2, 8)),
    "loader": lambda: grain.load(list(range(60)), num_epochs=1),
}
each_pipeline = pytest.mark.parametrize("name", PIPELINES)


@each_pipeline
@pytest.mark.parametrize("taken", [0, 1, 5])
def test_a_closed_iterator_cannot_be_advanced_but_has_a_state(name, taken):
    iterator = iter(PIPELINES[name]())
    elements = [next(iterator) for _ in range(taken)]
    state = iterator.get_state()
    iterator.close()
    iterator.close()
    for _ in range(2):
        with pytest.raises(ValueError, match="Trying to advance a closed iterator"):
            next(iterator)
    assert iterator.get_state() == state
    fresh = iter(PIPELINES[name]())
    fresh.set_state(state)
    assert elements + list(fresh) == list(PIPELINES[name]())


@each_pipeline
def test_an_iterator_is_closed_at_the_end_of_a_with_block(name):
    with iter(PIPELINES[name]()) as iterator:
        assert iter(iterator) is iterator
        next(iterator)
    with pytest.raises(ValueError, match="closed"):
        next(iterator)


@each_pipeline
def test_an_iterator_is_closed_when_a_with_block_fails_and_the_error_passes(name):
    iterator = iter(PIPELINES[name]())

    def fail_inside() -> None:
        with iterator:
            next(iterator)
            raise LookupError

    with pytest.raises(LookupError):
        fail_inside()
    with pytest.raises(ValueError, match="closed"):
        next(iterator)


@each_pipeline
def test_closing_one_iterator_leaves_others_of_the_dataset_alone(name):
    ds = PIPELINES[name]()
    first, second = iter(ds), iter(ds)
    next(first)
    first.close()
    assert list(second) == list(PIPELINES[name]())


@each_pipeline
def test_an_iterator_that_is_dropped_is_gone(name):
    iterator = iter(PIPELINES[name]())
    next(iterator)
    gone = weakref.ref(iterator)
    gc.disable()
    try:
        del iterator
        assert gone() is None
    finally:
        gc.enable()


def test_a_closed_iterator_starts_nothing():
    iterator = iter(Map.range(9).to_iter_dataset())
    iterator.close()
    with pytest.raises(ValueError, match="closed"):
        iterator.start_prefetch()


# --- states --------------------------------------------------------------------------------------


@each_pipeline
def test_a_state_has_the_names_that_pytorch_uses_as_well(name):
    iterator = iter(PIPELINES[name]())
    next(iterator)
    fresh = iter(PIPELINES[name]())
    fresh.load_state_dict(iterator.state_dict())
    assert list(fresh) == list(iterator)


@each_pipeline
def test_getting_a_state_changes_nothing(name):
    iterator = iter(PIPELINES[name]())
    elements = []
    for element in iterator:
        elements.append(element)
        assert iterator.get_state() == iterator.get_state()
    assert elements == list(PIPELINES[name]())


MISSING: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "boundary": (lambda: numbers(), {}, "next_index"),
    "map": (lambda: numbers().map(abs), {"parent": 1}, "next_index"),
    "counted": (lambda: numbers().map_with_index(lambda i, x: x), {"parent": {}}, "counter"),
    "counted without parent": (
        lambda: numbers().map_with_index(lambda i, x: x),
        {"counter": 1},
        "parent",
    ),
    "random": (lambda: numbers().random_map(draw, seed=1), {"parent": {}}, "index_for_rng"),
    "flat map": (lambda: numbers().apply(Twice()), {"parent": {}}, "next_index_in_buffer"),
    "mix": (lambda: grain.IterDataset.mix([numbers()]), {"parents": [{}], "stop": False}, "index"),
    "mix without parents": (lambda: grain.IterDataset.mix([numbers()]), {"index": 1}, "parents"),
    "mix of other names": (
        lambda: grain.IterDataset.mix({"a": numbers()}),
        {"parents": {"b": {"next_index": 0}}, "index": 0, "stop": False},
        "a",
    ),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_state_without_a_field_is_a_key_error_that_names_it(name):
    make, state, field = MISSING[name]
    with pytest.raises(KeyError, match=rf"field '{field}', as `get_state\(\)` returns it; got"):
        iter(make()).set_state(state)


WRONG: list[tuple[Callable[[], Any], Any, type[Exception], str]] = [
    (lambda: numbers(), None, TypeError, "got None"),
    (lambda: numbers(), 3, TypeError, "got 3"),
    (lambda: numbers(), [3], TypeError, r"got \[3\]"),
    (lambda: numbers(), "text", TypeError, "got 'text'"),
    (
        lambda: numbers(),
        {"next_index": 1.5},
        TypeError,
        "next_index.*integer, got 1.5 of type float",
    ),
    (lambda: numbers(), {"next_index": "1"}, TypeError, "next_index.*integer, got '1' of type str"),
    (lambda: numbers(), {"next_index": None}, TypeError, "got None"),
    (lambda: numbers(), {"next_index": 7}, IndexError, "7 is out of range for dataset of length 6"),
    (lambda: numbers(), {"next_index": -1}, IndexError, "-1 is out of range"),
    (
        lambda: numbers().apply(Twice()),
        {"parent": {"next_index": 0}, "next_index_in_buffer": -1},
        ValueError,
        "next_index_in_buffer",
    ),
    (
        lambda: grain.IterDataset.mix([numbers(), numbers()]),
        {"parents": [{"next_index": 0}], "index": 0, "stop": False},
        ValueError,
        r"holds 1 mixture components \(by position\), but this mixture has 2 \(by position\)",
    ),
    (
        lambda: grain.IterDataset.mix([numbers()]),
        {"parents": {"a": {"next_index": 0}}, "index": 0, "stop": False},
        ValueError,
        r"holds 1 mixture components \(a\), but this mixture has 1 \(by position\)",
    ),
    (
        lambda: grain.IterDataset.mix({"a": numbers()}),
        {"parents": [{"next_index": 0}], "index": 0, "stop": False},
        ValueError,
        r"\(by position\), but this mixture has 1 \(by name\)",
    ),
    (
        lambda: grain.IterDataset.mix([numbers()]),
        {"parents": 3, "index": 0, "stop": False},
        TypeError,
        "must be a list or a mapping of states, got 3",
    ),
    (
        lambda: grain.IterDataset.mix([numbers()]),
        {"parents": [{"next_index": 0}], "index": "x", "stop": False},
        TypeError,
        "`index` of a state must be an integer, got 'x'",
    ),
]


@pytest.mark.parametrize(("make", "state", "error", "message"), WRONG)
def test_a_state_that_belongs_elsewhere_is_refused(make, state, error, message):
    with pytest.raises(error, match=message):
        iter(make()).set_state(state)


def test_the_end_is_a_state_like_any_other():
    iterator = iter(numbers(3))
    iterator.set_state({"next_index": 3})
    assert list(iterator) == []
    assert iterator.get_state() == {"next_index": 3}


@each_pipeline
def test_a_finished_iterator_stays_finished_until_it_is_set_back(name):
    iterator = iter(PIPELINES[name]())
    start = iterator.get_state()
    elements = list(iterator)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)
    iterator.set_state(start)
    assert list(iterator) == elements


@pytest.mark.parametrize("size", ["raises", "deep"])
def test_an_element_of_unknown_size_is_an_element_like_others(size: str) -> None:
    class Secretive:
        @property
        def nbytes(self) -> int:
            raise RuntimeError("not decoded yet")

    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    element: Any = Secretive() if size == "raises" else deep
    ds = grain.MapDataset.source([element] * 9).to_iter_dataset().map(lambda x: 1)
    assert list(ds) == [1] * 9


SHARED = {
    "chunks": lambda: grain.MapDataset.range(3000).to_iter_dataset(INLINE).map(lambda x: x),
    "threads": lambda: grain.MapDataset.range(3000).to_iter_dataset().map(lambda x: x),
    "window shuffle": lambda: grain.experimental.WindowShuffleIterDataset(
        grain.MapDataset.range(3000).to_iter_dataset(INLINE), window_size=7, seed=1
    ),
    "workers": lambda: (
        grain.MapDataset.range(3000)
        .to_iter_dataset()
        .mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
    ),
}


@pytest.mark.parametrize("make", SHARED.values(), ids=SHARED.keys())
def test_threads_that_share_an_iterator_receive_every_element_once(make):
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with iter(make()) as iterator, ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda _: list(iterator), range(4)))
    finally:
        sys.setswitchinterval(switch_interval)
    assert sorted(itertools.chain(*found)) == list(range(3000))
