"""Iterators over workers leave nothing behind, however they end."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain

from ..helpers.pipelines import steps, with_workers
from ..helpers.processes import beyond, census, descendants
from .pipelines import FAILING, PIPELINES, OwnIterDataset, rows

X = grain.experimental

# One of every kind of iterator that talks to workers.
KINDS = [
    "shuffled map batches",
    "filter then batch",
    "one element missing",
    "heavy above packing",
    "single stream",
    "turns of streams",
    "turns of map datasets",
    "mixture",
]


def images(count: int = 200) -> grain.IterDataset:
    """Batches that are large enough to travel in shared memory."""
    return (
        grain.MapDataset.range(count)
        .map(lambda i: np.full((64, 64, 3), i))
        .batch(4)
        .to_iter_dataset()
    )


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("name", KINDS)
def test_close_releases_everything_and_keeps_the_state(name: str) -> None:
    with iter(PIPELINES[name]()) as alone:
        expected = steps(alone, most=3)
    iterator = iter(with_workers(PIPELINES[name](), 2))
    assert steps(iterator, most=3) == expected
    iterator.close()
    assert iterator.get_state() == expected[-1][-1]
    with pytest.raises(ValueError, match="closed iterator"):
        next(iterator)
    iterator.close()


@pytest.mark.parametrize("name", KINDS)
def test_a_closed_iterator_holds_no_resources_while_referenced(name: str) -> None:
    before = census()
    iterator = iter(with_workers(PIPELINES[name](), 2))
    next(iterator)
    iterator.close()
    assert not beyond(before)
    assert iterator.get_state() is not None


@pytest.mark.usefixtures("leaves_nothing")
def test_a_with_block_leaves_nothing_though_arrays_are_kept() -> None:
    with iter(with_workers(images(), 2)) as iterator:
        kept = [next(iterator) for _ in range(3)]
    assert [int(batch[0, 0, 0, 0]) for batch in kept] == [0, 4, 8]
    kept[0] += 1
    del kept


@pytest.mark.usefixtures("leaves_nothing")
@pytest.mark.parametrize("name", [*KINDS, "an iter map below a batch", "a heavy map", "a stream"])
def test_a_dropped_iterator_leaves_nothing_without_help_of_the_garbage_collector(name: str) -> None:
    build = {**PIPELINES, **FAILING}[name]
    gc.collect()
    gc.disable()
    try:
        iterator = iter(with_workers(build(), 2))
        assert steps(iterator, most=15)
        assert descendants(os.getpid())
        del iterator
        assert not descendants(os.getpid())
    finally:
        gc.enable()


def _fail_at_six(x: Any) -> Any:
    if np.min(x) == 6:
        raise LookupError("six")
    return x


# An error in what the consumer's process does with what workers computed.
ABOVE: dict[str, Callable[[grain.IterDataset], grain.IterDataset]] = {
    "map": lambda ds: ds.map(_fail_at_six).map(abs),
    "filter": lambda ds: ds.filter(lambda x: _fail_at_six(x) >= 0).batch(2),
    "batch": lambda ds: ds.batch(2, batch_fn=_fail_at_six),
    "draws": lambda ds: ds.random_map(lambda x, rng: _fail_at_six(x), seed=1),
    "shuffle": lambda ds: ds.window_shuffle(3, seed=1).map(_fail_at_six),
    "own iterator": lambda ds: OwnIterDataset(ds).map(_fail_at_six),
    "packing": lambda ds: X.ConcatThenSplitIterDataset(
        ds.map(_fail_at_six).map(lambda x: {"tokens": np.arange(x + 1)}),
        length_struct={"tokens": 8},
    ),
    "turns": lambda ds: X.InterleaveIterDataset([ds.map(_fail_at_six), rows()], cycle_length=2),
}


@pytest.mark.parametrize("name", ABOVE)
def test_who_keeps_an_error_of_what_is_above_the_workers_does_not_keep_them(name: str) -> None:
    before = set(descendants(os.getpid()))
    gc.disable()
    try:
        iterator = iter(ABOVE[name](with_workers(rows(20), 1)))
        with pytest.raises(LookupError) as kept:
            list(iterator)
        assert set(descendants(os.getpid())) > before
        if name == "own iterator":
            # The traceback shows a frame of the user's, and that one holds it.
            del kept
        del iterator
        assert set(descendants(os.getpid())) <= before
    finally:
        gc.enable()


@pytest.mark.parametrize("ending", ["close", "with", "return"])
def test_an_error_above_the_workers_does_not_keep_them(ending: str) -> None:
    before = set(descendants(os.getpid()))
    dataset = ABOVE["map"](with_workers(rows(20), 1))

    def train() -> None:
        for element in dataset:
            assert element != 6

    gc.disable()
    try:
        if ending == "return":
            with pytest.raises(LookupError):
                train()
        elif ending == "with":
            with pytest.raises(LookupError), iter(dataset) as iterator:
                list(iterator)
        else:
            iterator = iter(dataset)
            with pytest.raises(LookupError):
                list(iterator)
            iterator.close()
        assert set(descendants(os.getpid())) <= before
    finally:
        gc.enable()


@pytest.mark.usefixtures("leaves_nothing")
def test_an_iterator_that_never_gave_an_element_leaves_nothing() -> None:
    iter(with_workers(rows(), 2)).close()
    iterator = iter(with_workers(rows(), 2))
    del iterator
    iterator = iter(with_workers(rows(), 2))
    iterator.start_prefetch()
    assert descendants(os.getpid())
    iterator.close()


@pytest.mark.usefixtures("leaves_nothing")
def test_an_exception_in_the_consumers_loop_leaves_nothing() -> None:
    def train() -> None:
        for number, batch in enumerate(with_workers(images(), 2)):
            assert batch.shape == (4, 64, 64, 3)
            if number == 2:
                raise FloatingPointError("loss is nan")

    with pytest.raises(FloatingPointError):
        train()
    gc.collect()


@pytest.mark.usefixtures("leaves_nothing")
def test_a_loader_leaves_nothing() -> None:
    loader = grain.DataLoader(
        data_source=grain.RangeDataSource(0, 50, 1),
        sampler=grain.IndexSampler(num_records=50, num_epochs=1),
        worker_count=2,
    )
    with iter(loader) as iterator:
        assert next(iterator) == 0
    iterator = iter(loader)
    assert next(iterator) == 0
    del iterator
    assert len(list(loader)) == 50


def test_a_hundred_iterators_made_and_dropped_leave_nothing() -> None:
    def use(number: int) -> None:
        iterator = iter(with_workers(images(), 1))
        if number % 10:
            iterator.start_prefetch()
        else:
            batches = [next(iterator) for _ in range(3)]
            assert int(batches[2][0, 0, 0, 0]) == 8

    use(0)
    gc.collect()
    before, memory = census(), _resident()
    for number in range(100):
        use(number)
    gc.collect()
    assert not beyond(before)
    assert _resident() - memory < 20 << 20


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
