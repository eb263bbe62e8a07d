"""Epochs: a dataset for each, and the warning that a dataset is iterated again as it was."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import grain
from grain.dataset import same_epoch

Map = grain.MapDataset


def draw(x: Any, rng: np.random.Generator) -> Any:
    return int(x) * 1000 + int(rng.integers(1000))


def shuffled() -> Any:
    return Map.range(10).seed(3).shuffle().random_map(draw)


@pytest.fixture
def warned() -> Iterator[list[warnings.WarningMessage]]:
    same_epoch.forget()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found
    same_epoch.forget()


# --- a dataset for each epoch --------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda ds: ds,
        lambda ds: ds.batch(4),
        lambda ds: ds.filter(lambda x: x % 3 > 0),
        lambda ds: ds[1:9:2],
        lambda ds: ds.to_iter_dataset().batch(4),
        lambda ds: ds.to_iter_dataset().filter(lambda x: x % 3 > 0).batch(2),
        lambda ds: ds.to_iter_dataset().batch(2).mp_prefetch(num_workers=1),
    ],
)
def test_epochs_differ_and_are_the_same_in_every_run(make):
    runs = [
        [[np.asarray(x).tolist() for x in epoch] for epoch in make(shuffled()).epochs(3)]
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len({str(epoch) for epoch in runs[0]}) == 3


def test_epochs_of_a_map_dataset_joined_are_repeat():
    joined = [x for epoch in shuffled().batch(4).epochs(3) for x in epoch]
    repeated = list(shuffled().batch(4).repeat(3))
    assert [x.tolist() for x in joined] == [x.tolist() for x in repeated]


def test_the_first_epoch_is_the_dataset_itself_and_a_run_may_start_later():
    ds = shuffled()
    assert next(ds.epochs()) is ds
    later = [list(epoch) for epoch in ds.epochs(4, first=2)]
    assert later == [list(epoch) for epoch in ds.epochs(4)][2:]
    assert len(later) == 2
    assert list(ds.epochs(2, first=2)) == []


def test_random_operations_of_streams_draw_again():
    ds = Map.range(8).to_iter_dataset().random_map(draw, seed=1).window_shuffle(4, seed=2)
    epochs = [list(epoch) for epoch in ds.epochs(3)]
    assert epochs[0] == list(ds)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert all(sorted(x // 1000 for x in epoch) == list(range(8)) for epoch in epochs)


def test_mixtures_and_interleaved_datasets_have_epochs():
    part = Map.range(8).shuffle(seed=1)
    mixed = grain.IterDataset.mix([part.to_iter_dataset(), part.to_iter_dataset()])
    interleaved = grain.experimental.InterleaveIterDataset([part, part], cycle_length=2)
    for ds in (mixed, interleaved):
        one, two = (list(epoch) for epoch in ds.epochs(2))
        assert one == list(ds) != two
        assert sorted(one) == sorted(two)


def test_a_state_belongs_to_its_epoch():
    ds = shuffled().to_iter_dataset().batch(3)
    _, second = ds.epochs(2)
    iterator = iter(second)
    next(iterator)
    state = iterator.get_state()
    expected = [x.tolist() for x in iterator]
    resumed = iter(list(ds.epochs(2))[1])
    resumed.set_state(state)
    assert [x.tolist() for x in resumed] == expected
    lines = [str(line) for line in second.fingerprint()]
    assert "operation: epoch(number=1)" in lines


def test_wrong_numbers_and_endless_datasets_are_refused():
    with pytest.raises(ValueError, match="num_epochs must be positive"):
        shuffled().epochs(0)
    with pytest.raises(ValueError, match="first must be non-negative"):
        shuffled().epochs(3, first=-1)
    for ds in (shuffled().repeat(), shuffled().repeat().to_iter_dataset()):
        with pytest.raises(ValueError, match="call `epochs` instead of `repeat`"):
            ds.epochs(2)


# --- the warning ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: shuffled(),
        lambda: shuffled().to_iter_dataset().batch(2),
        lambda: shuffled().to_iter_dataset().mp_prefetch(num_workers=1),
        lambda: Map.range(4).to_iter_dataset().window_shuffle(2, seed=1),
    ],
)
def test_a_second_pass_over_a_shuffled_dataset_warns_once_and_yields_the_same(make, warned):
    ds = make()
    passes = [[np.asarray(x).tolist() for x in ds] for _ in range(3)]
    assert passes[0] == passes[1] == passes[2]
    [warning] = warned
    assert "ds.epochs(n)" in str(warning.message)
    assert warning.filename == __file__


def test_other_loops_do_not_warn(warned):
    for _ in range(2):
        list(Map.range(4))
        list(Map.range(4).shuffle(seed=1))
    ds = shuffled()
    for _ in range(2):
        next(iter(ds))
    for epoch in ds.epochs(3):
        list(epoch)
    assert list(ds.repeat(2))
    assert not warned


@pytest.mark.parametrize(
    "extend",
    [
        lambda ds: ds.batch(2),
        lambda ds: ds.map(abs).filter(bool),
        lambda ds: ds.repeat(2),
        lambda ds: Own(ds),
        lambda ds: grain.IterDataset.mix([ds, ds.map(abs)]),
        lambda ds: grain.experimental.FlatMapIterDataset(ds, Twice()),
        lambda ds: ds.mp_prefetch(num_workers=1),
    ],
)
def test_a_dataset_may_be_looked_at_before_others_read_from_it(extend, warned):
    ds = shuffled().to_iter_dataset()
    assert len(list(ds)) == 10
    assert list(extend(ds))
    assert not warned


def test_reading_a_part_is_no_pass(warned):
    ds = shuffled().to_iter_dataset()
    assert len(list(ds.limit(2))) == 2
    assert len(list(shuffled()[:3])) == 3
    assert list(ds.batch(5))
    by_index = shuffled()
    assert list(by_index[:2])
    assert list(by_index.to_iter_dataset())
    assert not warned


def test_epochs_after_a_pass_do_not_warn(warned):
    for ds in (shuffled(), shuffled().to_iter_dataset().batch(2)):
        assert list(ds)
        assert all(list(epoch) for epoch in ds.epochs(2))
    assert not warned


def test_resuming_after_a_pass_does_not_warn(warned):
    for ds in (shuffled(), shuffled().to_iter_dataset().batch(2)):
        iterator = iter(ds)
        next(iterator)
        state, rest = iterator.get_state(), [np.asarray(x).tolist() for x in iterator]
        resumed = iter(ds)
        resumed.set_state(state)
        assert [np.asarray(x).tolist() for x in resumed] == rest
        grain.experimental.assert_equal_output_after_checkpoint(ds)
    assert not warned


def test_a_pipeline_that_is_built_again_for_each_epoch_warns(warned):
    ds = shuffled().to_iter_dataset()
    for _ in range(3):  # As `fit` of Keras does.
        list(ds.map(abs).batch(2))
    [warning] = warned
    assert warning.filename == __file__


class Own(grain.IterDataset):
    """A user's class, which opens its parent itself."""

    def __iter__(self) -> Any:
        return iter(self.parents[0])


class Twice(grain.experimental.FlatMapTransform):
    max_fan_out = 2

    def flat_map(self, element: Any) -> Any:
        return [element, element]


def test_a_program_sees_the_warning():
    program = (
        "import grain\n"
        "ds = grain.MapDataset.range(3).shuffle(seed=1)\n"
        "for epoch in range(3):\n"
        "    for x in ds:\n"
        "        pass\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr.count("read to its end before") == 1
