"""Sessions in virtual time: a sample of schedules, and every seed that has failed before."""

from __future__ import annotations

import random
from typing import Any

import pytest

from .simulated_pool import DeadlockError, Faults, SimulatedExecutor, VirtualClock
from .simulation import NAMES, play, play_poison

# Seeds of schedules that once failed, with what was wrong.
REGRESSIONS: dict[int, str] = {
    371: "a stream whose worker was lost while no other was there was positioned again and again",
}


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_a_sample_of_schedules_keeps_streams_and_states(first: int) -> None:
    happened = [play(seed) for seed in range(first, first + 40)]
    assert {played.name for played in happened} <= set(NAMES)
    assert sum(played.events["losses"] for played in happened)
    assert sum(played.events["hedged"] for played in happened)


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_a_schedule_that_failed_once_keeps_streams_and_states(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("seed", range(20))
def test_a_record_that_ends_its_workers_is_named_after_few_losses(seed: int) -> None:
    play_poison(seed)


def test_a_seed_gives_the_same_schedule_each_time() -> None:
    for seed in range(0, 400, 20):
        assert play(seed) == play(seed)


class _Echo:
    def start(self, index: int, count: int) -> Any:
        return lambda task: task


def test_a_wait_that_nothing_can_end_is_a_deadlock() -> None:
    pool = SimulatedExecutor(random.Random(0), VirtualClock(), 1, Faults()).open(_Echo())
    ticket = pool.submit("x")
    assert pool.wait([ticket]) == {ticket}
    assert pool.result(ticket) == "x"
    pool.drop_events()
    ticket = pool.submit("y")
    pool.drop_events()
    with pytest.raises(DeadlockError):
        pool.wait([ticket])
