"""Every recorded fact about the reference holds here, or differs as listed in `differences.py`."""

from __future__ import annotations

import json

import pytest

import grain

from . import cases
from .compare import compare
from .differences import DIFFERENCES, difference_for
from .observe import observe
from .record import load_recorded
from .registry import FACTS, Fact

RECORDED = load_recorded()


def _skip_what_is_not_built(fact: Fact) -> None:
    for name in fact.needs:
        if getattr(grain.experimental, name, None) is None:
            pytest.skip(f"grain.experimental.{name} does not exist yet")


def _cases(different: bool) -> list[pytest.ParameterSet]:
    chosen = (f for f in FACTS.values() if (difference_for(f.name) is not None) is different)
    return [pytest.param(fact, id=f"{fact.area}-{fact.name}") for fact in chosen]


@pytest.mark.parametrize("fact", _cases(different=False))
def test_fact_is_the_same_as_in_the_reference(fact: Fact) -> None:
    _skip_what_is_not_built(fact)
    problems = compare(fact, RECORDED[fact.name])
    if problems:
        pytest.fail(
            "\n".join([f"{fact.name} differs from the reference:", *(f"  - {p}" for p in problems)])
        )


@pytest.mark.parametrize("fact", _cases(different=True))
def test_fact_differs_from_the_reference_as_the_table_says(fact: Fact) -> None:
    _skip_what_is_not_built(fact)
    entry = difference_for(fact.name)
    assert entry is not None
    observed = observe(fact)
    assert entry.holds(observed), (
        f"not what the table of differences says ({entry.reason})\ngot {observed}"
    )
    assert compare(fact, RECORDED[fact.name]), (
        "agrees with the reference now; remove it from the table"
    )


def test_every_fact_is_recorded_and_every_record_is_a_fact() -> None:
    assert FACTS.keys() == RECORDED.keys()


def test_every_area_has_facts() -> None:
    assert {fact.area for fact in FACTS.values()} == set(cases.__all__)


def test_every_difference_covers_a_fact() -> None:
    for entry in DIFFERENCES:
        assert any(difference_for(name) is entry for name in FACTS), entry.facts


def test_every_recorded_state_is_json() -> None:
    for record in RECORDED.values():
        for state in record.get("states", {}).values():
            assert json.loads(json.dumps(state)) == state
