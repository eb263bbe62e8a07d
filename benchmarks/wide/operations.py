"""Filters, shuffles within windows, many components, several streams, and packing."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import grain
import grain.experimental as ge
from benchmarks.wide import material
from benchmarks.wide.case import Collection, MapDataset, in_order
from benchmarks.wide.material import Numbers, add_one

MANY = 10**6

filters = Collection("Filters, splits and windows")
components = Collection("Many components")
streams = Collection("Several streams")
packing = Collection("Packing")


# --- filters, splits and windows ---------------------------------------------------------------


def _keep(period: int) -> Callable[[int], bool]:
    return lambda x: x % period == 0


for _period in (2, 1000):

    @filters.stream(
        f"filter_1_of_{_period}_per_read",
        per=_period,
        limit=lambda period=_period: filter(_keep(period), material.drawn(10**7)),
    )
    def _(period: int = _period) -> Any:
        return in_order(MapDataset.range(10**7).shuffle(1).filter(_keep(period)))

    @filters.stream(
        f"filter_1_of_{_period}_of_stream_batch_16_per_read",
        per=16 * _period,
        limit=lambda period=_period: material.stacked(
            filter(_keep(period), material.drawn(10**7)), 16
        ),
    )
    def _(period: int = _period) -> Any:
        stream = in_order(MapDataset.range(10**7).shuffle(1))
        return stream.filter(_keep(period)).batch(16)


@filters.stream("filter_class", limit=lambda: filter(material.Odd().filter, range(MANY)))
def _() -> Any:
    return in_order(MapDataset.range(MANY).filter(material.Odd()))


@filters.stream("filters_30")
def _() -> Any:
    dataset = MapDataset.range(MANY)
    for _ in range(30):
        dataset = dataset.filter(lambda x: x >= 0)
    return in_order(dataset)


def _pieces() -> Iterator[int]:
    split = material.Split().flat_map
    return itertools.chain.from_iterable(map(split, range(MANY)))


@filters.stream("flat_map", limit=_pieces)
def _() -> Any:
    return in_order(ge.FlatMapMapDataset(MapDataset.range(MANY), material.Split()))


@filters.stream("flat_map_of_stream", limit=_pieces)
def _() -> Any:
    return ge.FlatMapIterDataset(in_order(MapDataset.range(MANY)), material.Split())


def _windows(size: int) -> Iterator[int]:
    rng = np.random.default_rng(0)
    for start in range(0, MANY, size):
        yield from (start + rng.permutation(size)).tolist()


for _size in (10, 1000, 100_000):

    @filters.stream(f"window_shuffle_{_size}_batch_64", per=64)
    def _(size: int = _size) -> Any:
        dataset = ge.WindowShuffleMapDataset(MapDataset.range(MANY), window_size=size, seed=1)
        return in_order(dataset.batch(64))

    @filters.stream(f"window_shuffle_{_size}_of_stream", limit=functools.partial(_windows, _size))
    def _(size: int = _size) -> Any:
        stream = in_order(MapDataset.range(MANY))
        return ge.WindowShuffleIterDataset(stream, window_size=size, seed=1)


@filters.stream("shuffles_50_batch_128", per=128)
def _() -> Any:
    dataset = MapDataset.range(MANY)
    for seed in range(50):
        dataset = dataset.shuffle(seed)
    return in_order(dataset.batch(128))


@filters.stream("repeats_and_slices_20_batch_64", per=64)
def _() -> Any:
    dataset = MapDataset.range(10**4)
    for _ in range(20):
        dataset = dataset.repeat(2)[: 10**4]
    return in_order(dataset.repeat().batch(64))


# --- many components ---------------------------------------------------------------------------


def _weights(count: int) -> list[int]:
    return [1 + number % 7 for number in range(count)]


def _shuffled(count: int, length: int) -> list[Any]:
    return [MapDataset.range(length).shuffle(seed) for seed in range(count)]


for _count in (20, 200, 2000):
    _part = 2 * MANY // _count

    @components.stream(f"concatenate_{_count}_batch_256", per=256)
    def _(count: int = _count, part: int = _part) -> Any:
        return in_order(MapDataset.concatenate(_shuffled(count, part)).repeat().batch(256))

    @components.stream(f"concatenate_{_count}_shuffled_batch_256", per=256)
    def _(count: int = _count, part: int = _part) -> Any:
        dataset = MapDataset.concatenate(_shuffled(count, part)).repeat(3)
        return in_order(dataset.shuffle(9).batch(256))

    @components.stream(f"mix_{_count}_batch_256", per=256)
    def _(count: int = _count) -> Any:
        return in_order(MapDataset.mix(_shuffled(count, 10**5), _weights(count)).batch(256))

    @components.stream(f"mix_{_count}_shuffled_batch_256", per=256)
    def _(count: int = _count) -> Any:
        dataset = MapDataset.mix(_shuffled(count, 10**5), _weights(count))
        return in_order(dataset.shuffle(3).batch(256))

    @components.stream(f"mix_{_count}_elements")
    def _(count: int = _count) -> Any:
        parts = [MapDataset.source(Numbers(10**5)) for _ in range(count)]
        return in_order(MapDataset.mix(parts, _weights(count)))


@components.stream("mix_20_records_batch_32", per=32)
def _() -> Any:
    parts = [
        MapDataset.source(material.records(1000)).map(lambda record: {"id": record["id"]}).repeat()
        for _ in range(20)
    ]
    return in_order(MapDataset.mix(parts).batch(32))


for _count in (3, 50):

    @components.stream(f"mix_{_count}_of_streams")
    def _(count: int = _count) -> Any:
        parts = [in_order(MapDataset.range(MANY)) for _ in range(count)]
        return grain.IterDataset.mix(parts, [1 + number % 3 for number in range(count)])


@components.stream("select_3_batch_64", per=64)
def _() -> Any:
    parts = [MapDataset.range(MANY)] * 3
    return in_order(MapDataset.select_from_datasets(parts, material.RoundRobin()).batch(64))


@components.stream("zip_4_batch_64", per=64)
def _() -> Any:
    return in_order(ge.ZipMapDataset(_shuffled(4, MANY)).batch(64))


# --- several streams ---------------------------------------------------------------------------


for _count, _cycle in ((10, 4), (100, 16), (1000, 100)):

    @streams.stream(f"interleave_{_count}_cycle_{_cycle}")
    def _(count: int = _count, cycle: int = _cycle) -> Any:
        parts = [in_order(MapDataset.range(200)) for _ in range(count)]
        return ge.InterleaveIterDataset(parts, cycle_length=cycle)


@streams.stream(
    "zip_4_of_streams", limit=lambda: zip(*(range(MANY) for _ in range(4)), strict=True)
)
def _() -> Any:
    return ge.ZipIterDataset([in_order(MapDataset.range(MANY)) for _ in range(4)])


@streams.stream("limit_and_repeat", limit=lambda: itertools.cycle(range(1000)))
def _() -> Any:
    return ge.RepeatIterDataset(ge.LimitIterDataset(in_order(MapDataset.range(MANY)), 1000))


@streams.stream("cache_and_repeat", limit=lambda: itertools.cycle(range(1000)))
def _() -> Any:
    cached = ge.CacheIterDataset(in_order(MapDataset.range(1000).map(add_one)))
    return ge.RepeatIterDataset(cached)


# --- packing -----------------------------------------------------------------------------------

_FITS = {"first_fit": ge.FirstFitPackIterDataset, "best_fit": ge.BestFitPackIterDataset}

for _name, _low, _high in (("short", 1, 30), ("middle", 50, 600), ("long", 1000, 2048)):
    for _fit, _pack in _FITS.items():

        @packing.stream(
            f"{_fit}_{_name}",
            unit="rows/s",
            limit=(
                (
                    lambda low=_low, high=_high: material.rows_of(
                        itertools.cycle(material.sequences(2000, low, high)), 2048
                    )
                )
                if _name == "long"
                else None
            ),
        )
        def _(low: int = _low, high: int = _high, pack: Any = _pack) -> Any:
            stream = in_order(MapDataset.source(material.documents(2000, low, high)).repeat())
            return pack(stream, length_struct={"tokens": 2048}, num_packing_bins=32)

    @packing.stream(
        f"concatenate_and_split_{_name}",
        unit="rows/s",
        limit=lambda low=_low, high=_high: material.joined_rows(
            itertools.cycle(material.sequences(2000, low, high)), 2048
        ),
    )
    def _(low: int = _low, high: int = _high) -> Any:
        stream = in_order(MapDataset.source(material.documents(2000, low, high)).repeat())
        return ge.ConcatThenSplitIterDataset(stream, length_struct={"tokens": 2048})


@packing.stream("first_fit_4_features", unit="rows/s")
def _() -> Any:
    elements = [
        {"a": part, "b": part[: len(part) // 2], "c": part.astype(np.float32), "number": number}
        for number, part in enumerate(material.sequences(2000, 10, 300))
    ]
    return ge.FirstFitPackIterDataset(
        in_order(MapDataset.source(elements).repeat()),
        length_struct={"a": 1024, "b": 512, "c": 1024, "number": 64},
        num_packing_bins=16,
        meta_features=["number"],
    )


@packing.stream("concatenate_and_split_first_tokens", unit="rows/s")
def _() -> Any:
    return ge.ConcatThenSplitIterDataset(
        in_order(MapDataset.source(material.documents(2000, 10, 300)).repeat()),
        length_struct={"tokens": 1024},
        bos_handling=ge.BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
        bos_features=["tokens"],
        bos_token_id=7,
    )


@packing.stream("pack_and_function", unit="rows/s")
def _() -> Any:
    stream = in_order(MapDataset.source(material.documents(2000, 50, 600)).repeat())
    packed = ge.FirstFitPackIterDataset(stream, length_struct={"tokens": 2048}, num_packing_bins=32)
    return packed.map(lambda row: {"tokens": add_one(row["tokens"])})
