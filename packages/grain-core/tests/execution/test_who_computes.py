"""Workers compute what they can: blocks, functions above what depends on order, streams, in threads."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import grain

from ..helpers.pipelines import with_workers
from .executors import recorded
from .gated_source import GatedSource
from .meeting import Meeting, assert_spread, new_meeting
from .pipelines import Lines, LinesIterator, heavy, odd, rows

X = grain.experimental


class PidLines(Lines):
    """A stream that tells who reads it."""

    def __iter__(self) -> grain.DatasetIterator:
        return PidIterator(self)


class PidIterator(LinesIterator):
    def __next__(self) -> tuple[int, int]:
        return super().__next__(), os.getpid()


def test_blocks_of_a_map_dataset_are_computed_by_all_workers(meet: Meeting) -> None:
    ds = grain.MapDataset.range(40).shuffle(1).map(meet).batch(2).to_iter_dataset()
    assert_spread(np.concatenate(list(with_workers(ds, 2))).tolist(), 2)


def test_iter_operations_that_are_functions_of_a_block_are_computed_by_all_workers(
    tmp_path: Path, meet: Meeting
) -> None:
    def note(index: int, x: int) -> tuple[int, int]:
        return x, os.getpid()

    ds = rows(40).map(meet).map_with_index(note).batch(4)
    batches = list(with_workers(ds, 2))
    for column in (0, 1):
        assert_spread(np.concatenate([batch[column] for batch in batches]).tolist(), 2)
    ds = rows(40).filter(odd).map(new_meeting(tmp_path, "second"))
    assert_spread(list(with_workers(ds, 2)), 2)


def test_streams_read_by_turns_are_spread_over_the_workers_stream_by_stream() -> None:
    streams = [PidLines(100 * i, 20) for i in range(5)]
    ds = X.InterleaveIterDataset(streams, cycle_length=4)
    readers: dict[int, set[int]] = defaultdict(set)
    for number, pid in with_workers(ds, 2):
        readers[number // 100].add(pid)
    assert len(readers) == 5
    # Each stream has one reader, and both workers read some.
    assert all(len(pids) == 1 for pids in readers.values())
    assert_spread([pid for pids in readers.values() for pid in pids], 2)


def test_streams_with_operations_are_computed_where_they_are_read() -> None:
    streams = [PidLines(100 * i, 20).map(lambda x: (x[0], x[1], os.getpid())) for i in range(4)]
    seen = list(with_workers(X.InterleaveIterDataset(streams, cycle_length=4), 2))
    assert all(reader == mapper for _, reader, mapper in seen)
    assert_spread([reader for _, reader, _ in seen], 2)


def test_map_datasets_read_by_turns_are_computed_by_all_workers(meet: Meeting) -> None:
    parts = [grain.MapDataset.range(40).map(meet) for _ in range(4)]
    assert_spread(list(with_workers(X.InterleaveIterDataset(parts, cycle_length=2), 2)), 2)


def test_a_single_stream_is_read_by_one_worker_in_the_background() -> None:
    seen = list(with_workers(PidLines(0, 50).map(lambda x: (x[1], os.getpid())), 3))
    assert_spread([pid for pair in seen for pid in pair], 1)


class SlowSource:
    """Records that come after a while, as from a network; they tell who read them."""

    def __init__(self, meet: Meeting):
        self.meet = meet

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> tuple[int, int]:
        self.meet(index)
        time.sleep(0.003)
        return os.getpid(), threading.get_ident()


@pytest.mark.parametrize("batched", [False, True])
def test_read_options_threads_read_inside_each_worker(batched: bool, meet: Meeting) -> None:
    options = grain.ReadOptions(num_threads=4, prefetch_buffer_size=8)
    ds = grain.MapDataset.source(SlowSource(meet)).to_iter_dataset(options)
    if batched:
        ds = ds.batch(4, batch_fn=list)
    seen = list(with_workers(ds, 2))
    readers: dict[int, set[int]] = defaultdict(set)
    for pid, thread in (pair for batch in seen for pair in (batch if batched else [batch])):
        readers[pid].add(thread)
    assert_spread(list(readers), 2)
    # The thread that began, and those that took over.
    assert all(1 < len(threads) <= 1 + 4 for threads in readers.values())
    assert max(map(len, readers.values())) == 1 + 4


def test_no_threads_read_inside_a_worker_if_none_are_allowed_or_needed(tmp_path: Path) -> None:
    source = grain.MapDataset.source(SlowSource(new_meeting(tmp_path, "alone", count=1)))[:60]
    alone = source.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    assert len(set(with_workers(alone, 1))) == 1

    def busy(x: int) -> int:
        heavy(x)
        return threading.get_ident()

    ds = grain.MapDataset.range(60).map(busy).to_iter_dataset().batch(4)
    assert len(np.unique(np.concatenate(list(with_workers(ds, 1))))) == 1


def test_workers_are_not_asked_for_more_than_the_buffer_allows_of_large_elements() -> None:
    """Elements count as computed ahead from when a worker begins them."""

    def large(index: int) -> np.ndarray:
        return np.full(8 << 20, index, np.uint8)

    ds = grain.MapDataset.range(100).map(large).to_iter_dataset()
    for dataset in (ds, Lines(0, 100).map(large)):
        iterator, workers, session = recorded(dataset)
        with iterator, contextlib.closing(session):
            for number in range(20):
                # One element at a time, however many are requested.
                assert [x[0] for x in iterator.next_chunk(1024).elements] == [number]
                assert len(workers.tasks) <= 4


def test_workers_fill_the_buffer_during_the_first_step() -> None:
    source = GatedSource(100)
    options = grain.MultiprocessingOptions(2, per_worker_buffer_size=8, executor="threads")
    with iter(grain.MapDataset.source(source).to_iter_dataset().mp_prefetch(options)) as iterator:
        assert next(iterator) == 0
        # The buffer holds 16 elements; the size of one was unknown before the first arrived.
        assert source.wait_until(lambda: len(source.started) >= 12)


def test_worker_init_fn_is_called_in_each_worker_with_its_index_and_their_number(
    tmp_path: Path,
) -> None:
    three, two = new_meeting(tmp_path, "three", count=3), new_meeting(tmp_path, "two")

    def init(index: int, count: int) -> None:
        os.environ["GRAIN_TEST_WORKER"] = f"{index} of {count}"

    def describe(x: int) -> str:
        three(x)
        return os.environ["GRAIN_TEST_WORKER"]

    ds = rows(100).map(describe).mp_prefetch(grain.MultiprocessingOptions(3), worker_init_fn=init)
    assert set(ds) == {"0 of 3", "1 of 3", "2 of 3"}

    class Describe(grain.transforms.Map):
        def map(self, element: int) -> str:
            two(element)
            return os.environ["GRAIN_TEST_WORKER"]

    loader = grain.DataLoader(
        data_source=grain.RangeDataSource(0, 100, 1),
        sampler=grain.IndexSampler(num_records=100, num_epochs=1),
        operations=[Describe()],
        worker_count=2,
        worker_init_fn=init,
    )
    assert set(loader) == {"0 of 2", "1 of 2"}
    assert "GRAIN_TEST_WORKER" not in os.environ


def test_start_prefetch_lets_workers_begin(fifo: Any) -> None:
    path = fifo.path

    def tell(x: int) -> int:
        if x == 0:
            with open(path, "w") as file:
                file.write("started")
        return x

    for dataset in (rows(9).map(tell), Lines(0, 9).map(tell), _turns(tell)):
        with iter(with_workers(dataset, 1)) as iterator:
            iterator.start_prefetch()
            assert fifo.read() == "started"
            assert next(iterator) == 0


def _turns(function: Any) -> grain.IterDataset:
    return X.InterleaveIterDataset([rows(9).map(function), rows(3)], cycle_length=2)
