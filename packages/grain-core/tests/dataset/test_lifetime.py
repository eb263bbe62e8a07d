"""An iterator that is dropped is gone at once, without the garbage collector, and so is what it holds."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import grain

from ..helpers.pipelines import ForwardingIterDataset

Map = grain.MapDataset
X = grain.experimental


class Halves(grain.transforms.FlatMap):
    max_fan_out = 3

    def flat_map(self, element: Any) -> list[Any]:
        return [element] * (int(element) % 4)


def rows(count: int = 40) -> grain.IterDataset:
    return Map.range(count).to_iter_dataset()


def tokens() -> grain.IterDataset:
    return rows().map(lambda x: {"tokens": np.arange(x % 5 + 1)})


def fail(x: Any) -> Any:
    if np.sum(x) == 5:
        raise LookupError(x)
    return x


PACKED: dict[str, Any] = {"length_struct": {"tokens": 7}}

PIPELINES: dict[str, Callable[[], grain.IterDataset]] = {
    "boundary": rows,
    "map": lambda: rows().map(lambda x: x + 1),
    "filter": lambda: rows().filter(lambda x: x % 2 == 0),
    "indices": lambda: rows().map_with_index(lambda i, x: i + x),
    "draws": lambda: rows().random_map(lambda x, rng: x, seed=1),
    "batch": lambda: rows().batch(3),
    "flat map": lambda: rows().apply(Halves()),
    "mix": lambda: grain.IterDataset.mix([rows(), rows()], [1, 2]),
    "named mix": lambda: grain.IterDataset.mix({"a": rows(), "b": rows()}),
    "window shuffle": lambda: rows().window_shuffle(6, seed=1),
    "zip": lambda: rows().zip(rows()),
    "limit": lambda: rows().limit(17),
    "repeat": lambda: rows().repeat(2),
    "cache": lambda: rows().cache().repeat(2),
    "rebatch": lambda: rows().batch(6).rebatch(4),
    "unbatch": lambda: rows().batch(6).unbatch(),
    "interleave": lambda: X.InterleaveIterDataset([rows(9), rows(5), rows(7)], cycle_length=2),
    "first fit": lambda: X.FirstFitPackIterDataset(tokens(), num_packing_bins=2, **PACKED),
    "best fit": lambda: X.BestFitPackIterDataset(tokens(), num_packing_bins=2, **PACKED),
    "concatenation": lambda: X.ConcatThenSplitIterDataset(tokens(), **PACKED),
    "thread": lambda: X.ThreadPrefetchIterDataset(rows(), prefetch_buffer_size=3),
    "own iterator": lambda: ForwardingIterDataset(rows()).map(lambda x: x).batch(2),
    "options": lambda: X.WithOptionsIterDataset(
        rows().filter(lambda x: x > 1), X.DatasetOptions(filter_warn_threshold_ratio=0.5)
    ),
}

# In these some elements fail.
FAILING: dict[str, Callable[[], grain.IterDataset]] = {
    "reading": lambda: Map.range(20).map(fail).to_iter_dataset().map(abs),
    "reading below a batch": lambda: Map.range(20).map(fail).to_iter_dataset().batch(3),
    "map": lambda: rows().map(fail).map(abs),
    "filter": lambda: rows().filter(lambda x: fail(x) >= 0),
    "indices": lambda: rows().map_with_index(lambda i, x: fail(x)),
    "draws": lambda: rows().random_map(lambda x, rng: fail(x), seed=1),
    "batch": lambda: rows().batch(2, batch_fn=lambda x: fail(x[1])),
    "below a batch": lambda: rows().map(fail).batch(2),
    "below a window shuffle": lambda: rows().map(fail).window_shuffle(6, seed=1),
    "in a mix": lambda: grain.IterDataset.mix([rows().map(fail), rows()]),
    "in turns": lambda: X.InterleaveIterDataset([rows(20).map(fail), rows(20)], cycle_length=2),
    "below packing": lambda: X.ConcatThenSplitIterDataset(
        rows(90).map(fail).map(lambda x: {"tokens": np.arange(x % 5 + 1)}), **PACKED
    ),
    "in a thread": lambda: X.ThreadPrefetchIterDataset(
        rows().map(fail), prefetch_buffer_size=3
    ).map(abs),
    "own iterator": lambda: ForwardingIterDataset(rows().map(fail)).map(fail),
}


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def references(iterator: Any) -> list[weakref.ref[Any]]:
    """To an iterator and all it reads from."""
    found = [weakref.ref(iterator)]
    for parent in iterator.parents:
        found += references(parent)
    return found


def alive(iterators: list[weakref.ref[Any]]) -> list[str]:
    return [type(iterator()).__name__ for iterator in iterators if iterator() is not None]


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("taken", [0, 1, 7])
def test_an_iterator_that_is_dropped_is_gone_with_all_it_reads_from(name: str, taken: int) -> None:
    with no_garbage_collection():
        iterator = iter(PIPELINES[name]())
        state = iterator.get_state()
        for _ in range(taken):
            next(iterator)
        assert iterator.get_state() is not None
        iterator.set_state(state)
        next(iterator)
        if name == "thread":
            iterator.close()  # Its thread lets go of what it reads a moment later.
        iterators = references(iterator)
        del iterator
        assert alive(iterators) == []


@pytest.mark.parametrize("name", FAILING)
def test_an_iterator_that_failed_is_gone_as_well(name: str) -> None:
    with no_garbage_collection():
        iterator = iter(FAILING[name]())
        errors = 0
        for _ in range(20):
            try:
                next(iterator)
            except LookupError:
                errors += 1
        assert errors
        assert iterator.get_state() is not None
        if name == "in a thread":
            iterator.close()
        iterators = references(iterator)
        del iterator
        assert alive(iterators) == []


@pytest.mark.parametrize("name", [name for name in FAILING if name != "own iterator"])
def test_a_kept_error_does_not_keep_the_iterator(name: str) -> None:
    with no_garbage_collection():
        iterator = iter(FAILING[name]())
        kept = []
        for _ in range(12):
            try:
                next(iterator)
            except LookupError as error:
                kept.append(error)
        assert kept
        iterators = references(iterator)
        if name == "in a thread":
            iterator.close()
        del iterator
        assert alive(iterators) == []
        # What a user looks for in it is still there.
        traceback, names = kept[0].__traceback__, set()
        while traceback is not None:
            names.add(traceback.tb_frame.f_code.co_name)
            traceback = traceback.tb_next
        assert "fail" in names


def test_a_state_that_is_refused_keeps_nothing() -> None:
    with no_garbage_collection():
        iterator = iter(rows().map(abs).batch(2))
        next(iterator)
        with contextlib.suppress(TypeError):
            iterator.set_state(3)
        iterators = references(iterator)
        del iterator
        assert alive(iterators) == []
