"""Random programs and wrong calls are compared by value, and only listed differences are excused."""

from __future__ import annotations

import itertools
import json
import pathlib
from typing import Any

import pytest

from . import fuzz, program_differences, wrong_call_differences
from .program_differences import Found, expected_row, first_difference
from .program_results import observe_program, resume_program
from .programs import programs_of
from .wrong_call_differences import differences, has_same_text
from .wrong_calls import observe_wrong_calls

_PAGE = pathlib.Path(__file__).parents[2] / "docs" / "differences.md"


def _rows() -> set[str]:
    """Return the first cell of each row of the page."""
    lines = _PAGE.read_text().splitlines()
    return {line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")}


def test_every_excuse_is_a_row_of_the_page() -> None:
    excused = {row for row, _ in program_differences.EXPECTED} | {*wrong_call_differences.ROWS}
    assert excused - _rows() == set()


def _ends(program: Any) -> bool:
    """Return whether a program ends: an endless one may search for elements that pass a filter forever."""
    return "null" not in json.dumps(program)


def test_programs_survive_json_and_are_observed_alike_twice() -> None:
    ending = filter(_ends, programs_of(1, workers=0))
    for program in itertools.islice(ending, 30):
        copy = json.loads(json.dumps(program))
        assert copy == program
        first, second = observe_program(program), observe_program(copy)
        assert first_difference(program, first, second) is None
        assert json.loads(json.dumps(first)) == first


def test_an_observed_program_resumes_from_its_states() -> None:
    program = {
        "source": ["range", 9],
        "steps": [["shuffle", 1]],
        "iter": {"allow_nones": False, "steps": []},
    }
    observed = observe_program(program)
    resumed = resume_program(program, observed["states"])
    assert sorted(resumed) == ["0", "1", "3", "8"]
    for position, elements in resumed.items():
        assert elements == observed["elements"][int(position) :]


def _error(name: str, message: str = "") -> Any:
    return {"$error": [[name, "Exception"], message]}


_END: Any = {"$end": []}
_PROGRAM: dict[str, Any] = {"source": ["range", 3], "steps": []}


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ({"elements": [1, 2]}, {"elements": [1, 3]}),
        ({"elements": [1, 2]}, {"elements": [1]}),
        ({"elements": [1]}, {"elements": [1, 2]}),
        ({"elements": [1, _error("KeyError")]}, {"elements": [1, _error("ValueError")]}),
        ({"elements": [1]}, {"build": _error("ValueError")}),
        ({"length": 3, "elements": []}, {"length": 4, "elements": []}),
    ],
)
def test_a_difference_is_found_and_not_excused(there: Any, here: Any) -> None:
    found = first_difference(_PROGRAM, there, here)
    assert found is not None
    assert expected_row(found) is None


def test_an_error_may_come_earlier_and_be_of_a_subclass() -> None:
    there = {"elements": [1, _error("LookupError")]}
    here = {"build": {"$error": [["KeyError", "LookupError", "Exception"], "a key"]}}
    assert first_difference(_PROGRAM, there, here) is None
    assert first_difference(_PROGRAM, here, there) is not None


def test_an_excuse_holds_for_its_own_difference_only() -> None:
    empty = Found(_PROGRAM, "single", 0, _error("ZeroDivisionError"), _error("IndexError"))
    assert expected_row(empty) == "reading an empty dataset"
    assert (
        expected_row(Found(_PROGRAM, "single", 0, _error("KeyError"), _error("IndexError"))) is None
    )


def test_an_array_of_objects_is_excused_where_an_operation_above_its_batch_hides_it() -> None:
    structure = "Expected all input elements to have the same structure but got: "

    def row(operations: list[str], refused: str, here: Any) -> str | None:
        program = {"loader": {"epochs": 1, "operations": [[kind] for kind in operations]}}
        refusal = _error("ValueError", structure + refused)
        return expected_row(Found(program, "elements", 3, refusal, here))

    excused = "None among numbers or texts in a batch"
    assert row(["map", "batch", "random_map"], "[None, 'int[]']", 3680) == excused
    assert row(["map", "batch", "filter"], "[None, 'int[]']", _END) == excused
    assert row(["map", "random_map", "batch"], "[None, 'int[]']", 3680) is None
    assert row(["map", "batch", "random_map"], "['int[]', None]", 3680) is None
    assert row(["map", "batch", "random_map"], "[None, 'int[]']", _error("KeyError")) is None


def test_a_batch_that_has_the_type_of_the_one_before_is_excused_after_restoring_only() -> None:
    program = {"steps": [["batch", 2]], "iter": {"steps": [["rebatch", 2, False]]}}

    def row(place: str, there: Any, here: Any) -> str | None:
        return expected_row(Found(program, place, 0, {"$nd": there}, {"$nd": here}))

    texts, others = [{"$bytes": ""}, {"$bytes": "07"}], [{"$bytes": ""}, {"$bytes": "08"}]
    wide, narrow = ["|S2", [2], texts], ["|S1", [2], texts]
    excused = row("resumed there from 3", wide, narrow)
    assert excused is not None
    assert excused.startswith("a rebatched dataset restored")
    assert row("resumed here from 3", wide, narrow) is None
    assert row("elements", wide, narrow) is None
    assert row("resumed there from 3", wide, ["|S1", [2], others]) is None


def test_texts_of_refused_values_are_compared() -> None:
    there = _error("ValueError", "batch_size must be positive.Got 0.")
    assert has_same_text(
        "f(x=0)", there, _error("ValueError", "batch_size must be positive. Got 0. Why?")
    )
    assert not has_same_text("f(x=0)", there, _error("ValueError", "wrong"))
    assert list(differences({"f(x=0)": there}, {"f(x=0)": _error("ValueError", "wrong")}))


def test_wrong_calls_are_observed_alike_twice_and_differ_where_they_should() -> None:
    calls = dict(itertools.islice(observe_wrong_calls(), 400))
    assert list(differences(calls, calls)) == []
    name = "MapDataset.batch(batch_size=3)"
    changed = {**calls, name: _error("TypeError", "batch_size must be an integer")}
    assert [line.partition(":")[0] for line in differences(calls, changed)] == [name]
    assert [line.partition(":")[0] for line in differences(changed, calls)] == [name]


def test_a_side_that_does_not_answer_ends_with_its_workers(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    # The worker keeps the output open, as workers of the reference do that compute for ever.
    python.write_text("#!/bin/sh\necho ready\nsleep 100000 &\nwait\n")
    python.chmod(0o700)
    monkeypatch.setattr(fuzz, "_PATIENCE", 0.1)
    side = fuzz.Side(str(python))
    side.send(_PROGRAM)
    assert side.receive(_PROGRAM) is None
