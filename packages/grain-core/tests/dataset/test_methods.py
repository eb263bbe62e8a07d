"""Operations where a user looks for them: methods of the datasets, equal to the classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain
from grain import experimental as ex

from ..helpers.pipelines import INLINE, Twice, numbers

DOCUMENTS = [{"x": np.arange(1, n + 1)} for n in (3, 1, 2, 3, 1)]


def documents() -> grain.IterDataset:
    return grain.MapDataset.source(DOCUMENTS).to_iter_dataset(INLINE)


PAIRS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "map_window_shuffle": (
        lambda: grain.MapDataset.range(9).window_shuffle(4, seed=2),
        lambda: ex.WindowShuffleMapDataset(
            grain.MapDataset.range(9), window_size=4, seed=2, within_epochs=True
        ),
    ),
    "iter_window_shuffle": (
        lambda: numbers(9).window_shuffle(4, seed=2),
        lambda: ex.WindowShuffleIterDataset(numbers(9), window_size=4, seed=2),
    ),
    "map_zip": (
        lambda: grain.MapDataset.range(3).zip(grain.MapDataset.range(5, 8)),
        lambda: ex.ZipMapDataset([grain.MapDataset.range(3), grain.MapDataset.range(5, 8)]),
    ),
    "iter_zip": (
        lambda: numbers(3).zip(numbers(5), strict=False),
        lambda: ex.ZipIterDataset([numbers(3), numbers(5)], strict=False),
    ),
    "map_flat_map": (
        lambda: grain.MapDataset.range(3).flat_map(Twice()),
        lambda: ex.FlatMapMapDataset(grain.MapDataset.range(3), Twice()),
    ),
    "iter_flat_map": (
        lambda: numbers(3).flat_map(Twice()),
        lambda: ex.FlatMapIterDataset(numbers(3), Twice()),
    ),
    "limit": (lambda: numbers(9).limit(4), lambda: ex.LimitIterDataset(numbers(9), 4)),
    "repeat": (lambda: numbers(3).repeat(2), lambda: ex.RepeatIterDataset(numbers(3), 2)),
    "cache": (
        lambda: numbers(3).cache().repeat(2),
        lambda: ex.RepeatIterDataset(ex.CacheIterDataset(numbers(3)), 2),
    ),
    "rebatch": (
        lambda: numbers(9).batch(2).rebatch(4, drop_remainder=True),
        lambda: ex.RebatchIterDataset(numbers(9).batch(2), 4, drop_remainder=True),
    ),
    "unbatch": (
        lambda: numbers(9).batch(2).unbatch(),
        lambda: ex.UnbatchIterDataset(numbers(9).batch(2)),
    ),
    "pack": (
        lambda: documents().pack({"x": 4}, num_packing_bins=2, seed=3),
        lambda: ex.FirstFitPackIterDataset(
            documents(), length_struct={"x": 4}, num_packing_bins=2, seed=3
        ),
    ),
    "pack_best_fit": (
        lambda: documents().pack({"x": 4}, strategy="best_fit", num_packing_bins=2),
        lambda: ex.BestFitPackIterDataset(documents(), length_struct={"x": 4}, num_packing_bins=2),
    ),
    "pack_concat": (
        lambda: documents().pack({"x": 4}, strategy="concat_then_split"),
        lambda: ex.ConcatThenSplitIterDataset(documents(), length_struct={"x": 4}),
    ),
}


@pytest.mark.parametrize(("method", "cls"), PAIRS.values(), ids=PAIRS.keys())
def test_a_method_is_its_class(
    method: Callable[[], Any], cls: Callable[[], Any], as_plain: Callable[[Any], Any]
) -> None:
    assert type(method()) is type(cls())
    one, other = iter(method()), iter(cls())
    assert one.get_state() == other.get_state()
    for a, b in zip(one, other, strict=True):
        assert as_plain(a) == as_plain(b)
        assert one.get_state() == other.get_state()


def test_an_unknown_way_of_packing_is_refused_when_built() -> None:
    with pytest.raises(ValueError, match="first_fit"):
        documents().pack({"x": 4}, strategy="worst_fit")
    with pytest.raises(TypeError, match="num_packing_bins"):
        documents().pack({"x": 4}, strategy="concat_then_split", num_packing_bins=2)
