"""The memory of large batches is reused, but never while an array over it is alive."""

import gc
import threading

import numpy as np
import pytest

import grain
from grain.memory.buffer_pool import BufferPool

MIB = 1 << 20


def test_memory_is_used_again_once_the_array_is_gone():
    pool = BufferPool()
    first = pool.take(MIB)
    address = first.ctypes.data
    assert pool.take(MIB).ctypes.data != address
    del first
    assert pool.take(MIB).ctypes.data == address


@pytest.mark.parametrize(
    "look",
    [
        lambda array: array[10:20],
        lambda array: array.reshape(2, -1)[1],
        lambda array: array.view(np.int32)[::3],
        memoryview,
        lambda array: np.frombuffer(array, np.int64),
        lambda array: np.asarray(memoryview(array)[5:])[1:],
    ],
)
def test_a_view_of_the_memory_keeps_it(look):
    pool = BufferPool()
    array = pool.take(MIB)
    array[:] = 7
    seen = look(array)
    del array
    gc.collect()
    for _ in range(4):
        pool.take(MIB)[:] = 1
    assert set(np.asarray(seen).tobytes()) == {7}


def test_sizes_that_are_alike_share_memory_and_others_do_not():
    pool = BufferPool()
    address = pool.take(MIB).ctypes.data
    other = pool.take(4 * MIB)
    alike = pool.take(MIB - 100)
    assert alike.nbytes >= MIB - 100
    assert alike.ctypes.data == address
    assert other.ctypes.data != address


def test_batches_that_are_dropped_together_leave_their_memory_to_the_next():
    pool = BufferPool()
    ready = [pool.take(MIB) for _ in range(4)]
    addresses = {array.ctypes.data for array in ready}
    del ready
    following = [pool.take(MIB) for _ in range(4)]
    assert {array.ctypes.data for array in following} == addresses


def test_what_is_kept_is_bounded_and_the_newest_stays():
    pool = BufferPool(max_buffers=2, max_bytes=5 * MIB)
    arrays = [pool.take(MIB) for _ in range(10)]
    last = arrays[-1].ctypes.data
    while arrays:
        del arrays[0]
    assert pool.kept_bytes <= 2 * (MIB + MIB // 8)
    assert pool.take(MIB).ctypes.data == last
    del last
    pool.take(6 * MIB)
    assert pool.kept_bytes <= 2 * (MIB + MIB // 8)
    pool.take(4 * MIB)
    assert pool.kept_bytes <= 5 * MIB


def test_many_threads_take_and_drop_at_the_same_time():
    pool = BufferPool()
    wrong = []

    def use(number):
        for turn in range(200):
            array = pool.take(MIB // 4 + (turn % 3) * MIB // 4)
            array[:64] = number
            array[-64:] = number
            if not ((array[:64] == number).all() and (array[-64:] == number).all()):
                wrong.append(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not pool._leases


def test_batches_that_are_kept_stay_what_they_were():
    images = [np.full((128, 128, 3), number, np.uint8) for number in range(64)]
    dataset = grain.MapDataset.source(images).batch(8)
    for one in (
        dataset,
        dataset.to_iter_dataset(),
        dataset.to_iter_dataset(grain.ReadOptions(4, 8)),
    ):
        kept, rows = [], []
        for number, batch in enumerate(one):
            if number % 2:
                kept.append(batch)
            else:
                rows.append(batch[3])
        assert [batch[0, 0, 0, 0] for batch in kept] == [8, 24, 40, 56]
        assert all((batch == batch[:, :1, :1, :1]).all() for batch in kept)
        assert (
            [int(row.min()) for row in rows] == [int(row.max()) for row in rows] == [3, 19, 35, 51]
        )


def test_large_elements_are_not_read_in_long_runs():
    images = [np.zeros((512, 512, 3), np.uint8) for _ in range(64)]
    iterator = iter(
        grain.MapDataset.source(images).batch(2).to_iter_dataset(grain.ReadOptions(0, 0))
    )
    while next(iterator, None) is not None:
        assert sum(batch.nbytes for batch in iterator._chunk.elements) <= 4 * MIB
