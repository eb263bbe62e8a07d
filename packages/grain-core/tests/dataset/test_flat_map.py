"""Elements are split into several."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import FlatMapIterDataset, FlatMapMapDataset

from ..helpers.pipelines import INLINE


class Count(grain.transforms.FlatMap):
    """Splits an element into `element % 4` pieces, as a list, a tuple or a generator."""

    max_fan_out = 3

    def __init__(self, kind: Any = list):
        self.kind = kind

    def flat_map(self, element: int) -> Any:
        return self.kind((element, piece) for piece in range(element % 4))


class Fails(Count):
    """Fails at one element."""

    def flat_map(self, element: int) -> Any:
        if element == 5:
            raise ValueError("five")
        return super().flat_map(element)


class Many(grain.transforms.FlatMap):
    """Splits each element into many pieces."""

    max_fan_out = 3000

    def flat_map(self, element: int) -> list[int]:
        return [element] * self.max_fan_out


KINDS = [list, tuple, iter]


@pytest.mark.parametrize("kind", KINDS)
def test_the_iter_form_resumes_at_every_piece(
    kind: Any, parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    resumes(lambda: FlatMapIterDataset(parent_of(list(range(11))), Count(kind)))


@settings(deadline=None, max_examples=60)
@given(indices=st.lists(st.integers(0, 70), max_size=12), kind=st.sampled_from(KINDS))
def test_many_indices_give_what_each_gives(indices: list[int], kind: Any) -> None:
    ds = FlatMapMapDataset(grain.MapDataset.range(11), Count(kind))
    assert ds.__getitems__(indices) == [ds[index] for index in indices]


@settings(deadline=None, max_examples=60)
@given(first=st.integers(0, 70), count=st.integers(0, 40))
def test_a_range_of_indices_gives_what_each_gives(first: int, count: int) -> None:
    ds = FlatMapMapDataset(grain.MapDataset.range(11), Count())
    indices = list(range(first, first + count))
    assert ds.__getitems__(indices) == [ds[index] for index in indices]


@pytest.mark.parametrize("indices", [[15, 16, 17], [0, 15, 1], [4, 3, 17, 2], [14, 15]])
def test_the_element_that_fails_is_named(indices: list[int]) -> None:
    ds = FlatMapMapDataset(grain.MapDataset.range(11), Fails())
    failed = next(index for index in indices if index >= 15)
    with pytest.raises(ValueError, match="five") as caught:
        ds.__getitems__(indices)
    assert f"index {failed}," in "".join(caught.value.__notes__)


def test_pieces_before_an_error_are_read() -> None:
    ds = FlatMapMapDataset(grain.MapDataset.range(11), Fails())
    read = ds.read_many(np.array([3, 4, 13, 16, 3]))
    assert list(read) == [(1, 0), None, None]
    assert isinstance(read.error, ValueError)


def test_the_stream_resumes_after_an_element_that_fails() -> None:
    iterator = iter(
        FlatMapIterDataset(grain.MapDataset.range(4, 8).to_iter_dataset(INLINE), Fails())
    )
    with pytest.raises(ValueError, match="five"):
        next(iterator)
    state = iterator.get_state()
    rest = list(iterator)
    assert rest == [(6, 0), (6, 1), (7, 0), (7, 1), (7, 2)]
    iterator.set_state(state)
    assert list(iterator) == rest


def test_states_of_many_large_elements_do_not_nest() -> None:
    elements = 2 * sys.getrecursionlimit()
    ds = FlatMapIterDataset(grain.MapDataset.range(elements).to_iter_dataset(INLINE), Many())
    iterator = iter(ds)
    chunk = iterator.next_chunk(elements)
    while chunk.elements and chunk.elements[-1] < elements - 1:
        chunk = iterator.next_chunk(1)
    assert chunk.state_after(0) == {
        "parent": {"next_index": elements - 1},
        "next_index_in_buffer": 1,
    }
