"""How many threads read: all where they bring more, one where they are in each other's way."""

from __future__ import annotations

import time

import pytest

import grain
from grain.execution.thread_count import ThreadCount

ALONE = 0.01
"""Seconds that an element takes in the consumer's thread."""


class Machine:
    """Reads blocks of one element with a given number of threads, on its own clock.

    Args:
      gain: by how many times so many threads are faster than one.
      processors: how many processors so many threads keep busy.
      waits: whether the consumer waits for what is read.
    """

    def __init__(self, count, gain, processors, waits=True):
        self.count, self.gain, self.processors, self.waits = count, gain, processors, waits
        self.now = 0.0
        self.levels = []

    def read(self, blocks):
        for _ in range(blocks):
            threads = self.count.now
            step = ALONE / self.gain(threads)
            self.now += step
            seconds = step * threads
            self.count.observe(
                self.count.generation,
                1,
                self.now - seconds,
                seconds,
                self.processors(threads) * step,
                step if self.waits else 0.0,
            )
            self.levels.append(self.count.now)
        return self.count.now


def in_each_others_way(threads):
    return 1.0 if threads == 1 else 0.3


def test_threads_that_wait_for_something_else_all_stay():
    machine = Machine(ThreadCount(16, ALONE), float, lambda threads: 0.02 * threads)
    assert machine.read(5000) == 16
    assert set(machine.levels) == {16}


def test_threads_that_compute_without_the_lock_all_stay():
    machine = Machine(ThreadCount(16, ALONE), float, float)
    assert machine.read(5000) == 16
    assert set(machine.levels) == {16}


@pytest.mark.parametrize("alone", [ALONE, None])
def test_threads_that_are_in_each_others_way_become_few(alone):
    machine = Machine(ThreadCount(16, alone), in_each_others_way, lambda threads: 1.0)
    machine.read(50)
    assert machine.count.now == 1
    machine.read(20_000)
    # Now and then more are tried again, ever more seldom.
    assert machine.count.now == 1
    assert machine.levels[50:].count(1) > 0.9 * len(machine.levels[50:])


def test_reads_that_compute_begin_with_one_thread_and_stay_there_if_more_bring_nothing():
    machine = Machine(ThreadCount(16, ALONE, waits=False), in_each_others_way, lambda threads: 1.0)
    machine.read(2000)
    assert machine.count.now == 1
    # Two threads were tried, which was enough evidence.
    assert set(machine.levels) == {1, 2}
    assert machine.levels.count(2) < 100


def test_reads_that_compute_without_the_lock_soon_have_all_threads():
    machine = Machine(ThreadCount(16, ALONE, waits=False), float, float)
    assert machine.read(60) == 16
    assert machine.levels[0] == 1
    assert machine.read(1000) == 16


def test_a_few_that_are_slower_give_way_to_all_again():
    """A machine that was busy made threads look useless, or they read what is half waiting."""
    machine = Machine(
        ThreadCount(16, ALONE), lambda threads: 1.2 if threads > 2 else 0.7, lambda _: 1
    )
    machine.read(100)
    assert 1 in machine.levels
    assert machine.count.now == 16
    assert machine.read(1000) == 16


def test_a_few_become_all_when_what_they_read_has_changed():
    """The first part of the data was at hand, the rest is far away."""
    machine = Machine(ThreadCount(16, ALONE), in_each_others_way, lambda threads: 1.0)
    assert machine.read(100) == 1
    machine.gain, machine.processors = (lambda threads: 0.1 * threads), (lambda threads: 0.01)
    assert machine.read(100) == 16
    assert machine.read(1000) == 16


def test_threads_that_the_consumer_does_not_wait_for_are_not_judged():
    machine = Machine(ThreadCount(16, ALONE), in_each_others_way, lambda threads: 1.0, waits=False)
    assert machine.read(1000) == 16


def test_there_is_nothing_to_decide_about_a_single_thread():
    machine = Machine(ThreadCount(1, ALONE), in_each_others_way, lambda threads: 1.0)
    assert machine.read(1000) == 1
    assert machine.count.generation == 0


def test_a_reader_stops_threads_that_are_in_the_way_and_loses_nothing(
    clock, gated, reading_threads
):
    """The first reads wait, the others keep the interpreter's lock: time goes by for all."""

    def read(index: int) -> None:
        (clock.wait if index < 200 else clock.compute)(0.003)
        if index >= 200:
            # Threads are judged only where the consumer has to wait for them, so it shall have to.
            time.sleep(0.002)

    source = gated(10_000, on_read=read)
    iterator = iter(grain.MapDataset.source(source).to_iter_dataset(grain.ReadOptions(8, 32)))
    found: list[int] = []
    all_of_them = few_of_them = False
    for element in iterator:
        found.append(element)
        running = len(reading_threads())
        all_of_them = all_of_them or running == 8
        few_of_them = few_of_them or (all_of_them and running == 1)
        if few_of_them:
            break
    assert few_of_them
    iterator.set_state({"next_index": 9_900})
    assert [*found, *iterator] == [*range(len(found)), *range(9_900, 10_000)]
    iterator.close()
