"""Encoding of elements as records: a round trip for every element, errors for anything else."""

from __future__ import annotations

import collections
import datetime as dt
import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn
from tests.equality import same

from grain_arrayrecord import ArrayRecordDataSource, decode_record, encode_record
from grain_arrayrecord.record_encoding import MAGIC
from grain_arrayrecord.writer import write_elements

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(max_size=20)
)
DTYPES = st.one_of(
    stn.boolean_dtypes(),
    stn.integer_dtypes(endianness="?"),
    stn.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    stn.complex_number_dtypes(),
    stn.datetime64_dtypes(),
    stn.timedelta64_dtypes(),
    stn.unicode_string_dtypes(max_len=4),
    stn.byte_string_dtypes(max_len=4),
)
ARRAYS = stn.arrays(DTYPES, stn.array_shapes(min_dims=0, min_side=0, max_side=3))
ELEMENTS = st.recursive(
    SCALARS | ARRAYS | stn.arrays(DTYPES, (1,)).map(lambda array: array[0]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4) | st.just("$array"), inner, max_size=3)
        | st.dictionaries(st.integers() | st.none() | st.binary(max_size=3), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(ELEMENTS)
def test_every_element_survives_a_round_trip(element) -> None:
    record = encode_record(element)
    assert record.startswith(MAGIC)
    assert same(decode_record(record), element)


def test_the_header_is_json_that_any_language_reads() -> None:
    record = encode_record({"image": np.arange(4, dtype="<u2").reshape(2, 2), "blob": b"xyz"})
    (length,) = struct.unpack("<I", record[8:12])
    assert json.loads(record[12 : 12 + length]) == {
        "image": {"$array": ["<u2", [2, 2], 0]},
        "blob": {"$bytes": [8, 3]},
    }
    assert record[12 + length :] == np.arange(4, dtype="<u2").tobytes() + b"xyz"


def test_decoded_arrays_are_writable() -> None:
    element = decode_record(encode_record({"a": np.zeros(3)}))
    element["a"][:] = 1
    assert element["a"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("record", [b"", b"\x89GRAI", b"{}", "text", None, 3])
def test_other_values_are_returned_unchanged(record) -> None:
    assert decode_record(record) is record


def test_a_damaged_record_is_an_error() -> None:
    record = encode_record({"a": np.arange(100), "b": b"bytes"})
    for end in range(len(MAGIC), len(record)):
        with pytest.raises(ValueError, match="Cannot decode a record"):
            decode_record(record[:end])


@pytest.mark.parametrize(
    ("element", "message"),
    [
        ({"a": [1, {2, 3}]}, r"The value at \['a'\]\[1\] is of set"),
        (dt.date(2026, 1, 1), "The element is of date"),
        ({"a": np.array([object()])}, "is of dtype object"),
        ({"a": np.zeros(2, [("x", "i4")])}, "is of dtype"),
        (collections.OrderedDict(a=1), "is of OrderedDict"),
    ],
)
def test_what_has_no_place_in_a_record_is_named(element, message) -> None:
    with pytest.raises(TypeError, match=message):
        encode_record(element)


def test_a_file_holds_bytes_as_they_are_and_other_elements_encoded(tmp_path) -> None:
    path = str(tmp_path / "a.array_record")
    elements = [b"as it is", {"id": 3, "x": np.float32(2)}, "text", None]
    assert write_elements(path, iter(elements), group_size=2) == 4
    with ArrayRecordDataSource(path) as source:
        assert source[0] == b"as it is"
        assert all(map(same, map(decode_record, source), elements))
