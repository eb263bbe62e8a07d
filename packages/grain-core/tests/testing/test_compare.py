"""Comparison and overwriting of elements."""

from __future__ import annotations

import numpy as np
import pytest

from grain.testing.compare import difference, overwrite


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (np.int64(1), np.int32(1)),
        (np.zeros(2), np.zeros(3)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1, 2], (1, 2)),
        ({"a": [np.arange(3)]}, {"a": [np.arange(3) + 1]}),
        (b"a", b"b"),
        (None, 0),
    ],
)
def test_elements_that_differ_in_type_or_value_differ(one, other):
    assert difference(one, other) is not None
    assert difference(one, one) is None


def test_nan_equals_itself():
    for value in (float("nan"), np.float32("nan"), np.array([np.nan, 1])):
        assert difference(value, value) is None


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(3, np.float32),
        np.array([True, False]),
        np.array(["ab", "c"]),
        np.array(["2020-01-01"], "datetime64[D]"),
        np.array([None, "x"], object),
        np.zeros((), np.int8),
        [1],
        {"a": 1},
        bytearray(b"ab"),
    ],
)
def test_overwriting_changes_every_mutable_value(value):
    before = value.copy() if not isinstance(value, bytearray) else bytearray(value)
    overwrite(value)
    assert difference(before, value) is not None


class Tensor:
    """An array of another library, whose `==` compares element by element."""

    def __init__(self, values):
        self.values = np.array(values)
        self.shape, self.dtype = self.values.shape, self.values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __eq__(self, other):
        return self.values == other.values

    __hash__ = None


def test_arrays_of_other_libraries_are_compared_and_overwritten_by_value():
    assert difference(Tensor([1, 2]), Tensor([1, 2])) is None
    assert difference(Tensor([1, 2]), Tensor([1, 3])) is not None
    assert difference(Tensor([1, 2]), Tensor([1.0, 2.0])) is not None
    tensor = Tensor([1, 2])
    overwrite(tensor)
    assert difference(Tensor([1, 2]), tensor) is not None


def test_rows_of_a_memory_map_equal_arrays(tmp_path):
    np.arange(6.0).tofile(tmp_path / "a")
    mapped = np.memmap(tmp_path / "a", np.float64, "r", shape=(2, 3))
    assert difference(np.arange(3.0), mapped[0]) is None
    assert difference(np.arange(1.0, 4.0), mapped[0]) is not None
