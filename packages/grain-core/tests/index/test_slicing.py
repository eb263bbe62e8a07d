"""Slices, selections, concatenations and even splits, with epochs and negative indices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from grain.index.even_split import even_split
from grain.index.slicing import Concatenation, pick_indices, slice_indices, slice_length

WIDE = st.integers(-500, 500)


def array(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(length=st.integers(1, 50), sl=st.slices(50), epoch=st.integers(-3, 3))
@settings(deadline=None)
def test_a_slice_of_any_epoch_is_the_slice_of_that_epoch_of_the_parent(length, sl, epoch):
    start, stop, step = sl.indices(length)
    count = slice_length(start, stop, step)
    assume(count > 0)
    indices = array(list(range(epoch * count, (epoch + 1) * count)))
    parent = list(range(epoch * length, (epoch + 1) * length))
    assert slice_indices(indices, start, step, count, length).tolist() == parent[sl]


@given(length=st.integers(1, 50), data=st.data(), indices=st.lists(WIDE, max_size=20))
@settings(deadline=None)
def test_picked_elements_repeat_in_the_parents_epochs(length, data, indices):
    picked = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=10))
    expected = [picked[index % len(picked)] + index // len(picked) * length for index in indices]
    assert pick_indices(array(indices), array(picked), length).tolist() == expected


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    indices=st.lists(WIDE, max_size=30),
)
@settings(deadline=None)
def test_an_epoch_of_a_concatenation_is_an_epoch_of_every_part(lengths, indices):
    assume(sum(lengths) > 0)
    joined = Concatenation(lengths)
    assert joined.length == sum(lengths)
    places = [(part, place) for part, length in enumerate(lengths) for place in range(length)]
    parts, elements = joined.select(array(indices))
    for index, part, element in zip(indices, parts.tolist(), elements.tolist(), strict=True):
        epoch, within = divmod(index, joined.length)
        expected_part, place = places[within]
        assert (part, element) == (expected_part, place + epoch * lengths[part])


def test_a_concatenation_says_when_it_is_too_long_to_be_counted():
    with pytest.raises(ValueError, match=f"have {2**63} elements together"):
        Concatenation([2**62, 2**62])


@given(length=st.integers(0, 10_000), count=st.integers(1, 64), drop_remainder=st.booleans())
@settings(deadline=None)
def test_pieces_of_an_even_split_are_disjoint_and_in_order(length, count, drop_remainder):
    pieces = [even_split(length, shard, count, drop_remainder) for shard in range(count)]
    joined = [record for piece in pieces for record in piece]
    sizes = [len(piece) for piece in pieces]
    if drop_remainder:
        assert joined == list(range(length - length % count))
        assert len(set(sizes)) == 1
    else:
        assert joined == list(range(length))
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] - sizes[-1] <= 1
