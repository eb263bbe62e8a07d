"""Observation changes neither the stream, nor a state, nor whether a state restores."""

from __future__ import annotations

from typing import Any

import pytest

import grain

from ..execution.pipelines import FAILING, PIPELINES
from ..helpers.pipelines import step, steps, through_json, with_workers

pytestmark = pytest.mark.filterwarnings("ignore:Transformation")


def journey(iterator: Any) -> list[Any]:
    """All that can be seen of an iterator on its way to the end, and then from some of its states."""
    seen: list[Any] = [through_json(iterator.get_state()), *steps(iterator)]
    states = [seen[0], *(state for *_, state in seen[1:])]
    for jump in (3, 0, 8):
        iterator.set_state(states[jump % len(states)])
        seen.append(through_json(iterator.get_state()))
        seen += [step(iterator) for _ in range(3)]
    return seen


def assert_same(make: Any) -> None:
    with iter(make()) as plain:
        expected = journey(plain)
    with grain.observing(trace=True), iter(make()) as iterator:
        found = journey(iterator)
        stats = iterator.stats()
    assert found == expected
    outcomes = [entry[0] for entry in expected if isinstance(entry, tuple)]
    assert stats.elements == outcomes.count("element")
    assert grain.observe.PipelineStatistics.from_json(stats.to_json()) == stats


@pytest.mark.parametrize("name", PIPELINES | FAILING)
def test_a_pipeline_gives_the_same_when_observed(name: str) -> None:
    assert_same((PIPELINES | FAILING)[name])


@pytest.mark.parametrize("name", PIPELINES | FAILING)
def test_a_pipeline_in_threads_gives_the_same_when_observed(name: str) -> None:
    assert_same(lambda: with_workers((PIPELINES | FAILING)[name](), 2, executor="threads"))
