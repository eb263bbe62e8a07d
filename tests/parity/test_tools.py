"""The tools of this package detect the differences they are meant to detect."""

from __future__ import annotations

import collections
import json

import numpy as np
import pytest

from .compare import compare
from .encoding import decode_state, difference, encode, without_tuples
from .observe import observe
from .registry import Fact, Kind

Point = collections.namedtuple("Point", ["x", "y"])

DISTINCT = [
    0,
    0.0,
    False,
    None,
    "",
    "0",
    b"0",
    [],
    (),
    {},
    [0],
    (0,),
    [0, 0],
    {"0": 0},
    {0: 0},
    {"0": 0.0},
    Point(0, 0),
    (0, 0),
    1j,
    np.int64(0),
    np.int32(0),
    np.float64(0),
    np.array(0),
    np.array([0]),
    np.array([0], np.int32),
    np.array([[0]]),
    np.array(["0"]),
    np.array([b"0"]),
    np.arange(600),
    np.arange(600) + 1,
    float("nan"),
    np.random.Generator(np.random.Philox(1)),
    np.random.Generator(np.random.Philox(2)),
]


@pytest.mark.parametrize("left", range(len(DISTINCT)))
def test_every_value_equals_itself_and_no_other(left: int) -> None:
    encoded = json.loads(json.dumps(encode(DISTINCT[left])))
    for right, other in enumerate(DISTINCT):
        found = difference(encoded, json.loads(json.dumps(encode(other))))
        assert (found is None) == (left == right), (DISTINCT[left], other)


def test_a_value_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot hold set"):
        encode({"a": {1, 2}})


@pytest.mark.parametrize(
    ("expected", "actual", "words"),
    [
        ([1, 2, 3], [1, 5, 3], "e[1]: expected 2, got 5"),
        ([1, 2], [1], "e: ends after 1 of 2; next would be 2"),
        ([1], [1, 2], "e: continues after 1 with 2"),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "e['a']['b']: expected 1, got 2"),
        ({"a": 1}, {}, "e: 'a' is missing; got only []"),
        ({}, {"a": 1}, "e: 'a' should not be there; expected only []"),
    ],
)
def test_a_difference_is_named_with_its_path(expected: object, actual: object, words: str) -> None:
    assert difference(expected, actual, "e") == words


def test_a_state_is_decoded_as_from_a_checkpoint() -> None:
    state = {
        "parent": {"next_index": 3},
        "slices": (1, 2),
        "rest": [np.int32(4), np.arange(3)],
        5: b"x",
    }
    back = decode_state(json.loads(json.dumps(encode(state))))
    assert back["parent"] == {"next_index": 3}
    assert back["slices"] == [1, 2]
    assert back["rest"][0] == 4
    assert back["rest"][0].dtype == np.int32
    np.testing.assert_array_equal(back["rest"][1], np.arange(3))
    assert back[5] == b"x"
    assert without_tuples(encode((1, (2,)))) == [1, [2]]


class _Numbers:
    """An iterable with states and one chosen fault."""

    def __init__(self, *, fault: str = ""):
        self.fault = fault

    def __iter__(self) -> _NumbersIterator:
        return _NumbersIterator(self.fault)


class _NumbersIterator:
    def __init__(self, fault: str):
        self.fault = fault
        self.next = 0

    def __next__(self) -> int:
        if self.next == (3 if self.fault == "short" else 5):
            raise StopIteration
        self.next += 1
        return self.next * (1 + (self.fault == "element" and self.next == 2))

    def get_state(self) -> dict[str, int]:
        return {"at": self.next + (self.fault == "state")}

    def set_state(self, state: dict[str, int]) -> None:
        self.next = 0 if self.fault == "resume" else state["at"]


def _stream_fact(fault: str) -> Fact:
    return Fact(
        name="numbers",
        area="here",
        kind=Kind.STREAM,
        build=lambda: _Numbers(fault=fault),
        limit=9,
        steps=(0, 2, 4),
        needs=(),
        compare_message=False,
    )


def test_a_sound_stream_has_no_problems() -> None:
    fact = _stream_fact("")
    recorded = observe(fact)
    assert recorded == {
        "elements": [1, 2, 3, 4, 5],
        "states": {"0": {"at": 0}, "2": {"at": 2}, "4": {"at": 4}},
    }
    assert compare(fact, recorded) == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("element", "elements[1]: expected 2, got 4"),
        ("short", "elements: ends after 3 of 5; next would be 4"),
        ("state", "state after 0['at']: expected 0, got 1"),
        ("resume", "elements after restoring the recorded state of step 2[0]: expected 3, got 1"),
    ],
)
def test_a_faulty_stream_is_reported_with_its_first_fault(fault: str, words: str) -> None:
    problems = compare(_stream_fact(fault), observe(_stream_fact("")))
    assert problems[0] == words


def _error_fact(error: Exception | None) -> Fact:
    def build() -> str:
        if error is not None:
            raise error
        return "fine"

    return Fact(
        name="wrong",
        area="here",
        kind=Kind.ERROR,
        build=build,
        limit=0,
        steps=(),
        needs=(),
        compare_message=True,
    )


def test_an_error_may_add_to_the_message_and_be_a_subclass() -> None:
    recorded = observe(_error_fact(ValueError("size must be positive.")))
    assert compare(_error_fact(UnicodeError("size must be positive, got 0")), recorded) == []


@pytest.mark.parametrize(
    "error", [TypeError("size must be positive"), ValueError("bad size"), None]
)
def test_another_error_or_none_is_a_problem(error: Exception | None) -> None:
    recorded = observe(_error_fact(ValueError("size must be positive.")))
    assert compare(_error_fact(error), recorded)
