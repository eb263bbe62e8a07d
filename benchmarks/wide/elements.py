"""Kinds of elements, batches, and single elements by index."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import grain.experimental as ge
from benchmarks.wide import material
from benchmarks.wide.case import Collection, MapDataset, in_order
from benchmarks.wide.material import Numbers, add_one

MANY = 10**6

elements = Collection("Elements one by one")
batches = Collection("Batches")
lookups = Collection("Single elements by index")


# --- one by one --------------------------------------------------------------------------------


@elements.stream("numbers_in_order", limit=lambda: range(MANY))
def _() -> Any:
    return in_order(MapDataset.range(MANY))


@elements.stream("user_source", limit=lambda: map(Numbers(MANY).__getitem__, range(MANY)))
def _() -> Any:
    return in_order(MapDataset.source(Numbers(MANY)))


WORDS = [f"word {number}" for number in range(10**5)]


@elements.stream("text_list", limit=lambda: iter(WORDS))
def _() -> Any:
    return in_order(MapDataset.source(WORDS))


@elements.stream("bytes_shuffled", limit=lambda: material.picked([bytes(1000)] * 10**5))
def _() -> Any:
    return in_order(MapDataset.source([bytes(1000)] * 10**5).shuffle(1))


@elements.stream("function_shuffled", limit=lambda: map(add_one, material.drawn(MANY)))
def _() -> Any:
    return in_order(MapDataset.range(MANY).shuffle(1).map(add_one))


@elements.stream("function_shuffled_1e12", limit=lambda: map(add_one, material.drawn(10**12)))
def _() -> Any:
    return in_order(MapDataset.range(10**12).shuffle(1).map(add_one))


@elements.stream("functions_50", limit=lambda: map(material.add_fifty, range(MANY)))
def _() -> Any:
    dataset = MapDataset.range(MANY)
    for _ in range(50):
        dataset = dataset.map(add_one)
    return in_order(dataset)


@elements.stream("functions_50_of_stream", limit=lambda: map(material.add_fifty, range(MANY)))
def _() -> Any:
    dataset = in_order(MapDataset.range(MANY))
    for _ in range(50):
        dataset = dataset.map(add_one)
    return dataset


@elements.stream("with_index", limit=lambda: map(material.add_index, range(MANY), range(MANY)))
def _() -> Any:
    return in_order(MapDataset.range(MANY).map_with_index(material.add_index))


@elements.stream(
    "with_index_of_stream", limit=lambda: map(material.add_index, range(MANY), range(MANY))
)
def _() -> Any:
    return in_order(MapDataset.range(MANY)).map_with_index(material.add_index)


@elements.stream("random_function")
def _() -> Any:
    return in_order(MapDataset.range(MANY).seed(1).random_map(material.jitter))


@elements.stream("random_function_of_stream")
def _() -> Any:
    return in_order(MapDataset.range(MANY).seed(1)).random_map(material.jitter)


@elements.stream("three_words_endless", limit=lambda: itertools.cycle(["a", "b", "c"]))
def _() -> Any:
    return in_order(MapDataset.source(["a", "b", "c"]).shuffle(1).repeat())


@elements.calls("five_elements", unit="passes/s")
def _() -> Any:
    dataset = in_order(MapDataset.source([1, 2, 3, 4, 5]).map(add_one))
    return lambda: list(dataset)


# --- batches -----------------------------------------------------------------------------------


def added_batches(size: int, length: int = MANY) -> Iterator[np.ndarray]:
    """Yield batches of numbers to which one was added, one by one."""
    return material.stacked(map(add_one, material.drawn(length)), size)


for _size, _length in ((1, MANY), (8, MANY), (4096, 10**8)):

    @batches.stream(
        f"function_batch_{_size}",
        per=_size,
        limit=functools.partial(added_batches, _size, _length),
    )
    def _(size: int = _size, length: int = _length) -> Any:
        return in_order(MapDataset.range(length).shuffle(1).map(add_one).batch(size))


@batches.stream("batch_8_of_stream", per=8, limit=lambda: added_batches(8))
def _() -> Any:
    dataset = in_order(MapDataset.range(MANY).shuffle(1).map(add_one))
    return dataset.batch(8, drop_remainder=True)


@batches.stream(
    "shuffled_1e12_batch_128", per=128, limit=lambda: material.shuffled_batches(10**12, 128)
)
def _() -> Any:
    return in_order(MapDataset.range(10**12).shuffle(1).batch(128))


@batches.stream("three_elements_endless_batch_128", per=128)
def _() -> Any:
    return in_order(MapDataset.range(3).shuffle(1).repeat().batch(128))


@batches.stream("epochs_of_100_batch_10", per=10, limit=lambda: added_batches(10, 100))
def _() -> Any:
    return in_order(MapDataset.range(100).shuffle(1).map(add_one).batch(10).repeat())


RECORDS = material.records(10_000)


@batches.stream(
    "records_batch_128", per=128, limit=lambda: material.columns(material.picked(RECORDS), 128)
)
def _() -> Any:
    return in_order(MapDataset.source(RECORDS).shuffle(1).repeat().batch(128))


@batches.stream("trees_batch_32", per=32)
def _() -> Any:
    return in_order(MapDataset.source(material.trees(5000)).shuffle(1).repeat().batch(32))


@batches.stream("text_batch_64", per=64, limit=lambda: material.stacked(material.picked(WORDS), 64))
def _() -> Any:
    return in_order(MapDataset.source(WORDS).shuffle(1).batch(64))


def _take_rows() -> Callable[[], Any]:
    rows = np.zeros((20_000, 256), np.float32)
    many = itertools.cycle(np.random.default_rng(0).integers(0, 20_000, (64, 64)))
    return lambda: rows[next(many)]


@batches.stream("array_rows_batch_64", per=64, limit=_take_rows)
def _() -> Any:
    return in_order(
        MapDataset.source(np.zeros((20_000, 256), np.float32)).shuffle(1).repeat().batch(64)
    )


for _bytes, _size, _count in ((1_000, 64, 5000), (100_000, 16, 1000), (10_000_000, 2, 6)):

    def _arrays(count: int = _count, nbytes: int = _bytes) -> list[np.ndarray]:
        return [np.zeros(nbytes // 4, np.float32) for _ in range(count)]

    @batches.stream(
        f"arrays_of_{_bytes:.0e}_bytes_batch_{_size}".replace("e+0", "e"),
        per=_size,
        limit=lambda size=_size, arrays=_arrays: material.stacked(material.picked(arrays()), size),
    )
    def _(size: int = _size, arrays: Callable[[], list[np.ndarray]] = _arrays) -> Any:
        return in_order(MapDataset.source(arrays()).shuffle(1).repeat().batch(size))


def pad(values: Any) -> np.ndarray:
    """Stack arrays of different lengths."""
    out = np.zeros((len(values), max(map(len, values))), values[0].dtype)
    for row, value in zip(out, values, strict=True):
        row[: len(value)] = value
    return out


RAGGED = material.sequences(5000, 1, 200)


@batches.stream(
    "ragged_batch_fn_32",
    per=32,
    limit=lambda: map(pad, material.grouped(material.picked(RAGGED), 32)),
)
def _() -> Any:
    return in_order(MapDataset.source(RAGGED).shuffle(1).repeat().batch(32, batch_fn=pad))


@batches.stream("batch_and_pad_8", per=8)
def _() -> Any:
    batch_fn = functools.partial(ge.batch_and_pad, batch_size=8)
    arrays = [np.arange(20) for _ in range(1003)]
    return in_order(MapDataset.source(arrays).repeat().batch(8, batch_fn=batch_fn))


@batches.stream("batch_8_of_batch_8", per=64)
def _() -> Any:
    return in_order(MapDataset.source(RECORDS).repeat().batch(8).batch(8))


ROWS = np.zeros((10**5, 16), np.float32)


def _cut_rows(size: int) -> Iterator[np.ndarray]:
    for start in itertools.cycle(range(0, len(ROWS) - size, size)):
        yield ROWS[start : start + size].copy()


for _from, _to in ((7, 64), (64, 7)):

    @batches.stream(f"rebatch_{_from}_to_{_to}", per=_to, limit=functools.partial(_cut_rows, _to))
    def _(before: int = _from, after: int = _to) -> Any:
        dataset = in_order(MapDataset.source(ROWS).repeat().batch(before))
        return ge.RebatchIterDataset(dataset, batch_size=after)


# --- by index ----------------------------------------------------------------------------------


def _lookup(name: str, make: Callable[[], Any], **fields: Any) -> None:
    """Add a program that reads random elements of a dataset, one by one."""

    def prepare() -> Callable[[], Any]:
        dataset = make()
        draw = material.random_indices(min(len(dataset), 10**5))
        return lambda: dataset[draw()]

    lookups.calls(f"get_{name}", **fields)(prepare)


def _deep() -> Any:
    dataset = MapDataset.range(10**5)
    for _ in range(20):
        dataset = dataset.map(add_one)
    return dataset


def _mixture(count: int) -> Any:
    parts = [MapDataset.range(10**5).shuffle(seed) for seed in range(count)]
    return MapDataset.mix(parts, [seed + 2 for seed in range(count)])


def _function_of_list() -> Callable[[], Any]:
    numbers, draw = list(range(1000)), material.random_indices(1000)
    return lambda: add_one(numbers[draw()])


_lookup("range", lambda: MapDataset.range(MANY))
_lookup("list_function", lambda: MapDataset.source(list(range(1000))).map(add_one),
        limit=_function_of_list)  # fmt: skip
_lookup("shuffle_function", lambda: MapDataset.source(Numbers(MANY)).shuffle(1).map(add_one))
_lookup("shuffle_batch_32", lambda: MapDataset.source(Numbers(MANY)).shuffle(1).batch(32),
        per=32, unit="elements/s")  # fmt: skip
_lookup("mix_3", lambda: _mixture(3))
_lookup("concatenate_20", lambda: MapDataset.concatenate([MapDataset.range(10**4)] * 20))
_lookup(
    "zip_2", lambda: ge.ZipMapDataset([MapDataset.range(10**5), MapDataset.range(10**5).shuffle(3)])
)
_lookup("random_function", lambda: MapDataset.range(10**5).random_map(material.jitter, seed=1))
_lookup("functions_20", _deep)
_lookup(
    "window_shuffle",
    lambda: ge.WindowShuffleMapDataset(MapDataset.range(10**5), window_size=100, seed=1),
)
_lookup("flat_map", lambda: ge.FlatMapMapDataset(MapDataset.range(10**5), material.Split()))


@lookups.calls("slice_read_16", per=16, unit="elements/s")
def _() -> Any:
    dataset = MapDataset.source(list(range(10**5))).shuffle(1).map(add_one)

    def read() -> list[Any]:
        part = dataset[500:516]
        return [part[index] for index in range(16)]

    return read


@lookups.calls("slice_iterate_16", per=16, unit="elements/s")
def _() -> Any:
    dataset = MapDataset.source(list(range(10**5))).shuffle(1).map(add_one)
    return lambda: list(in_order(dataset[500:516]))
