"""An error comes after the elements before it, whatever the size of chunks, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain
from grain import experimental

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
FAILING = [(5,), (0,), (7, 8), (3, 11, 12), (23,)]
Parent = Callable[..., grain.IterDataset]


def tokens(x: int) -> dict[str, np.ndarray]:
    return {"t": np.arange(1 + x % 4)}


def rows(x: int) -> np.ndarray:
    return np.arange(1 + x % 3)


def same(x: int) -> int:
    return x


class Several(experimental.FlatMapTransform):
    max_fan_out = 3

    def flat_map(self, element: int) -> list[int]:
        return [element] * (element % 4)


def parent_failing_at(failing: tuple[int, ...]) -> Parent:
    def parent(function: Callable[[int], Any] = same, fails: bool = True) -> grain.IterDataset:
        def compute(x: int) -> Any:
            if fails and x in failing:
                raise LookupError(f"no {x}")
            return function(x)

        return grain.MapDataset.range(24).to_iter_dataset(INLINE).map(compute)

    return parent


OPERATIONS: dict[str, Callable[[Parent], grain.IterDataset]] = {
    "map": lambda p: p().map(lambda x: x + 1),
    "random map": lambda p: p().seed(1).random_map(lambda x, rng: x + int(rng.integers(9))),
    "filter": lambda p: p().filter(lambda x: x % 3),
    "batch": lambda p: p().batch(3),
    "rebatch": lambda p: experimental.RebatchIterDataset(p(rows), 2),
    "rebatch to larger": lambda p: experimental.RebatchIterDataset(p(rows), 5),
    "window shuffle": lambda p: p().window_shuffle(4, seed=1),
    "limit": lambda p: p().limit(15),
    "repeat": lambda p: p().repeat(2),
    "flat map": lambda p: experimental.FlatMapIterDataset(p(), Several()),
    "zip, first": lambda p: experimental.ZipIterDataset([p(), p(fails=False)]),
    "zip, second": lambda p: experimental.ZipIterDataset([p(fails=False), p()]),
    "mix": lambda p: grain.IterDataset.mix([p(), p(fails=False)], [0.4, 0.6]),
    "interleave": lambda p: experimental.InterleaveIterDataset(
        grain.MapDataset.range(3).map(lambda i: p(fails=i == 1)), cycle_length=2
    ),
    "concatenate and split": lambda p: experimental.ConcatThenSplitIterDataset(
        p(tokens), length_struct={"t": 5}
    ),
    "first fit": lambda p: experimental.FirstFitPackIterDataset(
        p(tokens), length_struct={"t": 5}, num_packing_bins=2
    ),
    "best fit": lambda p: experimental.BestFitPackIterDataset(
        p(tokens), length_struct={"t": 5}, num_packing_bins=2
    ),
    "rebatch packed rows": lambda p: experimental.RebatchIterDataset(
        experimental.BestFitPackIterDataset(p(tokens), length_struct={"t": 5}, num_packing_bins=2),
        5,
    ),
}


def outcomes(ds: grain.IterDataset, size: int) -> list[Any]:
    """Return elements as lists and errors as text, in the order in which chunks of a size bring them."""
    iterator: Any = iter(ds)
    found: list[Any] = []
    while len(found) < 200:
        try:
            chunk = iterator.next_chunk(size)
        except LookupError as error:
            found.append(str(error.args[0]))
            continue
        if not chunk.elements:
            break
        found += [
            grain.tree.map_leaves(lambda x: np.asarray(x).tolist(), e) for e in chunk.elements
        ]
    iterator.close()
    return found


@pytest.mark.parametrize("failing", FAILING, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_errors_come_at_their_place(operation, failing):
    ds = OPERATIONS[operation](parent_failing_at(failing))
    expected = outcomes(ds, 1)
    assert any(str(outcome).startswith("no ") for outcome in expected) or operation in (
        "limit",
        "mix",
    )
    for size in (2, 3, 5, 50):
        assert outcomes(ds, size) == expected
