"""Bins of packed sequences."""

from __future__ import annotations

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
    # Without shuffling the feature is not used.
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
