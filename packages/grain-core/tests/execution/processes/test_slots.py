"""Slots and channels with both ends in this process, where every step can be seen."""

import array
import gc
import os
import socket

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.execution.processes import array_pickling, framing, segments
from grain.execution.processes.channel import Channel, ChannelLostError
from grain.execution.processes.control import (
    PAGE_BYTES,
    RING_BYTES,
    CancelledTickets,
    SlotTable,
    WorkerPage,
)
from grain.execution.processes.segments import OwnedDescriptor
from grain.execution.processes.slots import SlotPool, SlotViews

MB = 1 << 20


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def ends():
    """A sender's slots, a receiver's views, and the page between them."""
    lending = SlotTable(memoryview(bytearray(PAGE_BYTES)))
    slots, views = SlotPool(lending, 8 * MB), SlotViews(lending)
    yield slots, views, lending
    slots.close()
    views.close()


def pass_updates(slots, views):
    for index, capacity, fd in slots.take_updates():
        views.update(index, capacity, OwnedDescriptor(fd) if capacity else None)


def test_another_process_writes_into_a_shared_slot(ends):
    slots, views, _ = ends
    before = descriptors()
    shared = slots.take_shared(MB)
    pass_updates(slots, views)
    written = segments.map_shared(shared.fd, shared.memory.nbytes)  # As the other process maps it.
    written[:3] = b"abc"
    index, offset = slots.slot_of(shared.memory)
    slots.lend(index)
    assert bytes(views.lease(index)[offset : offset + 3]) == b"abc"
    serial = shared.serial
    del shared
    again = slots.take_shared(MB)
    assert again.serial == serial
    # A slot that was made for this process alone is not shared later.
    slots.take(MB)
    known = slots.serials()
    assert slots.take_shared(MB).serial not in known
    del again, written
    slots.close()
    views.close()
    assert descriptors() == before


def test_a_retired_slot_is_freed_and_never_taken_again(ends):
    slots, views, lending = ends
    shared = slots.take_shared(8 * MB)
    pass_updates(slots, views)
    index, _ = slots.slot_of(shared.memory)
    slots.lend(index)
    theirs = np.frombuffer(views.lease(index), np.uint8)
    slots.retire(shared.serial)
    written, serial = shared.memory[:], shared.serial
    del shared, written
    assert slots.take(MB) is None  # The receiver has it, so its memory and its number are in use.
    assert serial in slots.serials()
    del theirs
    assert not lending.lent[index]
    assert slots.take_shared(8 * MB).serial != serial
    assert serial not in slots.serials()
    slots.retire(serial)  # It is gone: nothing to do.


def test_a_slot_is_free_only_when_both_sides_have_let_go(ends):
    slots, views, lending = ends
    mine = slots.allocate(MB, np.uint8)
    index, offset = slots.slot_of(memoryview(mine))
    assert offset == 0
    pass_updates(slots, views)
    slots.lend(index)
    theirs = np.frombuffer(views.lease(index), np.uint8)
    mine[:] = 7
    assert (theirs == 7).all()

    del mine
    assert slots.slot_of(memoryview(slots.allocate(MB, np.uint8)))[0] != index
    part = theirs[10:20]
    del theirs
    gc.collect()
    assert lending.lent[index] == 1
    del part
    assert lending.lent[index] == 0
    again = slots.allocate(MB, np.uint8)
    assert slots.slot_of(memoryview(again))[0] == index


def test_an_array_whose_slot_is_lent_is_not_sent_in_place(ends):
    slots, _, _ = ends
    mine = slots.allocate(MB, np.uint8)
    index, _ = slots.slot_of(memoryview(mine))
    slots.lend(index)
    assert slots.slot_of(memoryview(mine)) is None
    assert slots.slot_of(memoryview(np.zeros(MB, np.uint8))) is None


def test_small_arrays_and_arrays_of_objects_are_not_put_into_slots(ends):
    slots, _, _ = ends
    for shape, dtype in ((10, np.uint8), ((0, 1000), np.float64), (MB, object)):
        out = slots.allocate(shape, dtype)
        assert out.dtype == dtype
        assert out.flags.owndata
    assert slots.take_updates() == []


def test_beyond_the_budget_memory_is_plain_and_too_small_slots_give_way(ends):
    slots, views, _ = ends
    small = [slots.allocate(MB, np.uint8) for _ in range(8)]
    assert slots.allocate(MB, np.uint8).flags.owndata
    pass_updates(slots, views)
    small.clear()
    large = slots.allocate(5 * MB, np.uint8)
    assert not large.flags.owndata
    dropped = [item for item in slots.take_updates() if item.capacity == 0]
    assert len(dropped) == 5
    assert slots.allocate(9 * MB, np.uint8).flags.owndata


def test_slots_left_from_a_passing_need_are_given_back(ends):
    slots, views, _ = ends
    held = [slots.allocate(MB, np.uint8) for _ in range(6)]
    pass_updates(slots, views)
    held.clear()
    for _ in range(1000):
        slots.allocate(MB, np.uint8)
    dropped = [item for item in slots.take_updates() if item.capacity == 0]
    assert len(dropped) == 5


def test_neither_side_keeps_a_descriptor(ends):
    slots, views, _ = ends
    before = descriptors()
    held = [slots.allocate(MB, np.uint8) for _ in range(5)]
    assert descriptors() == before + 5  # on their way
    pass_updates(slots, views)
    assert descriptors() == before
    del held


def test_closing_closes_descriptors_that_were_never_sent():
    before = descriptors()
    slots = SlotPool(SlotTable(memoryview(bytearray(PAGE_BYTES))), 8 * MB)
    out = slots.allocate(MB, np.uint8)
    slots.close()
    assert descriptors() == before
    out[:] = 1
    assert slots.allocate(MB, np.uint8).flags.owndata


def test_memory_is_unmapped_when_the_last_array_goes():
    fd = segments.create(MB)
    memory = np.frombuffer(segments.map_shared(fd, MB), np.uint8)
    inode = os.fstat(fd).st_ino
    os.close(fd)
    view = memory[5:10]
    del memory

    def mapped():
        with open("/proc/self/maps") as file:
            return any("memfd:grain" in line and f" {inode} " in line for line in file)

    assert mapped()
    del view
    assert not mapped()


def test_a_failure_to_make_a_slot_is_kept_and_not_tried_again(ends, monkeypatch):
    slots, _, _ = ends
    calls = []

    def refuse(size):
        calls.append(size)
        raise OSError(28, "No space left")

    before = slots.allocate(MB, np.uint8)
    monkeypatch.setattr(segments, "create", refuse)
    assert slots.allocate(MB, np.uint8).flags.owndata
    assert slots.allocate(MB, np.uint8).flags.owndata
    assert len(calls) == 1
    assert slots.failure.errno == 28
    index = slots.slot_of(memoryview(before))
    del before
    assert slots.slot_of(memoryview(slots.allocate(MB, np.uint8))) == index  # those there are stay


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_memory_in_use_is_never_given_out_twice(data):
    """Sender and receiver take, send and drop at will; every array keeps its own contents."""
    lending = SlotTable(memoryview(bytearray(PAGE_BYTES)))
    slots, views = SlotPool(lending, 2 * MB), SlotViews(lending)
    mine, theirs, stamp = [], [], 0
    for _ in range(data.draw(st.integers(1, 60))):
        action = data.draw(st.sampled_from(["make", "send", "drop mine", "drop theirs"]))
        if action == "make":
            stamp += 1
            size = data.draw(st.sampled_from([70_000, 150_000, 300_000]))
            out = slots.allocate(size, np.uint8)
            out[:] = stamp % 251
            mine.append((stamp % 251, out))
        elif action == "send" and mine:
            value, out = mine[data.draw(st.integers(0, len(mine) - 1))]
            found = slots.slot_of(memoryview(out))
            if found is not None:
                pass_updates(slots, views)
                slots.lend(found[0])
                theirs.append((value, np.frombuffer(views.lease(found[0]), np.uint8)[: out.size]))
        elif action == "drop mine" and mine:
            mine.pop(data.draw(st.integers(0, len(mine) - 1)))
            out = None
        elif action == "drop theirs" and theirs:
            theirs.pop(data.draw(st.integers(0, len(theirs) - 1)))
        for value, held in mine + theirs:
            assert held[0] == held[-1] == value
        value = held = out = None
    slots.close()
    views.close()


def test_a_ticket_is_cancelled_by_its_own_number_only():
    cancelled = CancelledTickets(memoryview(bytearray(RING_BYTES)))
    cancelled.add(5)
    assert 5 in cancelled
    assert 5 + 1024 not in cancelled
    cancelled.add(5 + 1024)
    assert 5 not in cancelled


@pytest.fixture
def channels():
    """Both ends of a channel."""
    one, two = socket.socketpair()
    page = WorkerPage(memoryview(bytearray(PAGE_BYTES)))
    left = Channel(one, sending=page.tasks, receiving=page.results, budget=8 * MB)
    right = Channel(two, sending=page.results, receiving=page.tasks, budget=8 * MB)
    yield left, right
    left.close()
    right.close()


def send(channel, value, ticket=1):
    channel.send(
        framing.FrameKind.RESULT, ticket, array_pickling.Dumper(channel.slots.allocate)(value)
    )


def receive(sender, receiver, count):
    got = []
    while len(got) < count:
        sender.flush()
        got.extend(receiver.receive())
    return got


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([0, 1, 600, 9_000, 40_000, 100_000, 900_000]), max_size=12),
    budget=st.sampled_from([0, MB, 8 * MB]),
)
def test_frames_of_any_sizes_arrive_in_order(sizes, budget):
    one, two = socket.socketpair()
    page = WorkerPage(memoryview(bytearray(PAGE_BYTES)))
    left = Channel(one, sending=page.tasks, receiving=page.results, budget=budget)
    right = Channel(two, sending=page.results, receiving=page.tasks, budget=budget)
    before = descriptors()
    for ticket, size in enumerate(sizes):
        send(left, [np.full(size, ticket, np.uint8), bytes(size)], ticket)
    got = receive(left, right, len(sizes))
    assert [frame.ticket for frame in got] == list(range(len(sizes)))
    for ticket, (frame, size) in enumerate(zip(got, sizes, strict=True)):
        numbers, raw = right.decode(frame)
        assert numbers.size == size
        assert (numbers == ticket).all()
        assert raw == bytes(size)
    assert descriptors() == before
    left.close()
    right.close()


def test_frames_that_arrive_byte_by_byte_are_put_together(channels):
    left, _ = channels
    raw = framing.inline_frame(3, 9, array_pickling.Dumper()([np.arange(1000), "x" * 50]))
    one, two = socket.socketpair()
    with one:
        slow = Channel(two, sending=left.slots.table, receiving=left.slots.table, budget=0)
        got = []
        for k in range(len(raw)):
            one.send(raw[k : k + 1])
            got.extend(slow.receive())
        assert len(got) == 1
        numbers, text = slow.decode(got[0])
        np.testing.assert_array_equal(numbers, np.arange(1000))
        assert text == "x" * 50
        one.close()
        with pytest.raises(EOFError):
            slow.receive()
        slow.close()


def test_dropping_a_frame_hands_its_slots_back(channels):
    left, right = channels
    for k in range(30):
        send(left, np.full(4 * MB, k, np.uint8))
        (frame,) = receive(left, right, 1)
        assert frame.buffers[1].slot >= 0
        right.drop(frame)


def test_descriptors_that_do_not_fit_into_the_process_are_reported(channels):
    import resource

    left, right = channels
    send(left, np.zeros(MB, np.uint8))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        with pytest.raises(ChannelLostError, match="ulimit -n"):
            right.receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_channel_closes_descriptors_that_are_still_on_their_way(channels):
    left, right = channels
    before = descriptors()
    for _ in range(4):
        send(left, [np.zeros(MB, np.uint8), bytes(30_000)])
    one, two = socket.socketpair()
    with one:
        other = Channel(two, sending=left.slots.table, receiving=left.slots.table, budget=0)
        socket.send_fds(one, [b"half a frame"], array.array("i", [os.dup(0)]))
        other.receive()
        other.close()
    left.close()
    right.close()
    del left, right, other
    gc.collect()
    assert descriptors() <= before
