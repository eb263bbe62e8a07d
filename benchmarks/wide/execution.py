"""Threads, worker processes and the DataLoader; measured by the clock."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import grain
import grain.experimental as ge
from benchmarks.wide import material
from benchmarks.wide.case import Collection, MapDataset, in_order
from benchmarks.wide.material import Numbers, add_one

MANY = 10**6
MS = 0.001

threads = Collection("Threads", waits=True)
processes = Collection("Worker processes", waits=True)
loaders = Collection("DataLoader", waits=True)


def _waiting(seconds: float) -> Any:
    return MapDataset.source(Numbers(MANY, seconds))


def _waiting_loop(seconds: float, count: int = 16, ahead: int = 500) -> Callable[[], Any]:
    """Return the same reads in as many threads, without a library."""
    read = Numbers(MANY, seconds).__getitem__
    return functools.partial(material.in_threads, read, count, ahead)


# --- threads -----------------------------------------------------------------------------------


@threads.stream("threads_function", limit=lambda: map(add_one, material.drawn(MANY)))
def _() -> Any:
    return MapDataset.source(Numbers(MANY)).shuffle(1).map(add_one).to_iter_dataset()


@threads.stream(
    "threads_function_batch_32",
    per=32,
    limit=lambda: material.stacked(map(add_one, material.drawn(MANY)), 32),
)
def _() -> Any:
    return MapDataset.source(Numbers(MANY)).shuffle(1).map(add_one).batch(32).to_iter_dataset()


for _name, _seconds in (("100us", MS / 10), ("1ms", MS), ("20ms", 20 * MS)):

    @threads.stream(f"threads_reads_wait_{_name}", limit=_waiting_loop(_seconds))
    def _(seconds: float = _seconds) -> Any:
        return _waiting(seconds).to_iter_dataset()


for _threads, _buffer in ((1, 1), (4, 4), (64, 500)):

    @threads.stream(
        f"threads_{_threads}_buffer_{_buffer}_reads_wait_1ms",
        limit=_waiting_loop(MS, _threads, _buffer),
    )
    def _(count: int = _threads, buffer: int = _buffer) -> Any:
        options = grain.ReadOptions(num_threads=count, prefetch_buffer_size=buffer)
        return _waiting(MS).to_iter_dataset(options)


def _batches_that_wait() -> Any:
    source = Numbers(MANY, MS)
    return material.in_threads(
        lambda number: np.array([source[8 * number + i] for i in range(8)]), 16, 500
    )


@threads.stream("threads_batches_of_8_wait_8ms", per=8, limit=_batches_that_wait)
def _() -> Any:
    return _waiting(MS).shuffle(1).map(add_one).batch(8).to_iter_dataset()


@threads.stream("threads_wait_filter_batch_8_per_read", per=16)
def _() -> Any:
    return _waiting(MS).to_iter_dataset().filter(material.is_even).map(add_one).batch(8)


@threads.stream("threads_heavy_function", limit=lambda: map(material.compute, range(MANY)))
def _() -> Any:
    return MapDataset.range(MANY).map(material.compute).to_iter_dataset()


def _large() -> list[np.ndarray]:
    return [np.zeros(2_500_000, np.float32) for _ in range(6)]


@threads.stream("threads_function_of_10_MB", limit=lambda: map(add_one, material.picked(_large())))
def _() -> Any:
    return MapDataset.source(_large()).shuffle(1).repeat().map(add_one).to_iter_dataset()


@threads.stream("thread_prefetch_numbers", limit=lambda: range(MANY))
def _() -> Any:
    stream = in_order(MapDataset.range(MANY))
    return ge.ThreadPrefetchIterDataset(stream, prefetch_buffer_size=16)


@threads.stream("thread_prefetch_heavy_function", limit=lambda: map(material.compute, range(MANY)))
def _() -> Any:
    stream = in_order(MapDataset.range(MANY).map(material.compute))
    return ge.ThreadPrefetchIterDataset(stream, prefetch_buffer_size=16)


@threads.stream("multithread_prefetch_numbers", limit=lambda: range(MANY))
def _() -> Any:
    return ge.multithread_prefetch(in_order(MapDataset.range(MANY)), num_threads=4, buffer_size=16)


@threads.stream("multithread_prefetch_reads_wait_1ms", limit=_waiting_loop(MS, 8, 16))
def _() -> Any:
    return ge.multithread_prefetch(in_order(_waiting(MS)), num_threads=8, buffer_size=16)


@threads.stream("interleave_1000_short_in_threads")
def _() -> Any:
    parts = [MapDataset.range(5).to_iter_dataset() for _ in range(1000)]
    return ge.InterleaveIterDataset(
        parts, cycle_length=8, num_make_iter_threads=4, make_iter_buffer_size=4
    )


@threads.calls("threads_five_elements", unit="passes/s")
def _() -> Any:
    dataset = MapDataset.source([1, 2, 3, 4, 5]).map(add_one).to_iter_dataset()
    return lambda: list(dataset)


# --- worker processes --------------------------------------------------------------------------


def _workers(stream: Any, count: int) -> Any:
    return stream.mp_prefetch(grain.MultiprocessingOptions(num_workers=count))


for _count in (1, 2, 4):

    @processes.stream(f"workers_{_count}_elements")
    def _(count: int = _count) -> Any:
        dataset = MapDataset.source(Numbers(10**7)).shuffle(1).map(add_one)
        return _workers(dataset.to_iter_dataset(), count)

    @processes.stream(f"workers_{_count}_batch_64", per=64)
    def _(count: int = _count) -> Any:
        dataset = MapDataset.source(Numbers(10**7)).shuffle(1).map(add_one).batch(64)
        return _workers(dataset.to_iter_dataset(), count)


@processes.stream("workers_2_heavy_function_batch_16", per=16)
def _() -> Any:
    dataset = MapDataset.range(10**7).map(material.compute).batch(16)
    return _workers(dataset.to_iter_dataset(), 2)


def _filled(number: int) -> np.ndarray:
    return np.full(250_000, number, np.float32)


@processes.stream("workers_2_arrays_of_1_MB", limit=lambda: map(_filled, range(10**7)))
def _() -> Any:
    return _workers(MapDataset.range(10**7).map(_filled).to_iter_dataset(), 2)


@processes.stream("workers_2_text")
def _() -> Any:
    dataset = MapDataset.range(10**7).map(lambda number: f"text {number}")
    return _workers(dataset.to_iter_dataset(), 2)


@processes.stream("workers_2_reads_wait_1ms", limit=_waiting_loop(MS, 32, 1000))
def _() -> Any:
    return _workers(_waiting(MS).to_iter_dataset(), 2)


@processes.stream("workers_2_first_fit", unit="rows/s")
def _() -> Any:
    stream = MapDataset.source(material.documents(2000, 50, 600)).repeat().to_iter_dataset()
    packed = ge.FirstFitPackIterDataset(stream, length_struct={"tokens": 2048}, num_packing_bins=32)
    return _workers(packed, 2)


@processes.stream("workers_2_filter_batch_64", per=64)
def _() -> Any:
    dataset = MapDataset.range(10**7).shuffle(1).filter(material.is_even)
    return _workers(dataset.to_iter_dataset().batch(64), 2)


@processes.calls("workers_2_first_batch", unit="starts/s")
def _() -> Any:
    dataset = MapDataset.range(MANY).shuffle(1).map(add_one).batch(32)
    stream = _workers(dataset.to_iter_dataset(), 2)

    def start() -> None:
        iterator = iter(stream)
        next(iterator)
        if hasattr(iterator, "close"):
            iterator.close()

    return start


# --- DataLoader --------------------------------------------------------------------------------


def loader(operations: list[Any], workers: int, source: Any = None) -> Any:
    """Return a DataLoader over shuffled numbers."""
    sampler = grain.samplers.IndexSampler(
        MANY, grain.sharding.NoSharding(), shuffle=True, num_epochs=None, seed=3
    )
    return grain.DataLoader(
        data_source=source or Numbers(MANY),
        sampler=sampler,
        operations=operations,
        worker_count=workers,
    )


for _count in (0, 2):

    @loaders.stream(f"loader_{_count}_batch_64", per=64)
    def _(count: int = _count) -> Any:
        return loader([material.Plus(), grain.transforms.Batch(64)], count)

    @loaders.stream(f"loader_{_count}_filter_random_batch_64", per=64)
    def _(count: int = _count) -> Any:
        operations = [
            material.Plus(),
            material.Odd(),
            material.Jitter(),
            grain.transforms.Batch(64),
        ]
        return loader(operations, count)


@loaders.stream("loader_0_elements", limit=lambda: map(add_one, material.drawn(MANY)))
def _() -> Any:
    return loader([material.Plus()], 0)


@loaders.stream("loader_0_reads_wait_1ms", limit=_waiting_loop(MS))
def _() -> Any:
    return loader([material.Plus()], 0, Numbers(MANY, MS))


@loaders.calls("loader_0_first_batch", unit="starts/s")
def _() -> Any:
    made = loader([material.Plus(), grain.transforms.Batch(8)], 0)
    return lambda: next(iter(made))


@loaders.stream(
    "elastic_batch_32",
    per=32,
    limit=lambda: material.stacked(map(add_one, material.drawn(MANY)), 32),
)
def _() -> Any:
    dataset = MapDataset.range(100 * MANY).shuffle(1).map(add_one)
    return ge.ElasticIterator(dataset, 32, grain.sharding.ShardOptions(0, 1))
