"""A small pipeline for each public operation, by its name; tests of all operations walk this table."""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

import grain
from grain import experimental as ex
from grain.dataset.node import DatasetNode
from grain.dataset.tfrecord.crc32c import masked_crc32c

from ..helpers.pipelines import INLINE

Shard = grain.sharding.ShardOptions


# Functions that pipelines apply.


def add_one(x: Any) -> Any:
    return x + 1


def keeps(x: int) -> bool:
    return x % 3 != 0


def draw(x: int, rng: np.random.Generator) -> tuple[int, float]:
    return x, rng.random()


def with_index(index: int, x: int) -> tuple[int, int]:
    return index, x


def as_document(x: int) -> dict[str, Any]:
    return {"tokens": np.arange(x % 4 + 1, dtype=np.int32) + 10 * x, "id": x}


def as_feature(x: int) -> dict[str, int]:
    return {"x": x}


class Pieces(ex.FlatMapTransform):
    """Each number as often as its remainder says."""

    max_fan_out = 3

    def flat_map(self, element: int) -> list[int]:
        return [element] * (element % 3)


class Numbered(ex.MapWithIndexTransform):
    """A number and its place."""

    def map_with_index(self, index: int, element: int) -> tuple[int, int]:
        return index, element


class AsTokens(grain.transforms.Map):
    """A number as a short document."""

    def map(self, element: int) -> dict[str, Any]:
        return {"tokens": np.full(element % 4 + 1, element)}


# What they read.


def indexed(count: int = 8) -> grain.MapDataset:
    return grain.MapDataset.range(count).shuffle(5).map(add_one)


def numbers(count: int = 8) -> grain.IterDataset:
    return indexed(count).to_iter_dataset(INLINE)


def documents(count: int = 14) -> grain.IterDataset:
    return grain.MapDataset.range(count).to_iter_dataset(INLINE).filter(keeps).map(as_document)


def tokens(count: int = 14) -> grain.IterDataset:
    return documents(count).rekey({"tokens": "tokens"}, keep_others=False)


def records(folder: pathlib.Path, count: int = 7) -> ex.TFRecordIterDataset:
    def encoded(data: bytes) -> bytes:
        size = struct.pack("<Q", len(data))
        checks = [struct.pack("<I", masked_crc32c(part)) for part in (size, data)]
        return size + checks[0] + data + checks[1]

    path = folder / f"{count}.tfrecord"
    path.write_bytes(b"".join(encoded(b"%d of %d" % (i, count)) for i in range(count)))
    return ex.TFRecordIterDataset(str(path))


LENGTHS = {"tokens": 6}
Make = Callable[[pathlib.Path], grain.IterDataset]

# By the name in `grain.experimental`.
OPERATIONS: dict[str, Make] = {
    "BestFitPackIterDataset": lambda folder: ex.BestFitPackIterDataset(
        documents(), length_struct=LENGTHS, num_packing_bins=3, meta_features=("id",)
    ),
    "BOSHandling": lambda folder: ex.ConcatThenSplitIterDataset(
        tokens(),
        length_struct={"tokens": 4},
        bos_handling=ex.BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
        bos_features=("tokens",),
        bos_token_id=-1,
    ),
    "CacheIterDataset": lambda folder: ex.RepeatIterDataset(ex.CacheIterDataset(numbers(4)), 3),
    "ConcatThenSplitIterDataset": lambda folder: ex.ConcatThenSplitIterDataset(
        tokens(), length_struct={"tokens": 5}
    ),
    "DatasetOptions": lambda folder: ex.WithOptionsIterDataset(
        numbers().filter(keeps), ex.DatasetOptions(filter_raise_threshold_ratio=0.9)
    ),
    "FirstFitPackIterDataset": lambda folder: ex.FirstFitPackIterDataset(
        documents(),
        length_struct=LENGTHS,
        num_packing_bins=3,
        meta_features=("id",),
        seed=3,
        pack_alignment_struct={"tokens": 2},
        max_sequences_per_bin=2,
    ),
    "FlatMapIterDataset": lambda folder: ex.FlatMapIterDataset(numbers(), Pieces()),
    "FlatMapMapDataset": lambda folder: ex.FlatMapMapDataset(indexed(6), Pieces()).to_iter_dataset(
        INLINE
    ),
    "FlatMapTransform": lambda folder: numbers().flat_map(Pieces()).batch(3),
    "InterleaveIterDataset": lambda folder: ex.InterleaveIterDataset(
        [numbers(3), numbers(0), records(folder, 4), numbers(5).batch(2)],
        cycle_length=2,
        iter_buffer_size=2,
    ),
    "LimitIterDataset": lambda folder: ex.LimitIterDataset(numbers(), 5),
    "MapWithIndexTransform": lambda folder: numbers().map_with_index(Numbered()),
    "PadOrTrim": lambda folder: documents().map(ex.PadOrTrim({"tokens": 2})),
    "RebatchIterDataset": lambda folder: ex.RebatchIterDataset(numbers(11).batch(3), 2),
    "Rekey": lambda folder: documents().map(ex.Rekey({"tokens": "x"})),
    "Remainder": lambda folder: grain.MapDataset.concatenate(
        [
            indexed(7).map(as_feature).shard_batches(Shard(1, 2), 2, remainder=policy)
            for policy in ex.Remainder
        ]
    ).to_iter_dataset(INLINE),
    "RepeatIterDataset": lambda folder: ex.RepeatIterDataset(numbers(4).filter(keeps), 3),
    "ShardBatchesMapDataset": lambda folder: (
        ex.ShardBatchesMapDataset(indexed(9), Shard(0, 2), 2, remainder="wrap")
        .repeat(2)
        .to_iter_dataset(INLINE)
    ),
    "TFRecordIterDataset": records,
    "ThreadPrefetchIterDataset": lambda folder: ex.ThreadPrefetchIterDataset(
        numbers(12).filter(keeps), prefetch_buffer_size=3
    ),
    "UnbatchIterDataset": lambda folder: ex.UnbatchIterDataset(numbers().batch(3)),
    "WindowShuffleIterDataset": lambda folder: ex.WindowShuffleIterDataset(
        numbers(9), window_size=4, seed=1
    ),
    "WindowShuffleMapDataset": lambda folder: ex.WindowShuffleMapDataset(
        indexed(9), window_size=4, seed=1
    ).to_iter_dataset(INLINE),
    "WithOptionsIterDataset": lambda folder: ex.WithOptionsIterDataset(
        numbers(), ex.DatasetOptions()
    ).map(add_one),
    "ZipIterDataset": lambda folder: ex.ZipIterDataset([numbers(), numbers().map(add_one)]),
    "ZipMapDataset": lambda folder: ex.ZipMapDataset(
        [indexed(), indexed().shuffle(1)]
    ).to_iter_dataset(INLINE),
    "apply_transformations": lambda folder: ex.apply_transformations(
        numbers(), [Numbered(), grain.transforms.Batch(3)]
    ),
    "autotune": lambda folder: ex.autotune(numbers(), max_workers=0),
    "batch_and_pad": lambda folder: numbers(7).batch(3, batch_fn=_pad_to_three),
    "multithread_prefetch": lambda folder: ex.multithread_prefetch(
        numbers(), num_threads=2, buffer_size=2
    ),
    "train_validation_split": lambda folder: (
        ex.train_validation_split(indexed(12), validation=4, seed=1)[0]
        .repeat(2)
        .to_iter_dataset(INLINE)
    ),
}


def _pad_to_three(elements: list[Any]) -> Any:
    return ex.batch_and_pad(elements, batch_size=3)


# By the name of the method of `grain.IterDataset`.
ITER_METHODS: dict[str, Make] = {
    "apply": lambda folder: numbers().apply(Numbered()),
    "batch": lambda folder: numbers().filter(keeps).batch(2),
    "cache": lambda folder: numbers(4).cache().repeat(2),
    "filter": lambda folder: numbers(12).filter(keeps),
    "flat_map": lambda folder: numbers().filter(keeps).flat_map(Pieces()),
    "from_iterable": lambda folder: grain.IterDataset.from_iterable(range(5)),
    "limit": lambda folder: records(folder).limit(4),
    "observe": lambda folder: numbers().observe(),
    "map": lambda folder: numbers().map(add_one),
    "map_with_index": lambda folder: numbers().map_with_index(with_index),
    "mix": lambda folder: grain.IterDataset.mix([numbers(), numbers(4)], [2.0, 1.0]),
    "pack": lambda folder: tokens().pack({"tokens": 6}, num_packing_bins=2),
    "pad_or_trim": lambda folder: documents().pad_or_trim({"tokens": 3}, pad_value=-1),
    "pipe": lambda folder: numbers().pipe(lambda ds: ds.map(add_one)),
    "prefetch": lambda folder: numbers().prefetch(grain.MultiprocessingOptions(num_workers=0)),
    "random_map": lambda folder: numbers().random_map(draw, seed=4),
    "rebatch": lambda folder: numbers().batch(3).rebatch(4),
    "rekey": lambda folder: documents().rekey({"tokens": "x"}).batch(2, batch_fn=list),
    "repeat": lambda folder: numbers(3).repeat(3),
    "seed": lambda folder: numbers().seed(9).random_map(draw),
    "unbatch": lambda folder: numbers().batch(3).unbatch(),
    "window_shuffle": lambda folder: numbers(9).window_shuffle(4, seed=2),
    "zip": lambda folder: numbers().zip(numbers().map(add_one)),
}

# By the name of the method of `grain.MapDataset`.
MAP_METHODS: dict[str, Callable[[], grain.MapDataset]] = {
    "apply": lambda: indexed().apply(Numbered()),
    "batch": lambda: indexed().batch(3),
    "concatenate": lambda: grain.MapDataset.concatenate([indexed(3), indexed(4)]),
    "filter": lambda: indexed().filter(keeps),
    "flat_map": lambda: indexed(6).flat_map(Pieces()),
    "map": lambda: indexed().map(add_one),
    "map_with_index": lambda: indexed().map_with_index(with_index),
    "mix": lambda: grain.MapDataset.mix([indexed(), indexed(4)], [2.0, 1.0]),
    "pad_or_trim": lambda: indexed().map(as_document).pad_or_trim({"tokens": 3}),
    "pipe": lambda: indexed().pipe(lambda ds: ds.map(add_one)),
    "random_map": lambda: indexed().random_map(draw, seed=4),
    "range": lambda: grain.MapDataset.range(2, 9, 2),
    "rekey": lambda: indexed().map(as_document).rekey({"tokens": "x"}),
    "repeat": lambda: indexed(3).repeat(3),
    "seed": lambda: indexed().seed(9).random_map(draw),
    "select_from_datasets": lambda: grain.MapDataset.select_from_datasets(
        [indexed(), indexed(4)], _Selection()
    ),
    "shard_batches": lambda: indexed(7).shard_batches(Shard(0, 2), 2, remainder="keep").repeat(2),
    "shuffle": lambda: indexed().shuffle(7),
    "slice": lambda: indexed().slice(slice(1, 7, 2)),
    "source": lambda: grain.MapDataset.source([3, 1, 2]),
    "train_validation_split": lambda: indexed(12).train_validation_split(validation=0.5, seed=1)[1],
    "window_shuffle": lambda: indexed(9).window_shuffle(4, seed=2),
    "zip": lambda: indexed().zip(indexed().shuffle(1)),
}


class _Selection(grain.transforms.DatasetSelectionMap):
    """Element `i` is element `i // 2` of dataset `i % 2`."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index % 2, index // 2


# Iterators, and what else starts worker processes by itself: made with a number of them.
ITERATORS: dict[str, Callable[[pathlib.Path, int], Any]] = {
    "ElasticIterator": lambda folder, workers: ex.ElasticIterator(
        indexed(7),
        4,
        Shard(1, 2),
        remainder="wrap",
        read_options=INLINE,
        multiprocessing_options=grain.MultiprocessingOptions(num_workers=workers),
    ),
    "PackAndBatchOperation": lambda folder, workers: iter(
        grain.DataLoader(
            data_source=list(range(1, 13)),
            sampler=grain.samplers.IndexSampler(12, shuffle=True, seed=2, num_epochs=1),
            operations=[
                AsTokens(),
                ex.PackAndBatchOperation({"tokens": 6}, batch_size=2),
            ],
            worker_count=workers,
        )
    ),
    "ThreadPrefetchDatasetIterator": lambda folder, workers: ex.ThreadPrefetchDatasetIterator(
        iter(numbers().filter(keeps).mp_prefetch(grain.MultiprocessingOptions(workers))), 3
    ),
}

# Public names that make no stream, and where they are tested.
NO_STREAM = {
    "ExecutionTrackingMode": "a value of options",
    "PerformanceConfig": "a value; see the tests of tuning",
    "RngPool": "random generators; see the tests of it",
    "ShapeDtypeStruct": "a description",
    "ShapeDtypeStructProtocol": "a description",
    "assert_equal_output_after_checkpoint": "a check",
    "device_put": "moves elements to a device; tested where JAX is installed",
    "get_element_spec": "a description",
    "get_next_index": "a place in a stream",
    "index_shuffle": "a function of numbers",
    "pick_performance_config": "options; see the tests of tuning",
    "progress": "a line about an iterator; see the tests of it",
    "set_next_index": "a place in a stream",
    "to_mesh": "moves elements to devices; tested where JAX is installed",
}
# Methods that make no stream of their own, or that the tests use themselves.
# The members of nodes make no dataset.
_NODE_MEMBERS = {name for name in vars(DatasetNode) if name != "pipe"} | {
    name
    for kind in (grain.MapDataset, grain.IterDataset)
    for name in vars(kind)
    if name.startswith(("is_", "read_", "make_", "known_", "execution_"))
}
OTHER_METHODS = {"mp_prefetch", "origins", "parents", "to_iter_dataset"} | _NODE_MEMBERS


def all_rows() -> dict[str, Make]:
    """Every pipeline that `mp_prefetch` can be put on."""
    rows = dict(OPERATIONS)
    rows |= {f"IterDataset.{name}": make for name, make in ITER_METHODS.items()}
    for name, make in MAP_METHODS.items():
        rows[f"MapDataset.{name}"] = lambda folder, make=make: make().to_iter_dataset(INLINE)
    return rows


def place_of(state: Any) -> Any:
    """Return a state without fields that describe the iterator instead of the position.

    A cache that is full reads no more of its parent, also when it is set to a place in the first epoch.
    """
    if isinstance(state, dict):
        if "cache_filled" in state:
            return state["position"]
        return {key: place_of(value) for key, value in state.items()}
    if isinstance(state, list):
        return [place_of(value) for value in state]
    return state
