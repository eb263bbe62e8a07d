"""`grain.sources`: the contract of a source, the range of integers, and the sources of plugins."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain.sources
from grain.plugins import DuplicatePluginError, PluginSpec, register, unregister
from grain.sources import RandomAccessDataSource, RangeDataSource

SMALL = st.integers(-50, 50)


def ranges() -> st.SearchStrategy[range]:
    ordered = st.builds(range, SMALL, SMALL, SMALL.filter(bool))
    return ordered.filter(lambda r: (r.stop - r.start) * r.step >= 0)


@settings(deadline=None)
@given(ranges())
def test_a_range_source_holds_what_the_range_holds(expected: range) -> None:
    source = RangeDataSource(expected.start, expected.stop, expected.step)
    everything = list(range(len(expected)))
    assert len(source) == len(expected)
    assert [source[i] for i in everything] == list(expected)
    assert source.__getitems__(everything) == list(expected)
    assert source.__getcolumns__(everything).tolist() == list(expected)


@settings(deadline=None)
@given(ranges().filter(len), st.data())
def test_many_at_once_are_what_one_by_one_gives_in_any_order_and_form(r: range, data) -> None:
    source = RangeDataSource(r.start, r.stop, r.step)
    indices = data.draw(st.lists(st.integers(0, len(r) - 1), max_size=10))
    expected = [source[i] for i in indices]
    for form in (indices, tuple(indices), np.array(indices, np.int64), np.array(indices, np.uint8)):
        many = source.__getitems__(form)
        columns = source.__getcolumns__(form)
        assert many == expected
        assert all(type(value) is int for value in many)
        assert columns.tolist() == expected
        assert columns.dtype == np.int64


def test_the_repr_is_the_references_also_for_numpy_integers() -> None:
    source = RangeDataSource(np.int64(0), np.int32(10), np.uint8(1))
    assert repr(source) == str(source) == "RangeDataSource(start=0, stop=10, step=1)"


def test_a_record_is_a_python_integer_whatever_the_index_is() -> None:
    for index in (2, np.int64(2), np.uint8(2)):
        assert type(RangeDataSource(0, 4, 1)[index]) is int


@pytest.mark.parametrize("index", [-1, 4, 100, 2**70, -(2**70)])
def test_an_index_outside_is_an_index_error_singly_and_in_a_batch(index: int) -> None:
    source = RangeDataSource(0, 4, 1)
    words = f"^Index {index} out of range for 4$"
    with pytest.raises(IndexError, match=words):
        source[index]
    with pytest.raises(IndexError, match=words):
        source.__getitems__([0, index])
    with pytest.raises(IndexError, match=words):
        source.__getcolumns__([0, index])


@pytest.mark.parametrize("index", [1.0, "1", None])
def test_an_index_that_is_no_integer_is_a_type_error(index: object) -> None:
    source = RangeDataSource(0, 4, 1)
    with pytest.raises(TypeError):
        source[index]
    with pytest.raises(TypeError):
        source.__getitems__([index])


def test_an_empty_range_has_no_record() -> None:
    source = RangeDataSource(5, 5, 1)
    assert len(source) == 0
    assert source.__getitems__([]) == []
    assert source.__getcolumns__([]).dtype == np.int64
    with pytest.raises(IndexError, match="Index 0 out of range for 0"):
        source[0]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((0, 4, 0), AssertionError, "step can't be zero"),
        ((0, 10, -1), AssertionError, "length can't be negative"),
        ((10, 0, 1), AssertionError, "length can't be negative"),
        (("a", 4, 1), TypeError, "start=….*'a'"),
        ((0, 1.5, 1), TypeError, "stop=….*1.5"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused_when_built(arguments, error, words) -> None:
    with pytest.raises(error, match=words):
        RangeDataSource(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        (2**70, 2**70 + 4, 1),
        (-(2**70), 2**70, 2**69),
        (0, 1, 2**70),
        (-(2**63), 2**63, 2**63 - 1),
    ],
)
def test_integers_beyond_64_bits_are_exact(arguments: tuple[int, int, int]) -> None:
    source = RangeDataSource(*arguments)
    everything = list(range(len(source)))
    assert source.__getitems__(everything) == list(range(*arguments))
    assert source.__getcolumns__(everything).tolist() == list(range(*arguments))


def test_a_range_source_is_a_value() -> None:
    source = RangeDataSource(0, 10, 3)
    assert pickle.loads(pickle.dumps(source)) == source
    assert source != RangeDataSource(0, 10, 2)
    assert isinstance(source, RandomAccessDataSource)


def test_anything_with_length_and_items_is_a_source() -> None:
    class Mine(RandomAccessDataSource[str]):
        def __init__(self, text: str) -> None:
            self._text = text

        def __len__(self) -> int:
            return len(self._text)

        def __getitem__(self, index: int) -> str:
            return self._text[index]

    assert isinstance(Mine("abc"), RandomAccessDataSource)
    assert Mine("abc")[1] == "b"
    assert isinstance([1], RandomAccessDataSource)
    assert not isinstance(7, RandomAccessDataSource)
    assert not isinstance(iter([1]), RandomAccessDataSource)


@pytest.fixture
def registered():
    register(
        PluginSpec(
            name="test-lists",
            target="builtins:list",
            kind="map-source",
            public_names=("ListDataSource",),
            schemes=("test-list",),
        )
    )
    yield
    unregister("test-lists")


@pytest.mark.usefixtures("registered")
def test_plugins_names_are_attributes_of_the_module_and_open_opens_them() -> None:
    assert grain.sources.ListDataSource is list
    assert "ListDataSource" in dir(grain.sources)
    assert grain.sources.open("test-list://abc") == ["a", "b", "c"]


def test_a_plugin_cannot_claim_a_name_of_the_module() -> None:
    with pytest.raises(DuplicatePluginError, match=r"grain-core itself \(grain\.sources\)"):
        register(
            PluginSpec(
                name="thief", target="a:b", kind="map-source", public_names=("RangeDataSource",)
            )
        )


def test_importing_sources_and_plugins_imports_neither_pluggy_nor_the_metadata_reader() -> None:
    program = (
        "import sys, numpy\n"
        "before = set(sys.modules)\n"
        "import grain.sources, grain.plugins\n"
        "new = set(sys.modules) - before\n"
        "print(sorted(new & {'pluggy', 'importlib.metadata', 'email', 'zipfile'}))\n"
        "assert grain.plugins.hookimpl and 'pluggy' in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
