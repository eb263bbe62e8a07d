"""States of google/grain's `mp_prefetch` restore where its workers' positions make up one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import grain
from grain.execution.worker_states import merge_worker_states


def parts(*states: Any, cycle: int = 0, exhausted: list[int] | None = None) -> dict[str, Any]:
    count = len(states)
    return {
        "next_index_in_cycle": cycle,
        "next_index_in_datasets": count,
        "iterators_in_use_indices": list(range(count)),
        "iterators_in_use_states": list(states),
        "exhausted": exhausted or [0] * count,
        "future_states": {},
    }


def at(*positions: int, **others: Any) -> dict[str, Any]:
    return parts(*({"next_index": position} for position in positions), **others)


@given(st.integers(0, 50), st.integers(1, 7))
def test_the_first_so_many_records_are_one_position(taken, count):
    each = [len(range(worker, taken, count)) for worker in range(count)]
    state = at(*each, cycle=taken % count)
    assert merge_worker_states(state, lambda: {"next_index": 0}) == {"next_index": taken}


def test_with_one_worker_the_state_is_that_workers_whatever_its_form():
    inner = {"parent": {"next_index": 3}, "window": [1, 2]}
    assert merge_worker_states(parts(inner), lambda: None) == inner


@pytest.mark.parametrize(
    "state",
    [
        at(3, 0),
        at(2, 3),
        at(0, 0, 1),
        at(1, 0, exhausted=[0, 1]),
        parts({"parent": 1}, {"parent": 1}),
    ],
    ids=["ahead", "second ahead", "last ahead", "ended", "other form"],
)
def test_what_is_no_single_position_is_refused_with_what_to_do(state):
    with pytest.raises(
        ValueError, match=r"do not stand at one position.*Save again with one worker"
    ):
        merge_worker_states(state, lambda: {"next_index": 0})


@pytest.mark.parametrize("state", [{"next_index": 3}, None, 5, {"parent": at(1, 1)}], ids=str)
def test_other_states_stay_as_they_are(state):
    assert merge_worker_states(state, lambda: {"next_index": 0}) is state


def test_states_of_interleaved_datasets_are_their_own():
    datasets = [grain.MapDataset.range(n, n + 5).to_iter_dataset() for n in (0, 10)]
    dataset = grain.experimental.InterleaveIterDataset(datasets, cycle_length=2)
    expected = list(dataset)
    options = grain.MultiprocessingOptions(num_workers=1)
    with iter(dataset.mp_prefetch(options)) as iterator:
        for _ in range(3):
            next(iterator)
        state = iterator.get_state()
        iterator.set_state(state)
        assert list(iterator) == expected[3:]
        iterator.set_state(parts(state))
        assert list(iterator) == expected[3:]


def test_a_pipeline_goes_on_from_the_positions_of_any_number_of_workers():
    dataset = grain.MapDataset.range(40).shuffle(7).batch(3).to_iter_dataset()
    expected = [batch.tolist() for batch in dataset]
    options = grain.MultiprocessingOptions(num_workers=1)
    with iter(dataset.mp_prefetch(options).map(lambda batch: batch.tolist())) as iterator:
        next(iterator)
        for state, taken in [(at(4), 4), (at(2, 1), 3), (at(2, 2, 1), 5), (at(0, 0), 0)]:
            iterator.set_state(state)
            assert list(iterator) == expected[taken:]
        iterator.set_state(at(2, 2))
        with pytest.raises(ValueError, match="2 workers"):
            iterator.set_state(at(0, 2))
        assert list(iterator) == expected[4:]
