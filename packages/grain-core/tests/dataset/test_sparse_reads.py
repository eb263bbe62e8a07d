"""Filters read their input in chunks of their own size, whatever the consumer requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import grain

from ..helpers.pipelines import INLINE

pytestmark = pytest.mark.filterwarnings("ignore:Transformation")


class CountingSource:
    """Integers, with the sizes of the reads."""

    def __init__(self, length: int):
        self.length = length
        self.reads: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index

    def __getitems__(self, indices: list[int]) -> list[int]:
        self.reads.append(len(indices))
        return indices


def rare(x: int) -> bool:
    return x % 1000 == 999


SPARSE = {
    "map filter": lambda ds: ds.filter(rare).to_iter_dataset(INLINE),
    "iter filter": lambda ds: ds.to_iter_dataset(INLINE).filter(rare),
    "filter below a batch": lambda ds: ds.to_iter_dataset(INLINE).filter(rare).batch(1),
    "two filters": lambda ds: ds.to_iter_dataset(INLINE).filter(lambda x: x % 10 == 9).filter(rare),
}


@pytest.mark.parametrize("shape", list(SPARSE))
def test_the_input_of_a_sparse_filter_is_read_in_growing_chunks(shape: str) -> None:
    source = CountingSource(100_000)
    found = list(SPARSE[shape](grain.MapDataset.source(source)))
    assert np.concatenate([np.ravel(x) for x in found]).tolist() == list(range(999, 100_000, 1000))
    # One or two at a time would be tens of thousands of reads.
    assert len(source.reads) < 5_000


def keep_later(x: int) -> bool:
    return x >= 3000 or x % 500 == 0


DENSE_LATER = {
    "map filter": lambda ds: ds.filter(keep_later).to_iter_dataset(INLINE),
    "iter filter": lambda ds: ds.to_iter_dataset(INLINE).filter(keep_later),
}


@pytest.mark.parametrize("shape", list(DENSE_LATER))
def test_elements_kept_beyond_those_requested_are_delivered_with_their_states(shape: str) -> None:
    """A consumer that requests few elements at a time gets few, of large chunks that were read."""
    ds = DENSE_LATER[shape](grain.MapDataset.range(4000))
    expected = [x for x in range(4000) if keep_later(x)]
    iterator: Any = iter(ds)
    found: list[Any] = []
    limits = [1, 3, 2, 7, 1]
    while (chunk := iterator.next_chunk(limits[len(found) % 5])).elements:
        assert len(chunk.elements) <= 7
        for offset, element in enumerate(chunk.elements):
            assert chunk.state_after(offset) == {"next_index": element + 1}
        found += chunk.elements
        # Where all kept elements were delivered, dropped ones after them may have been read.
        following = next(iter(expected[len(found) :]), 4000)
        assert found[-1] < iterator.get_state()["next_index"] <= following
    assert found == expected


def test_an_error_comes_after_the_elements_kept_before_it() -> None:
    def fail(x: int) -> bool:
        if x == 2500:
            raise KeyError("bad")
        return x > 2000

    iterator: Any = iter(grain.MapDataset.range(3000).to_iter_dataset(INLINE).filter(fail))
    found: list[int] = []
    while len(found) < 499:
        found += iterator.next_chunk(2).elements
    with pytest.raises(KeyError, match="bad"):
        iterator.next_chunk(2)
    assert found == list(range(2001, 2500))
    assert next(iterator) == 2501
