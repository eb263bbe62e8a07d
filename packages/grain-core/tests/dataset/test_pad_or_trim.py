"""Features have a fixed length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import (
    PadOrTrim,
    ShapeDtypeStruct,
    get_element_spec,
)

from ..helpers.pipelines import numbers


@settings(deadline=None)
@given(length=st.integers(0, 8), target=st.integers(0, 8))
def test_arrays_come_out_at_their_length(length: int, target: int) -> None:
    made = PadOrTrim(target, pad_value=-1).map(np.arange(length))
    assert made.tolist() == (list(range(length)) + [-1] * target)[:target]
    assert made.dtype == np.arange(1).dtype


def test_features_have_lengths_and_values_of_their_own() -> None:
    ds = grain.MapDataset.source([{"a": [1, 2], "b": np.ones((3, 2), np.float32), "id": 5}])
    ds = ds.pad_or_trim({"a": 3, "b": 1}, pad_value={"a": 9})
    element = ds[0]
    assert element["a"].tolist() == [1, 2, 9]
    assert element["b"].shape == (1, 2)
    assert element["id"] == 5
    spec = get_element_spec(
        grain.MapDataset.source([{"a": np.zeros((2, 4))}]).pad_or_trim({"a": 7})
    )
    assert spec == {"a": ShapeDtypeStruct((7, 4), np.float64)}


def test_padded_elements_batch() -> None:
    ds = numbers(1, 5).map(lambda n: np.arange(n)).pad_or_trim(3).batch(4)
    assert next(iter(ds)).tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("lengths", "pad_value", "error"),
    [
        (-1, 0, ValueError),
        ("3", 0, TypeError),
        ({"a": -1}, 0, ValueError),
        ({"a": 1}, {"b": 0}, ValueError),
        (3, {"a": 0}, TypeError),
    ],
)
def test_wrong_lengths_are_refused_when_built(
    lengths: Any, pad_value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        numbers(3).pad_or_trim(lengths, pad_value=pad_value)


def test_pad_or_trim_refuses_what_has_no_such_feature() -> None:
    with pytest.raises(KeyError, match=r"\['a'\].*\['b'\]"):
        PadOrTrim({"a": 2}).map({"b": 1})
    with pytest.raises(TypeError, match="no dictionary"):
        PadOrTrim({"a": 2}).map([1])
    with pytest.raises(TypeError, match="at least one dimension"):
        PadOrTrim(2).map(5)
