"""Plans: which part of a pipeline is computed where, as a printed value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain
from grain.execution.plan import FusedPlan, plan, plan_nested

from .executors import iterate_inline
from .pipelines import Lines, OwnIterDataset, odd, rows

X = grain.experimental


def shuffled(ds: Any) -> Any:
    return X.WindowShuffleIterDataset(ds, window_size=4, seed=1)


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "map dataset": (rows, "fused: PrefetchIterDataset"),
    "stages": (
        lambda: rows().map(abs).filter(odd).map(abs),
        "fused: PrefetchIterDataset > MapIterDataset > FilterIterDataset > MapIterDataset",
    ),
    "map dataset among the parents": (
        lambda: X.ZipIterDataset([grain.MapDataset.range(9), rows().map(abs)], strict=False),
        """
        consumer: ZipIterDataset
          fused: PrefetchIterDataset
          fused: PrefetchIterDataset > MapIterDataset
        """,
    ),
    "counting above a filter": (
        lambda: rows().filter(odd).batch(2).map(len),
        """
        offload: MapIterDataset
          consumer: BatchIterDataset
            fused: PrefetchIterDataset > FilterIterDataset
        """,
    ),
    "counting below a filter": (
        lambda: rows().batch(2).filter(odd),
        """
        consumer: FilterIterDataset
          fused: PrefetchIterDataset > BatchIterDataset
        """,
    ),
    "sparse map dataset": (
        lambda: grain.MapDataset.range(9).filter(odd).to_iter_dataset().batch(2),
        """
        consumer: BatchIterDataset
          fused: PrefetchIterDataset
        """,
    ),
    "sparse map dataset with None": (
        lambda: grain.MapDataset.range(9).filter(odd).to_iter_dataset(allow_nones=True).batch(2),
        "fused: PrefetchIterDataset > BatchIterDataset",
    ),
    "ordered operation": (
        lambda: shuffled(rows().map(abs)).map(abs).map(abs).filter(odd).map(abs),
        """
        offload: MapIterDataset
          consumer: FilterIterDataset
            offload: MapIterDataset > MapIterDataset
              consumer: WindowShuffleIterDataset
                fused: PrefetchIterDataset > MapIterDataset
        """,
    ),
    "mixture": (
        lambda: grain.IterDataset.mix([rows().map(abs), Lines(0, 5)]),
        """
        consumer: MixedIterDataset
          fused: PrefetchIterDataset > MapIterDataset
          opaque: Lines
        """,
    ),
    "nested prefetch": (
        lambda: X.ThreadPrefetchIterDataset(rows(), prefetch_buffer_size=3).map(abs),
        """
        offload: MapIterDataset
          consumer: ThreadPrefetchIterDataset
            fused: PrefetchIterDataset
        """,
    ),
    "class with an iter method only": (
        lambda: OwnIterDataset(rows()).map(abs),
        """
        offload: MapIterDataset
          opaque: OwnIterDataset
            fused: PrefetchIterDataset
        """,
    ),
    "interleave": (
        lambda: X.InterleaveIterDataset([rows(3), Lines(0, 3)], cycle_length=2).map(abs),
        """
        offload: MapIterDataset
          interleaved: InterleaveIterDataset
        """,
    ),
    "stream": (lambda: Lines(0, 9).map(abs), "stream: MapIterDataset"),
}


def outline(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    return "\n".join(line[margin:] for line in lines)


@pytest.mark.parametrize("name", CASES)
def test_a_plan_prints_as_an_outline(name: str) -> None:
    make, expected = CASES[name]
    assert str(plan(make())) == outline(expected)


@pytest.mark.parametrize("name", [name for name in CASES if name != "stream"])
def test_a_built_plan_has_the_elements_of_the_dataset(name: str) -> None:
    make, _ = CASES[name]
    expected = [np.asarray(element).tolist() for element in make()]
    assert [np.asarray(element).tolist() for element in iterate_inline(make())] == expected


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: grain.MapDataset.range(3), "fused: PrefetchIterDataset"),
        (lambda: rows(3).map(abs), "fused: PrefetchIterDataset > MapIterDataset"),
        (lambda: Lines(0, 3), "stream: Lines"),
        (
            lambda: X.InterleaveIterDataset([rows(3)], cycle_length=1),
            "stream: InterleaveIterDataset",
        ),
    ],
)
def test_datasets_of_an_interleave_are_planned_when_they_are_opened(
    make: Callable[[], Any], expected: str
) -> None:
    assert str(plan_nested(make())) == expected


def test_a_plan_is_frozen_and_makes_no_iterator() -> None:
    class Unreadable(Lines):
        def __iter__(self) -> Any:
            raise AssertionError("Planning must not iterate.")

    found = plan(grain.IterDataset.mix([rows(), Unreadable(0, 3)]))
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.node = None  # type: ignore[attr-defined]


def test_the_plan_without_counting_leaves_counting_stages_to_the_consumer() -> None:
    found = plan(rows().map(abs).batch(2).map(len))
    assert isinstance(found, FusedPlan)
    assert str(found.without_counting()) == outline("""
        offload: MapIterDataset
          consumer: BatchIterDataset
            fused: PrefetchIterDataset > MapIterDataset
        """)
