"""Payloads: what is packed comes out equal, with the memory where it was."""

from __future__ import annotations

import hypothesis.extra.numpy as arrays
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grain.execution.processes import array_pickling
from grain_ray.payload import MIN_SEPARATE_BYTES, own, pack, unpack

small = arrays.arrays(np.float32, arrays.array_shapes(max_side=20), elements=st.floats(width=32))


@given(st.lists(st.one_of(small, st.text(), st.integers())))
def test_values_survive_and_copies_are_writable(values):
    for found in (
        unpack(pack(array_pickling.dumps_by_value(values))),
        unpack(own(pack(array_pickling.dumps_by_value(values)))),
    ):
        np.testing.assert_equal(found, values)
        assert all(value.flags.writeable for value in found if isinstance(value, np.ndarray))


def test_large_arrays_are_not_copied_and_small_ones_are_joined():
    large = np.zeros(MIN_SEPARATE_BYTES, np.uint8)
    few = [np.full(1000, i, np.uint8) for i in range(10)]
    payload = pack(array_pickling.dumps_by_value([large, *few]))
    assert [array.nbytes >= 10_000 for array in payload.arrays] == [True, True]
    assert np.shares_memory(payload.arrays[0], large)
    assert payload.nbytes > MIN_SEPARATE_BYTES + 10_000
    assert [array[0] for array in unpack(payload)] == list(range(-0, 1)) + list(range(10))


def test_an_array_that_was_read_only_stays_so():
    array = np.arange(5000)
    array.flags.writeable = False
    assert not unpack(own(pack(array_pickling.dumps_by_value(array)))).flags.writeable
