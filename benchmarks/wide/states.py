"""Describing, pickling and starting pipelines, their states, and their memory."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np

import grain
import grain.experimental as ge
from benchmarks.wide import material
from benchmarks.wide.case import Collection, MapDataset, in_order
from benchmarks.wide.execution import loader
from benchmarks.wide.material import Numbers, add_one

MANY = 10**6

descriptions = Collection("Descriptions")
restoring = Collection("Restoring a state, and one element")
states = Collection("A state after each element")
memory = Collection("Memory")


# --- descriptions ------------------------------------------------------------------------------


@descriptions.calls("concatenate_2000", unit="datasets/s")
def _() -> Any:
    parts = [MapDataset.range(10) for _ in range(2000)]
    return lambda: len(MapDataset.concatenate(parts))


@descriptions.calls("mix_2000", unit="datasets/s")
def _() -> Any:
    parts, weights = [MapDataset.range(1000) for _ in range(2000)], [1, 2, 3, 4] * 500
    return lambda: len(MapDataset.mix(parts, weights))


@descriptions.calls("source_shuffle_function", unit="datasets/s", per=1000)
def _() -> Any:
    records = list(range(100))

    def describe() -> list[Any]:
        return [MapDataset.source(records).shuffle(seed).map(add_one) for seed in range(1000)]

    return describe


@descriptions.calls("seeded_shuffles_50", unit="datasets/s")
def _() -> Any:
    def describe() -> Any:
        dataset = MapDataset.range(100).seed(1)
        for _ in range(50):
            dataset = dataset.shuffle()
        return dataset

    return describe


@descriptions.calls("seeded_tree_of_mixtures", unit="datasets/s")
def _() -> Any:
    def describe() -> Any:
        dataset = MapDataset.range(1000).seed(1)
        for _ in range(6):
            dataset = MapDataset.mix([dataset.shuffle() for _ in range(3)])
        return dataset

    return describe


def _functions(count: int) -> Any:
    dataset = MapDataset.range(MANY).shuffle(1)
    for _ in range(count):
        dataset = dataset.map(add_one)
    return dataset


def _pickling(make: Callable[[], Any]) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        dataset = make()
        return lambda: pickle.loads(cloudpickle.dumps(dataset))

    return prepare


descriptions.calls("pickle_functions_50", unit="round trips/s")(_pickling(lambda: _functions(50)))
descriptions.calls("pickle_mix_2000", unit="round trips/s")(
    _pickling(lambda: MapDataset.mix([MapDataset.range(1000).shuffle(i) for i in range(2000)]))
)


@descriptions.calls("text_of_functions_50")
def _() -> Any:
    dataset = _functions(50)
    return lambda: repr(dataset)


@descriptions.calls("length_of_functions_50")
def _() -> Any:
    dataset = _functions(50)
    return lambda: len(dataset)


@descriptions.calls("first_batch", unit="starts/s")
def _() -> Any:
    dataset = in_order(MapDataset.range(MANY).shuffle(1).map(add_one).batch(32))
    return lambda: next(iter(dataset))


@descriptions.calls("first_batch_in_threads", unit="starts/s", waits=True)
def _() -> Any:
    dataset = MapDataset.source(Numbers(MANY)).shuffle(1).map(add_one).batch(32)
    stream = dataset.to_iter_dataset()
    return lambda: next(iter(stream))


@descriptions.calls("first_of_interleaved_100", unit="starts/s")
def _() -> Any:
    parts = [in_order(MapDataset.range(2000)) for _ in range(100)]
    dataset = ge.InterleaveIterDataset(parts, cycle_length=16)
    return lambda: next(iter(dataset))


# --- states ------------------------------------------------------------------------------------


def _numbers() -> Any:
    return in_order(MapDataset.range(MANY))


def _documents() -> Any:
    return in_order(MapDataset.source(material.documents(2000, 50, 600)).repeat())


def _packed() -> Any:
    return ge.FirstFitPackIterDataset(
        _documents(), length_struct={"tokens": 2048}, num_packing_bins=32
    )


def _interleaved() -> Any:
    parts = [in_order(MapDataset.range(2000)) for _ in range(100)]
    return ge.InterleaveIterDataset(parts, cycle_length=16)


PIPELINES: dict[str, tuple[Callable[[], Any], int, bool]] = {
    "function": (lambda: in_order(MapDataset.range(10**7).shuffle(1).map(add_one)), 20_000, False),
    "filter": (lambda: _numbers().filter(lambda x: x % 3 == 0), 20_000, False),
    "mix_20": (
        lambda: in_order(MapDataset.mix([MapDataset.range(10**5).shuffle(i) for i in range(20)])),
        20_000,
        False,
    ),
    "mix_3_of_streams": (
        lambda: grain.IterDataset.mix([_numbers() for _ in range(3)]),
        20_000,
        False,
    ),
    "window_shuffle": (
        lambda: ge.WindowShuffleIterDataset(_numbers(), window_size=1000, seed=1),
        20_500,
        False,
    ),
    "first_fit": (_packed, 1000, False),
    "concatenate_and_split": (
        lambda: ge.ConcatThenSplitIterDataset(_documents(), length_struct={"tokens": 2048}),
        1000,
        False,
    ),
    "interleave": (_interleaved, 20_000, False),
    "flat_map": (lambda: ge.FlatMapIterDataset(_numbers(), material.Split()), 20_000, False),
    "limit_and_repeat": (
        lambda: ge.RepeatIterDataset(ge.LimitIterDataset(_numbers(), 30_000)),
        50_000,
        False,
    ),
    "zip": (lambda: ge.ZipIterDataset([_numbers() for _ in range(4)]), 20_000, False),
    "rebatch": (
        lambda: ge.RebatchIterDataset(in_order(MapDataset.range(MANY).batch(7)), batch_size=64),
        1000,
        False,
    ),
    "cache": (
        lambda: ge.RepeatIterDataset(ge.CacheIterDataset(in_order(MapDataset.range(1000)))),
        1500,
        False,
    ),
    "batch": (lambda: _numbers().batch(64), 1000, False),
    "threads": (lambda: MapDataset.source(Numbers(10**7)).to_iter_dataset(), 5000, True),
    "thread_prefetch": (
        lambda: ge.ThreadPrefetchIterDataset(_numbers(), prefetch_buffer_size=16),
        1000,
        True,
    ),
    "loader": (
        lambda: loader([material.Plus(), material.Odd(), grain.transforms.Batch(8)], 0),
        500,
        True,
    ),
}


def _restoring(make: Callable[[], Any], steps: int) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        dataset = make()
        iterator = iter(dataset)
        for _ in range(steps):
            next(iterator)
        state = iterator.get_state()

        def restore() -> None:
            fresh = iter(dataset)
            fresh.set_state(state)
            next(fresh)

        return restore

    return prepare


def _recording(make: Callable[[], Any]) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        iterator = iter(make())

        def advance() -> None:
            nonlocal iterator
            try:
                next(iterator)
            except StopIteration:
                iterator = iter(make())
                next(iterator)
            iterator.get_state()

        return advance

    return prepare


for _name, (_make, _steps, _waits) in PIPELINES.items():
    restoring.calls(f"restore_{_name}", unit="restores/s", waits=_waits)(_restoring(_make, _steps))
    if _name not in ("cache", "limit_and_repeat", "mix_20", "thread_prefetch"):
        states.calls(f"state_{_name}", unit="elements/s", waits=_waits)(_recording(_make))


# --- memory ------------------------------------------------------------------------------------


def _advance(stream: Any, steps: int) -> None:
    iterator = iter(stream)
    for _ in range(steps):
        next(iterator)


@memory.peak("memory_window_of_100_MB")
def _() -> Any:
    stream = in_order(MapDataset.range(MANY).map(lambda number: np.full(128, number)))
    shuffled = ge.WindowShuffleIterDataset(stream, window_size=100_000, seed=1)
    return lambda: _advance(shuffled, 1000)


@memory.peak("memory_cache_of_100_MB")
def _() -> Any:
    stream = in_order(MapDataset.range(1000).map(lambda number: np.full(12_500, number)))
    return lambda: _advance(ge.CacheIterDataset(stream), 1000)


@memory.peak("memory_threads_elements_of_1_MB")
def _() -> Any:
    dataset = MapDataset.range(MANY).map(lambda number: np.full(125_000, number))
    return lambda: _advance(dataset.to_iter_dataset(), 600)


@memory.peak("memory_mix_2000")
def _() -> Any:
    parts = [MapDataset.range(10**5).shuffle(seed) for seed in range(2000)]
    return lambda: _advance(in_order(MapDataset.mix(parts).batch(64)), 100)


@memory.peak("memory_interleave_1000")
def _() -> Any:
    parts = [
        MapDataset.range(2000).map(lambda number: np.full(128, number)).to_iter_dataset()
        for _ in range(1000)
    ]
    return lambda: _advance(ge.InterleaveIterDataset(parts, cycle_length=64), 2000)
