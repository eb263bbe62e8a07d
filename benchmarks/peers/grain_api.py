"""The cases in the API that this project and google/grain share, run in both environments."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import grain
from benchmarks import work
from benchmarks.cases import HEAVY_WORKERS, LENGTHS
from benchmarks.data import Data

try:
    # google/grain reads absl flags, which have to be parsed first.
    from absl import flags
except ImportError:
    pass
else:
    flags.FLAGS(sys.argv[:1])

LACKS: Mapping[str, str] = {}

MANY = 10**7
MapDataset = grain.MapDataset
ONE_THREAD = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


class AddOne(grain.transforms.Map):
    """The function of the loader cases, as a transform."""

    def map(self, element: Any) -> Any:
        """Add one."""
        return work.add_one(element)


def workers(count: int, buffer: int = 2) -> Any:
    """Return options for worker processes."""
    return grain.MultiprocessingOptions(num_workers=count, per_worker_buffer_size=buffer)


def loader(worker_count: int) -> Any:
    """Return a DataLoader that shuffles, maps and batches."""
    return grain.DataLoader(
        data_source=work.Ints(MANY),
        sampler=grain.samplers.IndexSampler(
            num_records=MANY,
            shard_options=grain.sharding.NoSharding(),
            shuffle=True,
            num_epochs=1,
            seed=3,
        ),
        operations=[AddOne(), grain.transforms.Batch(128, drop_remainder=True)],
        worker_count=worker_count,
        worker_buffer_size=8,
        read_options=ONE_THREAD,
    )


def added(n: int = MANY) -> Any:
    """Return a user's source, shuffled, mapped and batched."""
    return MapDataset.source(work.Ints(n)).shuffle(1).map(work.add_one).batch(128)


def heavy(count: int) -> Any:
    """Run a heavy function in worker processes."""
    ds: Any = MapDataset.source(work.Ints(MANY)).shuffle(1).map(work.heavy).batch(64)
    return ds.to_iter_dataset().mp_prefetch(workers(count, 4))


def numbers(length: int) -> Any:
    """Return shuffled numbers in batches, repeated."""
    return MapDataset.range(length).shuffle(1).repeat().batch(128).to_iter_dataset(ONE_THREAD)


def filter_batch_heavy() -> Any:
    """Run a heavy function above an order-dependent operation."""
    ds = MapDataset.source(work.Ints(MANY)).shuffle(1).filter(work.is_even)
    return ds.to_iter_dataset().batch(64).map(work.heavy_batch)


def normalized() -> Any:
    """Return images as floats, in batches."""
    return MapDataset.source(work.Images(10**6)).shuffle(1).map(work.normalize).batch(64)


def decoded(data: Data) -> Any:
    """Return images from files, in batches."""
    ds = MapDataset.source(work.Paths(data.image_files)).shuffle(1).repeat()
    return ds.map(work.read_image).batch(32)


def small_files(data: Data) -> Any:
    """Return small arrays from files, in batches."""
    ds = MapDataset.source(work.Paths(data.small_files)).shuffle(1).repeat()
    return ds.map(work.read_array).batch(64)


def record_lengths(data: Data) -> Any:
    """Return lengths of the records of an ArrayRecord file, shuffled and repeated."""
    source = grain.sources.ArrayRecordDataSource(data.array_record)
    return MapDataset.source(source).shuffle(7).repeat().map(len)


def packing(documents: Any) -> dict[str, Callable[[], Iterable[Any]]]:
    """Return the three cases that pack documents into rows."""
    experimental = grain.experimental
    lengths = {"tokens": work.ROW_LENGTH}

    def parent() -> Any:
        return MapDataset.source(documents()).repeat().to_iter_dataset(ONE_THREAD)

    return {
        "pack_first_fit": lambda: experimental.FirstFitPackIterDataset(
            parent(), length_struct=lengths, num_packing_bins=64
        ),
        "pack_best_fit": lambda: experimental.BestFitPackIterDataset(
            parent(), length_struct=lengths, num_packing_bins=64
        ),
        "pack_concat_split": lambda: experimental.ConcatThenSplitIterDataset(
            parent(), length_struct=lengths
        ),
    }


def packed_text(lines: list[str]) -> Any:
    """Tokenize, join, split and batch lines of text."""
    ds = MapDataset.source(lines).shuffle(1).repeat().map(work.tokenize)
    rows = grain.experimental.ConcatThenSplitIterDataset(
        ds.to_iter_dataset(ONE_THREAD), length_struct={"tokens": work.TEXT_ROW_LENGTH}
    )
    return rows.batch(8)


def programs(data: Data) -> Mapping[str, Callable[[], Iterable[Any]]]:
    """Return all cases."""
    shuffled = MapDataset.range(MANY).shuffle(42).map(work.add_one)
    records = work.labels
    made: dict[str, Callable[[], Iterable[Any]]] = {
        "range_batch": lambda: MapDataset.range(MANY).batch(128).to_iter_dataset(ONE_THREAD),
        "shuffle_map_batch": lambda: shuffled.batch(128).to_iter_dataset(ONE_THREAD),
        "shuffle_map_batch_threads": lambda: shuffled.batch(128).to_iter_dataset(),
        "map_elems_threads": lambda: shuffled.to_iter_dataset(),
        "iter_batch_after_threads": lambda: (
            MapDataset.source(work.Ints(MANY))
            .shuffle(42)
            .map(work.add_one)
            .to_iter_dataset()
            .batch(128)
        ),
        "random_map": lambda: (
            MapDataset.source(work.Ints(MANY))
            .seed(1)
            .shuffle()
            .random_map(work.jitter)
            .batch(128)
            .to_iter_dataset(ONE_THREAD)
        ),
        "filter_iter_batch": lambda: (
            MapDataset.range(MANY)
            .shuffle(1)
            .filter(work.is_even)
            .to_iter_dataset(ONE_THREAD)
            .batch(128)
        ),
        "mix3": lambda: (
            MapDataset.mix([MapDataset.range(10**6).shuffle(i) for i in range(3)], [0.5, 0.3, 0.2])
            .batch(128)
            .to_iter_dataset(ONE_THREAD)
        ),
        "ints_batch_mp2": lambda: added().to_iter_dataset().mp_prefetch(workers(2, 8)),
        "dataloader_w0": lambda: loader(0),
        "dataloader_w2": lambda: loader(2),
        "filter_batch_heavy_w0": filter_batch_heavy,
        "filter_batch_heavy_mp2": lambda: filter_batch_heavy().mp_prefetch(workers(2, 4)),
        "images_batch": lambda: (
            MapDataset.source(work.Images(10**6)).shuffle(1).batch(64).to_iter_dataset(ONE_THREAD)
        ),
        "images_norm_batch_mp2": lambda: normalized().to_iter_dataset().mp_prefetch(workers(2)),
        "image_decode": lambda: decoded(data).to_iter_dataset(),
        "image_decode_mp2": lambda: decoded(data).to_iter_dataset().mp_prefetch(workers(2)),
        "large_arrays": lambda: (
            MapDataset.source(work.LargeArrays(10**6)).shuffle(1).batch(4).to_iter_dataset()
        ),
        "large_arrays_mp2": lambda: (
            MapDataset.source(work.LargeArrays(10**6))
            .shuffle(1)
            .batch(4)
            .to_iter_dataset()
            .mp_prefetch(workers(2))
        ),
        "text_pack": lambda: packed_text(data.lines()),
        "arrayrecord_1k_seq": lambda: record_lengths(data).batch(128).to_iter_dataset(ONE_THREAD),
        "arrayrecord_1k_threads": lambda: record_lengths(data).to_iter_dataset().batch(128),
        "arrayrecord_1k_batch_threads": lambda: record_lengths(data).batch(128).to_iter_dataset(),
        "parquet_iter": lambda: grain.experimental.ParquetIterDataset(data.parquet).batch(128),
        "small_files": lambda: small_files(data).to_iter_dataset(),
        "small_files_mp2": lambda: small_files(data).to_iter_dataset().mp_prefetch(workers(2)),
        "latency_threads": lambda: (
            MapDataset.source(work.Remote(MANY)).shuffle(1).to_iter_dataset().batch(32)
        ),
        "latency_mp2": lambda: (
            MapDataset.source(work.Remote(MANY))
            .shuffle(1)
            .to_iter_dataset()
            .batch(32)
            .mp_prefetch(workers(2))
        ),
        "first_batch": lambda: added(10**6).to_iter_dataset(),
        "first_batch_mp2": lambda: added(10**6).to_iter_dataset().mp_prefetch(workers(2)),
        "memory_mp2": lambda: normalized().to_iter_dataset().mp_prefetch(workers(2)),
        "memory_list_mp2": lambda: (
            MapDataset.source(records())
            .shuffle(1)
            .map(work.label_id)
            .batch(128)
            .to_iter_dataset()
            .mp_prefetch(workers(2))
        ),
    }
    made |= packing(work.documents)
    for name, count in HEAVY_WORKERS.items():
        made[name] = functools.partial(heavy, count)
    for name, length in LENGTHS.items():
        made[name] = functools.partial(numbers, length)
    return made
