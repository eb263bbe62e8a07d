"""Preemption finds a race of two calls at the step between which it shows, and at no other."""

from __future__ import annotations

import threading

import pytest

from grain.testing.preemption import MOST_STEPS, Preemption

PACKAGE = __name__.partition(".")[0]


class Account:
    """A balance that two threads change."""

    def __init__(self) -> None:
        self.balance = 0
        self.lock = threading.Lock()

    def add(self) -> None:
        before = self.balance
        self.balance = before + 1

    def add_in_one_line(self) -> None:
        self.balance += 1

    def add_locked(self) -> None:
        with self.lock:
            self.add()


def balances(name: str) -> set[int]:
    preemption = Preemption(PACKAGE)
    found = set()
    preemption.prepare(getattr(Account(), name))
    for step in preemption.steps(getattr(Account(), name)):
        account = Account()
        preemption.run(getattr(account, name), step, getattr(account, name))
        found.add(account.balance)
    return found


@pytest.mark.parametrize("name", ["add", "add_in_one_line"])
def test_a_lost_update_is_found(name):
    assert balances(name) == {1, 2}


def test_a_lock_prevents_it_and_blocks_nothing():
    assert balances("add_locked") == {2}


def test_every_step_is_reached_while_other_calls_wait_for_a_lock():
    preemption = Preemption(PACKAGE)
    account = Account()
    preemption.prepare(account.add_locked)
    steps = preemption.steps(account.add_locked)
    reached = []
    for step in steps:

        def other(step: int = step) -> None:
            reached.append(step)
            account.add_locked()

        preemption.run(account.add_locked, step, other)
    assert reached == list(steps)


def test_the_second_call_runs_even_if_the_first_does_not_reach_the_step():
    account = Account()
    Preemption(PACKAGE).run(account.add, MOST_STEPS, account.add)
    assert account.balance == 2


def test_the_number_of_steps_is_bounded_and_the_choice_is_the_same_each_time():
    def loop() -> int:
        return sum(number for number in range(1000))

    Preemption(PACKAGE).prepare(loop)
    steps = Preemption(PACKAGE).steps(loop)
    assert len(steps) == MOST_STEPS
    assert steps == Preemption(PACKAGE).steps(loop)
