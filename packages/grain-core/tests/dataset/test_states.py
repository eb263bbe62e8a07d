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


@pytest.mark.parametrize("weights", [[1, 2], [1_000_003, 999_983]], ids=["table", "long period"])
@pytest.mark.parametrize(
    "change",
    [
        *({"index": wrong} for wrong in (-1, 2**63, 2**64, 10**30, None, "x", 1.5, True, [])),
        *({"stop": wrong} for wrong in (None, "x", 2, 1.0, [], {})),
        {"parents": [{"next_index": 0}]},
        {"parents": [{"next_index": 0}, {"next_index": 21}]},
        {"parents": 5},
    ],
    ids=str,
)
def test_a_wrong_state_of_a_mixture_is_refused(change: dict[str, Any], weights: list[int]) -> None:
    ranges = [grain.MapDataset.range(20), grain.MapDataset.range(100, 120)]
    ds = grain.IterDataset.mix([numbers.to_iter_dataset() for numbers in ranges], weights)
    iterator = iter(ds)
    taken = [next(iterator) for _ in range(3)]
    state = iterator.get_state()
    with pytest.raises((TypeError, ValueError, IndexError), match=r"state|next_index"):
        iterator.set_state(state | change)
    assert iterator.get_state() == state
    assert taken + list(iterator) == list(ds)


@pytest.mark.parametrize("weights", [[1, 2], [1_000_003, 999_983]], ids=["table", "long period"])
def test_the_largest_index_of_a_mixture_that_is_accepted_can_be_read_from(
    weights: list[int],
) -> None:
    streams = [grain.MapDataset.range(20).to_iter_dataset() for _ in range(2)]
    iterator = iter(grain.IterDataset.mix(streams, weights))
    iterator.set_state(iterator.get_state() | {"index": 2**62})
    assert set(iterator) <= set(range(20))
