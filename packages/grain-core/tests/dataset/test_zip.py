"""Zipped datasets yield tuples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain
from grain.experimental import (
    ZipIterDataset,
    ZipMapDataset,
)

from ..helpers.pipelines import INLINE, numbers


def fail_at(bad: int) -> Callable[[int], int]:
    def check(x: int) -> int:
        if x == bad:
            raise ValueError(f"bad element {x}")
        return x

    return check


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


def test_zip_has_a_length() -> None:
    assert len(ZipIterDataset([numbers(3), grain.MapDataset.range(3)])) == 3
