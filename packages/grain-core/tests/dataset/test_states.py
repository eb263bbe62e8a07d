"""Every state of every operation survives JSON and restores, at every step, twice."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

import grain

from .rows import ITER_METHODS, ITERATORS, MAP_METHODS, OTHER_METHODS, all_rows, place_of

ROWS = all_rows()


@pytest.mark.parametrize("name", ROWS)
def test_states_survive_json(
    name: str, tmp_path: pathlib.Path, as_plain: Callable[[Any], Any]
) -> None:
    ds = ROWS[name](tmp_path)
    assert_states_survive(lambda: iter(ds), as_plain)


@pytest.mark.parametrize("name", ITERATORS)
def test_states_of_iterators_survive_json(
    name: str, tmp_path: pathlib.Path, as_plain: Callable[[Any], Any]
) -> None:
    assert_states_survive(lambda: ITERATORS[name](tmp_path, 0), as_plain)


def assert_states_survive(make: Callable[[], Any], as_plain: Callable[[Any], Any]) -> None:
    iterator = make()
    elements: list[Any] = []
    states = [through_json(iterator.get_state())]
    for element in iterator:
        elements.append(as_plain(element))
        states.append(through_json(iterator.get_state()))
    assert len(elements) > 1
    running = make()
    for step, state in enumerate(states):
        fresh = make()
        # A state is set on an iterator that is new, one that is somewhere else, and once more.
        for restored in (fresh, running, fresh):
            restored.set_state(state)
            assert [as_plain(element) for element in restored] == elements[step:], f"step {step}"
        fresh.set_state(state)
        again = through_json(fresh.get_state())
        assert place_of(again) == place_of(state), f"step {step}"
        if step < len(elements):
            assert as_plain(next(fresh)) == elements[step]
            # And a state of what was restored is one that restores.
            later = make()
            later.set_state(through_json(fresh.get_state()))
            assert [as_plain(element) for element in later] == elements[step + 1 :], f"step {step}"


def through_json(state: Any) -> Any:
    """Return a state after a round trip through JSON; a `DataLoader` has text already."""
    if isinstance(state, bytes):
        return json.dumps(json.loads(state), indent=4).encode()
    return json.loads(json.dumps(state))


@pytest.mark.parametrize(
    ("kind", "rows"), [(grain.IterDataset, ITER_METHODS), (grain.MapDataset, MAP_METHODS)]
)
def test_every_method_has_a_row(kind: type, rows: dict[str, Any]) -> None:
    public = {name for name in dir(kind) if not name.startswith("_")}
    assert set(rows) == public - OTHER_METHODS
