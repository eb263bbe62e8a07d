"""Notes on exceptions, and the names that operations have in them."""

from __future__ import annotations

import functools

import pytest

import grain
from grain._exceptions import add_note, as_failure, note_element, transform_name


def plain_function(x: int) -> int:
    return x


class WithoutRepr(grain.transforms.Map):
    def map(self, element: int) -> int:
        return element


class WithRepr(WithoutRepr):
    def __repr__(self) -> str:
        return "WithRepr(3)"


class Callable_:
    def __call__(self, x: int) -> int:
        return x


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (len, "len"),
        (int, "int"),
        (WithoutRepr(), "WithoutRepr"),
        (WithRepr(), "WithRepr(3)"),
        (Callable_(), "Callable_"),
        (functools.partial(int, base=2), "functools.partial(<class 'int'>, base=2)"),
    ],
)
def test_a_transform_has_a_readable_name(transform, expected):
    assert transform_name(transform) == expected


def test_a_function_is_named_with_the_place_it_was_written_at():
    line = plain_function.__code__.co_firstlineno
    assert (
        transform_name(plain_function)
        == f"plain_function @ .../tests/core/test_exceptions.py:{line}"
    )
    assert transform_name(lambda x: x).startswith("<lambda> @ .../tests/core/test_exceptions.py:")


def test_an_error_is_noted_once():
    error = ValueError("x")
    note_element(error, "Map", 3, "Range")
    note_element(error, "Batch", 1)
    add_note(error, "elsewhere")
    assert error.__notes__ == ["grain: raised in Map at index 3, over Range."]


def test_notes_of_others_do_not_count():
    error = ValueError("x")
    error.add_note("mine")
    note_element(error, "Map", 3)
    assert error.__notes__ == ["mine", "grain: raised in Map at index 3."]


def test_a_stop_of_iteration_is_made_a_failure_and_others_are_left_alone():
    error = ValueError("x")
    assert as_failure(error) is error
    stop = StopIteration()
    failure = as_failure(stop)
    assert isinstance(failure, RuntimeError)
    assert failure.__cause__ is stop
