"""Bins are found as by looking at all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.dataset.packing.bin_search import BestFitSearch, ChosenBinSearch, FirstFitSearch

X = grain.experimental


def first_fit(fits: Any, used: Any) -> int:
    return int(fits.argmax())


def best_fit(fits: Any, used: Any) -> int:
    return int(np.where(fits, used, -1).argmax())


RULES = [(FirstFitSearch, first_fit), (BestFitSearch, best_fit)]


@pytest.mark.parametrize(("search", "rule"), RULES)
@settings(deadline=None, max_examples=100)
@given(data=st.data(), lengths=st.lists(st.integers(0, 20), min_size=1, max_size=3))
def test_a_search_finds_what_its_rule_chooses(
    search: Any, rule: Any, data: Any, lengths: list[int]
) -> None:
    bins = data.draw(st.integers(1, 6))
    quick, slow = search(lengths, bins), ChosenBinSearch(lengths, bins, rule)
    for _ in range(data.draw(st.integers(0, 25))):
        sizes = [data.draw(st.integers(0, length + 1)) for length in lengths]
        number = quick.find(sizes)
        assert number == slow.find(sizes)
        if number < 0:
            continue
        # An alignment may take more cells than there are.
        taken = [size + data.draw(st.integers(0, 3)) for size in sizes]
        closes = data.draw(st.integers(0, 5)) == 0
        for each in (quick, slow):
            each.take(number, taken)
            if closes:
                each.close(number)


class LastFit(X.FirstFitPackIterDataset):
    """Packs into the last bin in use that has room."""

    def choose_bin(self, fits: Any, used: Any) -> int:
        return len(fits) - 1 - int(fits[::-1].argmax())


def test_a_subclass_that_chooses_bins_is_followed() -> None:
    elements = [{"a": np.full(1, number)} for number in range(6)]
    ds = LastFit(
        grain.MapDataset.source(elements).to_iter_dataset(),
        length_struct={"a": 3},
        num_packing_bins=3,
        shuffle_bins=False,
    )
    assert [row["a"].tolist() for row in ds] == [[0, 0, 0], [1, 5, 0], [2, 3, 4]]
