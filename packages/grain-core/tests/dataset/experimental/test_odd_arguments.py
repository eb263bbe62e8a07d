"""Arguments that google/grain takes and that are easily overlooked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import grain

X = grain.experimental
PACKERS = [X.FirstFitPackIterDataset, X.BestFitPackIterDataset]


def documents() -> grain.IterDataset:
    elements = [{"a": np.arange(1 + i % 3), "m": i} for i in range(8)]
    return grain.MapDataset.source(elements).to_iter_dataset()


@pytest.mark.parametrize("pack", PACKERS)
def test_bins_are_grouped_by_a_meta_feature_without_a_length(pack: Any) -> None:
    options = {"length_struct": {"a": 5}, "num_packing_bins": 2, "meta_features": ["m"]}
    grouped = pack(documents(), **options, shuffle_bins_group_by_feature="m")
    assert [row["m"] for row in grouped] == [[0, 1, 3], [2, 4], [5, 6], [7]]
    with pytest.raises(KeyError, match="'n', which is not one of the features 'a', 'm'"):
        pack(documents(), **options, shuffle_bins_group_by_feature="n")
    # Where bins are not shuffled, nobody asks.
    in_order = pack(documents(), **options, shuffle_bins=False, shuffle_bins_group_by_feature="n")
    assert [row["m"] for row in in_order] == [[0, 1, 3], [2, 4], [5, 6], [7]]


@pytest.mark.parametrize("pack", PACKERS)
def test_no_padding_value_for_a_feature_means_zero(pack: Any) -> None:
    elements = [{"a": np.arange(1, 4), "b": np.arange(1, 3)}]
    ds = grain.MapDataset.source(elements).to_iter_dataset()
    [row] = pack(
        ds,
        length_struct={"a": 5, "b": 4},
        num_packing_bins=1,
        padding_struct={"a": None, "b": -1},
    )
    assert row["a"].tolist() == [1, 2, 3, 0, 0]
    assert row["b"].tolist() == [1, 2, -1, -1]


def test_no_seed_is_like_not_calling_seed() -> None:
    ds = grain.MapDataset.range(9).seed(None)
    assert list(ds) == list(range(9))
    assert list(ds.to_iter_dataset().seed(None)) == list(range(9))
    with pytest.raises(ValueError, match="requires a seed"):
        ds.shuffle()
    assert list(ds.shuffle(3)) == list(grain.MapDataset.range(9).shuffle(3))
    # One that is further down counts.
    seeded = grain.MapDataset.range(9).seed(5)
    assert sorted(seeded.seed(None).shuffle()) == list(range(9))


class Twice(grain.transforms.FlatMap):
    max_fan_out = 2

    def flat_map(self, element: int) -> Iterator[int]:
        yield element
        yield element + 100


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_takes_pieces_from_a_generator(workers: int) -> None:
    loader = grain.DataLoader(
        data_source=grain.sources.RangeDataSource(0, 4, 1),
        sampler=grain.samplers.IndexSampler(4, num_epochs=1),
        operations=[Twice()],
        worker_count=workers,
    )
    expected = [0, 100, 1, 101, 2, 102, 3, 103]
    with iter(loader) as iterator:
        found = [next(iterator) for _ in range(3)]
        state = iterator.get_state()
        assert found + list(iterator) == expected
        iterator.set_state(state)
        assert list(iterator) == expected[3:]


@pytest.mark.parametrize("size", ["raises", "deep"])
def test_an_element_that_does_not_tell_its_size_is_an_element_like_others(size: str) -> None:
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
