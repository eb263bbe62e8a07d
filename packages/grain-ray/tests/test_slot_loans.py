"""Loans of slots: who may write to which memory, and when it is free. Both sides are in this process."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from grain.execution.processes.control import PAGE_BYTES, SlotTable
from grain.execution.processes.slots import SlotPool
from grain_ray.loans import Invitation
from grain_ray.slot_borrower import SlotBorrower
from grain_ray.slot_lender import SUPPORTED, SlotLender

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="this system cannot pass unnamed memory")

MB = 1 << 20
SECONDS = 30


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


@pytest.fixture
def slots() -> Iterator[SlotPool]:
    slots = SlotPool(SlotTable(memoryview(bytearray(PAGE_BYTES))), 8 * MB)
    yield slots
    slots.close()


@pytest.fixture
def lender(slots: SlotPool) -> Iterator[SlotLender]:
    before = descriptors()
    threads = threading.active_count()
    lender = SlotLender(slots)
    yield lender
    lender.close()
    assert lender.lent == 0
    assert threading.active_count() == threads
    slots.close()
    gc.collect()
    assert descriptors() == before


@pytest.fixture
def invitation(lender: SlotLender) -> Invitation:
    return lender.invite()


@pytest.fixture
def borrower(invitation: Invitation) -> Iterator[SlotBorrower]:
    borrower = SlotBorrower(invitation)
    yield borrower
    borrower.close()


def placed(borrower: SlotBorrower, array: np.ndarray):
    region = borrower.place(0, memoryview(array).cast("B"))
    assert region is not None
    return region


def taken(slots: SlotPool, nbytes: int = 2 * MB) -> np.ndarray:
    memory = slots.take(nbytes)
    assert memory is not None
    return np.frombuffer(memory, np.uint8)


def test_a_result_is_where_it_was_written(lender, invitation, borrower, slots):
    array = borrower.allocate((2, MB), np.uint8)
    array[:] = [[3], [4]]
    region = placed(borrower, array[1])
    assert (region.offset, region.size) == (MB, MB)
    number = borrower.hand_over()
    (memory,) = lender.claim(invitation, number).values()
    assert bytes(memory[MB - 1 : MB + 1]) == b"\3\4"
    assert slots.slot_of(memory) is not None  # The consumer maps it: no copy.
    assert lender.claim(invitation, number) is None  # Once.


def test_an_array_elsewhere_is_copied_into_a_slot(lender, invitation, borrower):
    region = placed(borrower, np.full(MB, 5, np.uint8))
    memory = lender.claim(invitation, borrower.hand_over())[region.serial]
    assert set(memory[:MB]) == {5}


def test_small_arrays_and_objects_are_not_in_slots(lender, borrower):
    assert borrower.place(0, memoryview(b"small")) is None
    borrower.allocate(10, np.uint8), borrower.allocate(MB, object)
    assert lender.lent == 0


def test_a_slot_is_used_again_only_when_actor_reply_and_consumer_are_done(
    lender, invitation, borrower
):
    array = borrower.allocate(2 * MB, np.uint8)
    serial = placed(borrower, array).serial
    number = borrower.hand_over()

    def next_serial() -> int:
        other = borrower.allocate(2 * MB, np.uint8)
        found = placed(borrower, other).serial
        borrower.forget()
        return found

    assert next_serial() != serial
    claimed = lender.claim(invitation, number)
    assert next_serial() != serial
    del array
    assert next_serial() != serial
    claimed.clear()
    seen = {next_serial() for _ in range(4)}
    assert len(seen) <= 2  # The first slot or the second one: no other was made.


def test_an_array_is_sent_from_its_slot_once(lender, invitation, borrower):
    array = borrower.allocate(MB, np.uint8)
    first = placed(borrower, array)
    borrower.hand_over()
    second = placed(borrower, array)  # A copy: the consumer may write to the first.
    assert second.serial != first.serial


def test_what_other_threads_borrow_does_not_free_a_result(lender, invitation, borrower):
    array = borrower.allocate(MB, np.uint8)
    array[:] = 6
    region = placed(borrower, array)
    del array
    other = borrower.allocate(
        MB, np.uint8
    )  # As another thread would, before the result is handed over.
    other[:] = 9
    memory = lender.claim(invitation, borrower.hand_over())[region.serial]
    assert set(memory[:MB]) == {6}


def test_a_result_that_failed_is_returned(lender, borrower):
    region = placed(borrower, np.zeros(MB, np.uint8))
    borrower.forget()
    again = placed(borrower, np.zeros(MB, np.uint8))
    assert again.serial == region.serial
    assert lender.lent == 1


def test_an_actor_that_was_given_up_writes_to_memory_that_no_result_uses(
    lender, invitation, borrower, slots
):
    array = borrower.allocate(2 * MB, np.uint8)
    lender.revoke(invitation)
    results = [taken(slots) for _ in range(4)]  # All that the budget allows, so its slot is freed.
    for result in results:
        result[:] = 1
    array[:] = 255  # It is alive, and does not know yet.
    assert all((result == 1).all() for result in results)
    assert lender.claim(invitation, 1) is None


def test_a_result_that_was_not_claimed_is_dropped_with_its_actor(
    lender, invitation, borrower, slots
):
    placed(borrower, np.zeros(8 * MB, np.uint8))
    number = borrower.hand_over()
    assert slots.take(8 * MB) is None
    lender.revoke(invitation)
    assert lender.claim(invitation, number) is None
    assert slots.take(8 * MB) is not None


def test_a_reply_of_an_actor_that_ended_after_it_is_valid(lender, invitation, borrower):
    kept = borrower.allocate(MB, np.uint8)
    assert lender.lent == 1
    region = placed(borrower, np.full(MB, 7, np.uint8))
    number = borrower.hand_over()
    assert lender.lent == 2
    borrower.close()
    wait_until(lambda: lender.lent == 1)  # What it had borrowed is retired.
    kept[:] = 0
    memory = lender.claim(invitation, number)[region.serial]
    assert set(memory[:MB]) == {7}


def test_without_a_free_slot_memory_of_the_process_is_used(lender, borrower, slots):
    all_of_it = borrower.allocate(8 * MB, np.uint8)
    assert lender.lent == 1
    more = borrower.allocate(MB, np.uint8)
    assert borrower.place(0, memoryview(more)) is None
    assert lender.lent == 1
    del all_of_it
    assert (
        borrower.place(0, memoryview(more)) is not None
    )  # A smaller one, in place of the large one.
    assert len(slots.serials()) == 1


def test_without_a_gateway_a_result_travels_with_its_reply(lender, borrower):
    array = borrower.allocate(MB, np.uint8)
    array[:] = 8
    region = placed(borrower, array)
    lender.close()
    assert borrower.hand_over() is None
    assert (borrower.memory_of(region) == 8).all()
    assert borrower.allocate(MB, np.uint8).nbytes == MB
    assert borrower.place(0, memoryview(np.zeros(MB, np.uint8))) is None


def test_a_fork_borrows_nothing(lender, borrower):
    pid = os.fork()
    if pid == 0:
        borrower.allocate(MB, np.uint8)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert lender.lent == 0
    borrower.allocate(MB, np.uint8)[:] = 1


@pytest.mark.parametrize("case", ["another token", "used token", "another machine"])
def test_only_invited_actors_connect(case, invitation, borrower):
    asked = {
        "another token": invitation._replace(token="0" * 32),
        "used token": invitation,
        "another machine": invitation._replace(address="\0grain-of-another-machine"),
    }[case]
    with pytest.raises((OSError, EOFError)):
        SlotBorrower(asked)
    assert placed(borrower, np.zeros(MB, np.uint8))
