"""The waits of a consumer, by a clock that tests set."""

from __future__ import annotations

import pytest

from grain.observe.consumer_clock import ConsumerClock, next_cost


class FakeClock:
    """A clock in nanoseconds that moves only when it is set."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def run(clock: ConsumerClock, time: FakeClock, wait: int, count: int, busy: int) -> None:
    """One chunk: the consumer waits for it, takes its elements and is busy."""
    clock.enter()
    time.now += wait
    clock.leave(count)
    time.now += busy


def test_the_first_chunk_is_the_set_up_and_no_wait():
    time = FakeClock()
    clock = ConsumerClock(time, step=0)
    time.now += 100
    run(clock, time, wait=900, count=1, busy=50)
    for _ in range(10):
        run(clock, time, wait=30, count=1, busy=70)
    clock.enter()
    readings = clock.readings(0)
    assert readings.setup_seconds == pytest.approx(1000e-9)
    assert readings.wait.warm_up_seconds == pytest.approx(900e-9)
    assert readings.wait.count == 10
    assert readings.wait.total_seconds == pytest.approx(300e-9)
    assert readings.busy_seconds == pytest.approx(750e-9)
    assert readings.delivered == 11


def test_further_elements_of_a_chunk_cost_a_step_each():
    time = FakeClock()
    clock = ConsumerClock(time, step=2)
    run(clock, time, wait=10, count=5, busy=100)
    run(clock, time, wait=50, count=5, busy=100)
    clock.enter()
    readings = clock.readings(0)
    assert readings.wait.count == 9  # One for the second chunk, four of each.
    assert readings.wait.total_seconds == pytest.approx((50 + 8 * 2) * 1e-9)
    assert readings.busy_seconds == pytest.approx((200 - 8 * 2) * 1e-9)
    assert (readings.wait.p50, readings.wait.p99) == (2e-9, 50e-9)


def test_the_middle_of_a_chunk_is_read_correctly():
    time = FakeClock()
    clock = ConsumerClock(time, step=0)
    run(clock, time, wait=10, count=8, busy=0)
    time.now += 300
    readings = clock.readings(untaken=5)
    assert readings.delivered == 3
    assert readings.busy_seconds == pytest.approx(300e-9)
    assert clock.readings(untaken=5) == readings


def test_a_state_that_is_set_discards_what_was_not_taken():
    time = FakeClock()
    clock = ConsumerClock(time, step=0)
    run(clock, time, wait=10, count=8, busy=100)
    clock.restart(untaken=5)
    time.now += 1000
    run(clock, time, wait=10, count=1, busy=0)
    readings = clock.readings(0)
    assert readings.delivered == 4
    assert readings.busy_seconds == 0
    assert readings.wait.warm_up_count == 2


def test_percentiles_of_many_waits_are_those_of_a_sample():
    time = FakeClock()
    clock = ConsumerClock(time, step=0)
    run(clock, time, wait=1, count=1, busy=0)
    for number in range(30_000):
        run(clock, time, wait=number % 100, count=1, busy=0)
    wait = clock.readings(0).wait
    assert wait.count == 30_000
    assert wait.p50 == pytest.approx(50e-9, abs=5e-9)
    assert wait.p95 == pytest.approx(95e-9, abs=3e-9)
    assert wait.longest == pytest.approx(99e-9)


def test_listeners_are_due_by_time_and_by_elements():
    time = FakeClock()
    clock = ConsumerClock(time, step=0)
    calls: list[str] = []
    clock.add_listener(lambda: calls.append("time"), seconds=1e-6, elements=None)
    clock.add_listener(lambda: calls.append("elements"), seconds=None, elements=4)
    for _ in range(10):
        run(clock, time, wait=300, count=1, busy=0)
    assert calls.count("time") == 2
    assert calls.count("elements") == 2


def test_the_cost_of_a_step_is_measured_once():
    assert 0 < next_cost() < 1e6
    assert next_cost() == next_cost()
