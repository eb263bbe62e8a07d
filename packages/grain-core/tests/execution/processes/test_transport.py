import collections
import dataclasses
import datetime as dt
import os
import pickle
import threading

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from grain.execution.processes.pool import WorkerPool


@pytest.fixture(scope="module")
def echo():
    """A pool whose worker sends back what it is given."""

    class Echo:
        def start(self, worker_index, worker_count):
            return lambda task: task

    with WorkerPool(Echo(), num_workers=1) as pool:

        def round_trip(value):
            return pool.result(pool.submit(value))

        round_trip.pool = pool
        yield round_trip


def assert_same_array(got, sent):
    assert type(got) is type(sent)
    assert got.dtype == sent.dtype
    assert got.dtype.char == sent.dtype.char
    assert got.dtype.metadata == sent.dtype.metadata
    assert got.shape == sent.shape
    assert got.flags.writeable == sent.flags.writeable
    assert got.flags.aligned
    assert got.flags.c_contiguous == sent.flags.c_contiguous or not sent.flags.forc
    assert got.flags.f_contiguous == sent.flags.f_contiguous or not sent.flags.forc
    if sent.dtype.hasobject:
        assert got.tolist() == sent.tolist()
    else:
        assert got.tobytes() == sent.tobytes()


SIZES = [0, 1, 3, 100, 5_000, 70_000]
DTYPES = [
    "?", "i1", "u2", "<i4", ">i4", "q", "l", "<f2", ">f8", "g", "c8", "G",
    "S7", "U5", ">U3", "M8[ns]", "m8[D]", "V6", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
    ml_dtypes.int4,
    [("a", "i4"), ("b", "f8", (2,)), ("c", "S3")],
    np.dtype([("x", "u1"), ("y", ">f4")], align=True),
    np.dtype("f4", metadata={"unit": "m"}),
]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_of_every_dtype_and_size_arrive_unchanged(echo, dtype, size):
    itemsize = np.dtype(dtype).itemsize
    raw = np.random.default_rng(size).integers(0, 2, size * itemsize, dtype=np.uint8)
    sent = raw.view(np.dtype(dtype)) if size else np.empty(0, dtype)
    assert_same_array(echo(sent), sent)


@pytest.mark.parametrize("side", [1, 5, 300])
@pytest.mark.parametrize(
    "change",
    [
        lambda a: a,
        np.asfortranarray,
        lambda a: a[::2],
        lambda a: a[:, ::-1],
        lambda a: a.T,
        lambda a: a[:0],
        lambda a: a[:1, :1].reshape(()),
        lambda a: np.broadcast_to(a[0], (4, a.shape[1])),
        lambda a: a[:, :, None],
    ],
    ids=["C", "F", "step", "reversed", "T", "empty", "0-d", "broadcast", "3-d"],
)
@pytest.mark.parametrize("writable", [True, False])
def test_layout_and_write_protection_arrive_unchanged(echo, side, change, writable):
    sent = change(np.arange(side * side, dtype=np.int64).reshape(side, side))
    if not writable:
        sent.flags.writeable = False
    assert_same_array(echo(sent), sent)


@dataclasses.dataclass
class Example:
    tokens: np.ndarray
    name: str


Pair = collections.namedtuple("Pair", ["left", "right"])


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        2**200,
        "text" * 10,
        "ü" * 100_000,
        b"",
        b"raw" * 100_000,
        bytearray(b"raw" * 100_000),
        [b"a" * 50_000, b"b" * 50_000],
        {"a": [1, (2.5, None)], "b": {3, 4}},
        dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        np.float32(1.5),
        np.datetime64("2020-01-01"),
        range(10),
        Pair(1, "x"),
        pickle.PickleBuffer,
    ],
    ids=lambda v: repr(v)[:20],
)
def test_other_objects_arrive_unchanged(echo, value):
    got = echo(value)
    assert type(got) is type(value)
    assert got == value


def test_object_and_string_arrays_arrive_unchanged(echo):
    for sent in (
        np.array(["a", None, 3, {"k": b"v"}], object),
        np.array([np.arange(3), "x"], object),
        np.empty((0, 2), object),
        np.array(["short", "a much longer string " * 1000], np.dtypes.StringDType()),
    ):
        got = echo(sent)
        assert got.dtype == sent.dtype
        assert got.shape == sent.shape
        assert repr(got) == repr(sent)


def test_subclasses_of_arrays_arrive_as_what_they_were(echo, tmp_path):
    masked = np.ma.masked_array(np.arange(20_000), np.arange(20_000) % 3 == 0)
    got = echo(masked)
    assert type(got) is np.ma.MaskedArray
    np.testing.assert_array_equal(got.mask, masked.mask)
    records = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")])
    assert echo(records).a.tolist() == [1, 3]


def test_a_record_with_large_and_small_arrays_arrives_whole(echo):
    sent = Example(np.arange(100_000), "n")
    got = echo({"one": sent, "again": sent, "label": np.int64(3), "tiny": np.ones(3)})
    assert got["one"] is got["again"]
    assert_same_array(got["one"].tokens, sent.tokens)
    assert got["one"].name == "n"
    assert_same_array(got["tiny"], np.ones(3))


def test_many_small_arrays_in_one_result_arrive_whole(echo):
    sent = [np.full(700, k, np.float32) for k in range(2000)]
    for got, expected in zip(echo(sent), sent, strict=True):
        assert_same_array(got, expected)


def assert_same(got, sent):
    assert type(got) is type(sent)
    if isinstance(sent, np.ndarray):
        assert_same_array(got, sent)
    elif isinstance(sent, dict):
        assert list(got) == list(sent)
        for key in sent:
            assert_same(got[key], sent[key])
    elif isinstance(sent, list):
        assert len(got) == len(sent)
        for one, other in zip(got, sent, strict=True):
            assert_same(one, other)
    else:
        assert got == sent


@settings(max_examples=60, deadline=None)
@given(
    value=st.recursive(
        hnp.arrays(
            hnp.scalar_dtypes() | hnp.unicode_string_dtypes() | hnp.byte_string_dtypes(),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=40),
        )
        | st.text()
        | st.binary()
        | st.integers(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=5,
    )
)
def test_any_nest_of_arrays_arrives_unchanged(echo, value):
    assert_same(echo(value), value)


def address(array):
    return array.__array_interface__["data"][0]


def test_a_large_array_is_read_in_place_and_may_be_written_to(make_pool):
    pool = make_pool(lambda x: np.full(1 << 20, x, np.uint8), num_workers=1)
    seen = set()
    for x in range(40):
        got = pool.result(pool.submit(x))
        seen.add(address(got))
        assert (got == x).all()
        got += 1
        del got
    assert len(seen) <= 2  # one slot, used again and again


def test_arrays_that_are_kept_are_never_overwritten(make_pool):
    pool = make_pool(lambda x: {"a": np.full(200_000, x), "b": np.full(300_000, -x)})
    kept, tickets = [], [pool.submit(x) for x in range(4)]
    for x in range(60):
        got = pool.result(tickets[x])
        tickets.append(pool.submit(x + 4))
        if x % 3 == 0:
            kept.append((x, got["a"][10:20]))  # a view keeps the whole slot
        if x % 5 == 0:
            kept.append((-x, memoryview(got["b"])))
    for value, part in kept:
        assert (np.asarray(part) == value).all()


def test_a_small_array_that_is_kept_does_not_keep_a_slot(make_pool):
    def handle(x):
        return {"image": np.full(1 << 20, x, np.uint8), "label": np.full(800, x, np.int64)}

    pool = make_pool(handle, num_workers=1, slot_bytes=3 << 20)
    labels, images = [], set()
    for x in range(50):
        got = pool.result(pool.submit(x))
        labels.append(got["label"])
        images.add(address(got["image"]))
        del got
    assert [int(label[799]) for label in labels] == list(range(50))
    assert len(images) <= 2


def test_keeping_every_result_works_beyond_the_budget_of_slots(make_pool):
    pool = make_pool(lambda x: np.full(1 << 20, x, np.uint8), num_workers=2, slot_bytes=4 << 20)
    tickets = [pool.submit(x) for x in range(40)]
    kept = [pool.result(ticket) for ticket in tickets]
    assert [int(array[-1]) for array in kept] == list(range(40))
    assert all(array.flags.writeable for array in kept)
    del kept
    again = [address(pool.result(pool.submit(x, affinity=0))) for x in range(20)]
    assert len(set(again)) <= 8  # back in the slots


def test_a_result_larger_than_the_budget_arrives_by_socket(make_pool):
    pool = make_pool(lambda x: np.arange(3_000_000) + x, num_workers=1, slot_bytes=1 << 20)
    got = pool.result(pool.submit(5))
    np.testing.assert_array_equal(got, np.arange(3_000_000) + 5)
    assert got.flags.writeable


def test_slots_grow_with_the_results(make_pool):
    pool = make_pool(lambda n: np.full(n, n % 251, np.uint8), num_workers=1, slot_bytes=40 << 20)
    for n in [100_000, 1_000_000, 10_000_000, 100_000, 20_000_000, 33_000_000] * 2:
        got = pool.result(pool.submit(n))
        assert got.size == n
        assert (got == n % 251).all()
        del got


def test_arrays_outlive_their_pool(make_pool):
    pool = make_pool(lambda x: np.full(1 << 20, x, np.uint8), num_workers=1)
    got = pool.result(pool.submit(9))
    pool.close()
    del pool
    got[:10] += 1
    assert int(got.sum()) == 9 * (1 << 20) + 10


def test_arrays_may_be_dropped_in_any_thread(make_pool):
    pool = make_pool(lambda x: np.full(1 << 20, x, np.uint8), num_workers=1, slot_bytes=6 << 20)
    for start in range(0, 60, 4):
        results = [pool.result(pool.submit(x)) for x in range(start, start + 4)]
        assert [int(a[7]) for a in results] == list(range(start, start + 4))
        threads = [threading.Thread(target=results.pop) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert pool.lent_slots == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_of_the_consumer_does_not_hand_back_what_the_consumer_still_uses(make_pool):
    pool = make_pool(lambda x: np.full(1 << 20, x, np.uint8), num_workers=1, slot_bytes=8 << 20)
    kept = pool.result(pool.submit(1))
    pid = os.fork()
    if pid == 0:
        del kept
        pool.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert pool.lent_slots == 1
    assert [int(pool.result(pool.submit(x))[0]) for x in range(2, 9)] == list(range(2, 9))
    assert (kept == 1).all()


def test_an_array_allocated_by_the_task_is_sent_without_a_copy(make_pool):
    class Job:
        def start(self, worker_index, worker_count):
            from grain.memory.allocation import allocate

            def handle(x):
                out = allocate((1024, 1024), np.uint8)
                out[:] = x
                where = out.__array_interface__["data"][0]
                with open("/proc/self/maps") as file:
                    maps = file.read().splitlines()
                line = next(
                    m for m in maps
                    if int(m.split("-")[0], 16) <= where < int(m.split("-")[1].split()[0], 16)
                )  # fmt: skip
                return {"out": out, "half": out[512:], "inode": line.split()[4], "name": line}

            return handle

    pool = make_pool(Job(), num_workers=1)
    inodes = set()
    for x in range(20):
        got = pool.result(pool.submit(x))
        assert "memfd:grain" in got["name"]
        assert (got["out"] == x).all()
        assert np.shares_memory(got["half"], got["out"])
        inodes.add(got["inode"])
        del got
    assert len(inodes) <= 2


def test_an_allocated_array_that_the_worker_keeps_is_not_given_out_again(make_pool):
    class Job:
        def start(self, worker_index, worker_count):
            from grain.memory.allocation import allocate

            kept = []

            def handle(x):
                out = allocate(1 << 17, np.int64)
                out[:] = x
                kept.append(out)
                return [(int(k[0]), int(k[-1])) for k in kept], out

            return handle

    pool = make_pool(Job(), num_workers=1)
    for x in range(10):
        values, out = pool.result(pool.submit(x))
        assert values == [(k, k) for k in range(x + 1)]
        assert (out == x).all()
        del out


def test_an_array_returned_twice_by_the_worker_is_right_both_times(make_pool):
    class Job:
        def start(self, worker_index, worker_count):
            from grain.memory.allocation import allocate

            out = allocate(1 << 17, np.int64)
            out[:] = 5
            return lambda x: out

    pool = make_pool(Job(), num_workers=1)
    first = pool.result(pool.submit(0))
    second = pool.result(pool.submit(0))
    assert not np.shares_memory(first, second)
    second += 1
    assert (first == 5).all()


def test_threads_of_a_worker_may_allocate_at_once(make_pool):
    class Job:
        def start(self, worker_index, worker_count):
            from concurrent.futures import ThreadPoolExecutor

            from grain.memory.allocation import current_allocator

            threads = ThreadPoolExecutor(4)

            def make(x):
                out = current_allocator()((50_000,), np.int32)
                out[:] = x
                return out

            return lambda x: list(threads.map(make, range(x, x + 8)))

    pool = make_pool(Job(), num_workers=1)
    for x in range(0, 160, 8):
        got = pool.result(pool.submit(x))
        assert [set(np.unique(a).tolist()) for a in got] == [{k} for k in range(x, x + 8)]


@pytest.mark.parametrize("code", ["ENOMEM", "ENOSPC", "EMFILE", "ENOSYS"])
def test_without_shared_memory_there_is_one_warning_and_all_results_are_right(make_pool, code):
    def break_memory(worker_index, worker_count):
        import errno

        from grain.execution.processes import segments

        def refuse(size):
            raise OSError(getattr(errno, code), "injected")

        segments.create = refuse

    pool = make_pool(
        lambda x: np.full(1 << 20, x, np.uint8), num_workers=1, worker_init_fn=break_memory
    )
    with pytest.warns(
        RuntimeWarning, match=r"Could not allocate shared memory .*injected"
    ) as warned:
        results = [pool.result(pool.submit(x)) for x in range(6)]
    assert len(warned) == 1
    assert all((array == x).all() for x, array in enumerate(results))


def test_a_consumer_that_cannot_map_slots_reads_them_by_copying(make_pool, monkeypatch):
    from grain.execution.processes import segments

    pool = make_pool(lambda x: np.full(1 << 20, x, np.uint8), num_workers=1)

    def refuse(fd, size):
        raise OSError(12, "injected: no room")

    monkeypatch.setattr(segments, "map_shared", refuse)
    with pytest.warns(RuntimeWarning, match="no room"):
        results = [pool.result(pool.submit(x)) for x in range(6)]
    assert [int(a[0]) for a in results] == list(range(6))
    assert all((a == a[0]).all() for a in results)
