"""Zip, rebatch and interleave: elements of several datasets or batches, put together."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import (
    InterleaveIterDataset,
    RebatchIterDataset,
    ZipIterDataset,
    ZipMapDataset,
)

from ...helpers.pipelines import INLINE, numbers


def fail_at(bad: int) -> Callable[[int], int]:
    def check(x: int) -> int:
        if x == bad:
            raise ValueError(f"bad element {x}")
        return x

    return check


# Zip


def test_zip_of_map_datasets_follows_their_epochs() -> None:
    one, two = grain.MapDataset.range(4).shuffle(1), grain.MapDataset.range(10, 14).shuffle(2)
    zipped = ZipMapDataset([one, two])
    assert [zipped[i] for i in range(12)] == [(one[i], two[i]) for i in range(12)]
    assert len(zipped) == 4


def test_zip_of_map_datasets_batches_by_columns() -> None:
    zipped = ZipMapDataset([grain.MapDataset.range(4), grain.MapDataset.source(np.ones((4, 2)))])
    (first, second) = zipped.batch(4)[0]
    assert first.tolist() == [0, 1, 2, 3]
    assert second.shape == (4, 2)


def test_zip_gives_what_comes_before_the_first_error_of_any_parent() -> None:
    good = grain.MapDataset.range(6)
    zipped = ZipMapDataset([good.map(fail_at(4)), good, good.map(fail_at(2))])
    iterator = iter(zipped.to_iter_dataset(INLINE).batch(1))
    assert [next(iterator)[0].tolist() for _ in range(2)] == [[0], [1]]
    with pytest.raises(ValueError, match="bad element 2"):
        next(iterator)


def test_zip_keeps_tuples_of_filtered_elements() -> None:
    zipped = ZipMapDataset(
        [grain.MapDataset.range(2), grain.MapDataset.range(2).filter(lambda x: x == 1)]
    )
    assert list(zipped) == [(0, None), (1, 1)]


@pytest.mark.parametrize("kind", [ZipMapDataset, ZipIterDataset])
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ([], ValueError, "At least one parent"),
        ([[1, 2]], TypeError, "item 0"),
        (grain.MapDataset.range(3), TypeError, "sequence of datasets"),
    ],
)
def test_wrong_parents_of_zip_are_refused_when_built(
    kind: Any, wrong: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        kind(wrong)


def test_zip_of_map_datasets_of_different_length_is_refused_when_built() -> None:
    with pytest.raises(ValueError, match=r"same length.*\[2, 3\]"):
        ZipMapDataset([grain.MapDataset.range(2), grain.MapDataset.range(3)])


def test_zip_resumes_at_every_step(
    parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    elements = resumes(
        lambda: ZipIterDataset([parent_of(range(6)), numbers(6), parent_of(range(10, 16))])
    )
    assert elements == [[i, i, i + 10] for i in range(6)]


@pytest.mark.parametrize("lengths", [(4, 6), (6, 4)])
def test_zip_that_is_not_strict_ends_with_the_shortest_and_resumes(
    lengths: tuple[int, int], parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    elements = resumes(
        lambda: ZipIterDataset([parent_of(range(length)) for length in lengths], strict=False)
    )
    assert elements == [[i, i] for i in range(4)]


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ((3, 2), "argument 2 is shorter than argument 1"),
        ((2, 3), "argument 2 is longer than argument 1"),
        ((3, 3, 2), "argument 3 is shorter than arguments 1-2"),
        ((2, 2, 3), "argument 3 is longer than arguments 1-2"),
    ],
)
def test_strict_zip_names_the_parent_that_does_not_match(
    lengths: tuple[int, ...], message: str
) -> None:
    iterator = iter(ZipIterDataset([numbers(length) for length in lengths]))
    for _ in range(2):
        next(iterator)
    with pytest.raises(ValueError, match=message):
        next(iterator)


def test_zip_stays_aligned_behind_an_element_that_failed() -> None:
    failing = numbers(8).map(fail_at(3))
    for parents in ([numbers(8), failing], [failing, numbers(8)]):
        iterator = iter(ZipIterDataset(parents))
        found, errors = [], 0
        while True:
            try:
                found.append(next(iterator))
            except StopIteration:
                break
            except ValueError:
                errors += 1
        assert errors == 1
        assert found == [(i, i) for i in range(8) if i != 3]


def test_zip_knows_its_length() -> None:
    assert len(ZipIterDataset([numbers(3), grain.MapDataset.range(3)])) == 3


# Rebatch


@settings(deadline=None, max_examples=60)
@given(sizes=st.lists(st.integers(0, 9), max_size=12), size=st.integers(1, 12), drop=st.booleans())
def test_rebatch_keeps_rows_and_their_order(sizes: list[int], size: int, drop: bool) -> None:
    ends = np.cumsum([0, *sizes]).tolist()
    batches = [
        {"a": np.arange(start, end), "b": [np.arange(start, end).reshape(-1, 1) * 2.0]}
        for start, end in itertools.pairwise(ends)
    ]
    source = grain.MapDataset.source(batches).to_iter_dataset(INLINE)
    made = list(RebatchIterDataset(source, size, drop_remainder=drop))
    rows = [row for batch in made for row in batch["a"].tolist()]
    assert rows == list(range(sum(sizes) // size * size if drop else sum(sizes)))
    assert all(len(batch["a"]) == size for batch in made[:-1])
    for batch in made:
        assert (batch["b"][0][:, 0] == batch["a"] * 2.0).all()


@pytest.mark.parametrize("size", [1, 3, 4, 7, 50])
@pytest.mark.parametrize("drop", [False, True])
def test_rebatch_resumes_at_every_step(
    size: int, drop: bool, parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    batches = [np.arange(0, 5), np.arange(5, 9), np.arange(9, 9), np.arange(9, 16)]
    resumes(lambda: RebatchIterDataset(parent_of(batches), size, drop_remainder=drop))


@pytest.mark.parametrize(
    ("batches", "error", "message"),
    [
        ([1], TypeError, "int"),
        ([{"a": np.arange(2), "b": np.arange(3)}], ValueError, r"\[2, 3\]"),
        ([{"a": np.arange(2)}, {"b": np.arange(2)}], ValueError, "different structure"),
        ([np.ones((2, 2)), np.ones((2, 3))], ValueError, r"\(2, 3\)"),
    ],
)
def test_batches_that_do_not_fit_together_are_an_error(
    batches: list[Any], error: type[Exception], message: str
) -> None:
    source = grain.MapDataset.source(batches).to_iter_dataset(INLINE)
    with pytest.raises(error, match=message):
        list(RebatchIterDataset(source, 3))


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), ("4", TypeError)])
def test_wrong_batch_size_is_refused_when_built(size: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="batch_size"):
        RebatchIterDataset(numbers(3), size)


# Interleave


@settings(deadline=None, max_examples=60)
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=8), cycle=st.integers(1, 10))
def test_interleave_gives_every_element_once_in_each_datasets_order(
    lengths: list[int], cycle: int
) -> None:
    files = [grain.MapDataset.range(100 * i, 100 * i + length) for i, length in enumerate(lengths)]
    ds = InterleaveIterDataset(files, cycle_length=cycle)
    elements = list(ds)
    for number, file in enumerate(files):
        assert [x for x in elements if x // 100 == number] == list(file)
    assert len(elements) == len(ds) == sum(lengths)


@pytest.mark.parametrize("cycle", [1, 2, 3, 9])
def test_interleave_resumes_at_every_step(
    cycle: int, parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    lengths = (3, 0, 1, 4, 2)
    files = [parent_of(range(10 * i, 10 * i + length)) for i, length in enumerate(lengths)]
    elements = resumes(lambda: InterleaveIterDataset(files, cycle_length=cycle))
    assert len(elements) == sum(lengths)


@pytest.mark.usefixtures("nothing_is_slow")
def test_interleave_opens_datasets_when_they_are_needed_and_closes_them() -> None:
    opened: list[int] = []
    closed: list[int] = []

    class File(grain.IterDataset):
        def __init__(self, number: int):
            super().__init__()
            self.number = number

        def __iter__(self) -> grain.DatasetIterator:
            opened.append(self.number)
            return FileIterator(self.number)

    class FileIterator(grain.DatasetIterator):
        def __init__(self, number: int):
            super().__init__()
            self.left = 2
            self.number = number

        def __next__(self) -> int:
            if not self.left:
                raise StopIteration
            self.left -= 1
            return self.number

        def get_state(self) -> int:
            return self.left

        def set_state(self, state: int) -> None:
            self.left = state

        def close(self) -> None:
            closed.append(self.number)
            super().close()

    files = grain.MapDataset.range(6).map(File)
    with iter(InterleaveIterDataset(files, cycle_length=2)) as iterator:
        assert [next(iterator) for _ in range(4)] == [0, 1, 0, 1]
        assert opened == [0, 1]
        assert next(iterator) == 2
        assert closed == [0, 1]
    assert sorted(closed) == [0, 1, 2]


def test_interleave_takes_states_of_datasets_that_come_later() -> None:
    files = [numbers(3), numbers(10, 13)]
    iterator = iter(InterleaveIterDataset(files, cycle_length=1))
    state = iterator.get_state() | {"future_states": {"1": {"next_index": 2}}}
    iterator.set_state(state)
    assert iterator.get_state() == state
    assert list(iterator) == [0, 1, 2, 12]


def test_interleave_pickles() -> None:
    ds = InterleaveIterDataset([numbers(2), numbers(5, 7)], cycle_length=2)
    assert list(pickle.loads(pickle.dumps(ds))) == list(ds) == [0, 5, 1, 6]


@pytest.mark.parametrize(
    ("datasets", "options", "error", "message"),
    [
        ([], {}, ValueError, "at least one dataset"),
        ([[1, 2]], {}, TypeError, "item 0"),
        (3, {}, TypeError, "sequence of datasets"),
        ([grain.MapDataset.range(2)], {"cycle_length": 0}, ValueError, "cycle_length"),
        ([grain.MapDataset.range(2)], {"cycle_length": "2"}, TypeError, "cycle_length"),
        ([grain.MapDataset.range(2)], {"iter_buffer_size": -1}, ValueError, "iter_buffer_size"),
    ],
)
def test_wrong_use_of_interleave_is_refused_when_built(
    datasets: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        InterleaveIterDataset(datasets, **({"cycle_length": 1} | options))


def test_a_state_of_other_datasets_is_an_error() -> None:
    state = iter(InterleaveIterDataset([numbers(2)] * 3, cycle_length=3)).get_state()
    with pytest.raises(ValueError, match="another set of datasets"):
        iter(InterleaveIterDataset([numbers(2)], cycle_length=3)).set_state(state)
