"""A table of pipelines that uses every node class; written for both the recording and the test."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import grain
from grain.dataset.map import MapIterDataset, MapMapDataset
from grain.dataset.tfrecord.crc32c import masked_crc32c

experimental = grain.experimental
Shard = grain.sharding.ShardOptions

# Elements of each pipeline that are recorded, and the steps after which its state is.
LENGTH = 14
STEPS = (0, 1, 4, 9)


@dataclasses.dataclass(frozen=True)
class Add(grain.transforms.Map):
    amount: int

    def map(self, element: Any) -> Any:
        return element + self.amount


class Noise(grain.transforms.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return element + int(rng.integers(1000))


class Halves(experimental.FlatMapTransform):
    max_fan_out = 3

    def flat_map(self, element: Any) -> list[Any]:
        return [element, -element]


class Pattern(grain.transforms.DatasetSelectionMap):
    def __len__(self) -> int:
        return 18

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index % 3 % 2, index // 2


def even(x: Any) -> bool:
    return bool(x % 2 == 0)


def below_60(x: Any) -> bool:
    return bool(x < 60)


def double(x: Any) -> Any:
    return 2 * x


def as_pair(index: int, x: Any) -> tuple[int, Any]:
    return index, x


def as_features(x: int) -> dict[str, Any]:
    return {"tokens": np.arange(1, 2 + x % 5), "id": x}


def listed(elements: Any) -> Any:
    return np.array(elements)[::-1]


class Files:
    """A source of files."""

    def __init__(self, *paths: str):
        self.paths = list(paths)

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> int:
        return index


class OwnMap(grain.MapDataset):
    """A user's map dataset with a text."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: Any) -> Any:
        return self.slice(index) if isinstance(index, slice) else index % 20 * 3

    def __str__(self) -> str:
        return "OwnMap(3)"


class OwnMapOver(grain.MapDataset):
    """A user's map dataset over another one, without a text."""

    def __len__(self) -> int:
        return len(self._parent)

    def __getitem__(self, index: Any) -> Any:
        return self.slice(index) if isinstance(index, slice) else self._parent[index] + 1


@dataclasses.dataclass
class OwnDataclass(grain.MapDataset):
    """A user's map dataset whose fields are its text."""

    size: int
    offset: int = 5

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        return self.slice(index) if isinstance(index, slice) else index % self.size + self.offset


class OwnIter(grain.IterDataset):
    """A user's iter dataset over another one."""

    def __iter__(self) -> grain.DatasetIterator:
        return OwnIterator(self._parent.__iter__())


class OwnIterator(grain.DatasetIterator):
    def __next__(self) -> Any:
        return next(self._parent) * 10

    def get_state(self) -> Any:
        return {"own": self._parent.get_state()}

    def set_state(self, state: Any) -> None:
        self._parent.set_state(state["own"])


class OwnStream(grain.IterDataset):
    """A user's iter dataset without parents."""

    def __init__(self, size: int):
        super().__init__()
        self.size = size

    def __iter__(self) -> grain.DatasetIterator:
        return OwnStreamIterator(self.size)


class OwnStreamIterator(grain.DatasetIterator):
    def __init__(self, size: int):
        super().__init__()
        self.size, self.index = size, 0

    def __next__(self) -> Any:
        if self.index == self.size:
            raise StopIteration
        self.index += 1
        return self.index

    def get_state(self) -> Any:
        return {"index": self.index}

    def set_state(self, state: Any) -> None:
        self.index = state["index"]


class OwnMapIter(MapIterDataset):
    """A user's subclass of a node of the library."""


class OwnMapMap(MapMapDataset):
    """A user's subclass of a map node of the library."""


class OwnMapIterWithIter(MapIterDataset):
    """A user's subclass of a node that iterates in another way."""

    def __iter__(self) -> grain.DatasetIterator:
        return OwnIterator(self._parent.__iter__())


class OwnPack(experimental.FirstFitPackIterDataset):
    """A user's subclass of packing."""


class OwnSampler:
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> grain.RecordMetadata:
        rng = np.random.default_rng(index)
        return grain.RecordMetadata(index=index, record_key=(index * 7) % 20, rng=rng)

    def __repr__(self) -> str:
        return "OwnSampler()"


class Twice:
    """An operation of a DataLoader: a function from an iterator of records to another."""

    def __call__(self, records: Iterator[Any]) -> Iterator[Any]:
        for record in records:
            yield grain.Record(record.metadata, record.data * 2)

    def __repr__(self) -> str:
        return "Twice()"


class Datasets:
    """A sequence of datasets that are made when they are read."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return numbers(10 * index, 10 * index + 4)


def numbers(start: int = 0, stop: int = 20) -> grain.MapDataset:
    return grain.MapDataset.range(start, stop)


def stream(start: int = 0, stop: int = 20) -> grain.IterDataset:
    return numbers(start, stop).to_iter_dataset()


def documents() -> grain.IterDataset:
    return grain.MapDataset.source(list(range(30))).map(as_features).to_iter_dataset()


def tokens() -> grain.IterDataset:
    return documents().rekey({"tokens": "tokens"}, keep_others=False)


def tfrecords() -> grain.IterDataset:
    path = Path("golden.tfrecord")  # Its path is part of the fingerprint.
    with path.open("wb") as file:
        for number in range(10):
            record = b"record %d" % number
            length = struct.pack("<Q", len(record))
            file.write(length + struct.pack("<I", masked_crc32c(length)))
            file.write(record + struct.pack("<I", masked_crc32c(record)))
    return experimental.TFRecordIterDataset(str(path)).map(bytes.decode)


def changed_mixture() -> grain.MapDataset:
    web, code, books = numbers(0, 9), numbers(100, 120), numbers(200, 230)
    mixed = grain.MapDataset.mix({"web": web, "code": code}, {"web": 1, "code": 2})
    once = mixed.change_at(4, {"web": web, "books": books}, {"web": 2, "books": 1})
    return once.change_at(7, {"web": web.shuffle(1), "code": code, 'a [b] "c"': books})


def elastic(ds: Any, workers: int, **options: Any) -> Any:
    if workers:
        options["multiprocessing_options"] = grain.MultiprocessingOptions(num_workers=workers)
    return experimental.ElasticIterator(ds, 4, Shard(1, 2), **options)


def loader(workers: int, operations: Any = (), sampler: Any = None, shard: Any = None) -> Any:
    return grain.DataLoader(
        data_source=list(range(20)),
        sampler=sampler or grain.samplers.IndexSampler(20, shuffle=True, seed=3, num_epochs=2),
        operations=list(operations),
        shard_options=shard or grain.sharding.NoSharding(),
        worker_count=workers,
    )


MAP: dict[str, Callable[[], Any]] = {
    "range": numbers,
    "source of a list": lambda: grain.MapDataset.source([3, 1, 2]),
    "source of an array": lambda: grain.MapDataset.source(np.arange(40).reshape(20, 2)),
    "source of files": lambda: grain.MapDataset.source(Files("a", "b/c")),
    "source of many files": lambda: grain.MapDataset.source(Files(*map(str, range(300)))),
    "map": lambda: numbers().map(double).map(Add(3)),
    "map_with_index": lambda: numbers().map_with_index(as_pair),
    "random_map": lambda: numbers().seed(4).random_map(Noise()),
    "random_map with a seed": lambda: numbers().random_map(Noise(), seed=9),
    "filter": lambda: numbers().filter(even),
    "batch": lambda: numbers().batch(3),
    "batch with a function": lambda: numbers().batch(3, drop_remainder=True, batch_fn=listed),
    "shard_batches": lambda: numbers().shard_batches(Shard(1, 3), 2),
    "shard_batches wrapping": lambda: numbers().shard_batches(Shard(1, 3), 2, remainder="wrap"),
    "shuffle": lambda: numbers().shuffle(seed=1).repeat(2),
    "shuffle with a seed upstream": lambda: numbers().seed(5).map(double).shuffle(),
    "window_shuffle": lambda: numbers().window_shuffle(6, seed=2),
    "window_shuffle within epochs": lambda: experimental.WindowShuffleMapDataset(
        numbers(), window_size=6, seed=2, within_epochs=True
    ),
    "repeat": lambda: numbers(0, 6).shuffle(1).repeat(3),
    "repeat alike": lambda: numbers(0, 6).shuffle(1).repeat(3, reseed_each_epoch=False),
    "repeat without end": lambda: numbers(0, 6).shuffle(1).repeat(),
    "slice": lambda: numbers()[2:18:3],
    "open slice": lambda: numbers()[4:],
    "picked": lambda: numbers().slice([5, 3, 3]),
    "train split": lambda: numbers().train_validation_split(validation=5, seed=1)[0],
    "validation split": lambda: numbers().train_validation_split(validation=0.3, seed=1)[1],
    "concatenate": lambda: grain.MapDataset.concatenate([numbers(0, 4), numbers(7, 30)]),
    "concatenate of many": lambda: grain.MapDataset.concatenate(
        [numbers(n, n + 1) for n in range(300)]
    ),
    "select_from_datasets": lambda: grain.MapDataset.select_from_datasets(
        [numbers(), numbers(50, 90)], Pattern()
    ),
    "mix": lambda: grain.MapDataset.mix([numbers(), numbers(50, 90)], [0.3, 0.7]),
    "named mix": lambda: grain.MapDataset.mix({"b": numbers(), "a": numbers(50, 90)}),
    "mix of mixtures": lambda: grain.MapDataset.mix(
        {"one": grain.MapDataset.mix([numbers(), numbers(50, 90)]), "other [x]": numbers(200, 230)}
    ),
    "changed mixture": changed_mixture,
    "flat_map": lambda: experimental.FlatMapMapDataset(numbers(), Halves()),
    "zip": lambda: experimental.ZipMapDataset([numbers(), numbers(50, 70)]),
    "rekey": lambda: numbers().map(as_features).rekey({"id": "number"}),
    "pad_or_trim": lambda: numbers().map(as_features).pad_or_trim({"tokens": 3}, pad_value=-1),
    "own map dataset": OwnMap,
    "own map dataset over another": lambda: OwnMapOver(OwnMap()).shuffle(seed=1),
    "own dataclass": lambda: OwnDataclass(20),
    "own subclass of map": lambda: OwnMapMap(numbers(), double),
}

ITER: dict[str, Callable[[], Any]] = {
    "to_iter_dataset with Nones": lambda: numbers().filter(even).to_iter_dataset(allow_nones=True),
    "iter map": lambda: stream().map(double).map(Add(3)),
    "iter map_with_index": lambda: stream().filter(even).map_with_index(as_pair),
    "iter random_map": lambda: stream().seed(4).random_map(Noise()),
    "iter filter": lambda: stream().filter(even).map(double),
    "iter batch": lambda: stream().filter(even).batch(3),
    "iter batch of a fused stage": lambda: stream().map(double).batch(3, drop_remainder=True),
    "iter batch with a function": lambda: stream().batch(3, batch_fn=listed),
    "iter flat_map": lambda: stream().flat_map(Halves()),
    "iter window_shuffle": lambda: stream().window_shuffle(6, seed=2),
    "iter zip": lambda: stream().zip(stream(50, 70)),
    "iter zip of different lengths": lambda: stream().zip(stream(50, 60), strict=False),
    "limit": lambda: stream().limit(12),
    "iter repeat": lambda: stream(0, 6).filter(even).repeat(3),
    "cache": lambda: stream(0, 6).cache().repeat(3),
    "rebatch": lambda: stream().batch(5).rebatch(3),
    "unbatch": lambda: stream().batch(5).unbatch(),
    "iter mix": lambda: grain.IterDataset.mix([stream(), stream(50, 90)], [1, 2]),
    "iter mix of map datasets": lambda: grain.IterDataset.mix([numbers(), stream(50, 90)]),
    "named iter mix": lambda: grain.IterDataset.mix(
        {"b": stream(), "a": stream(50, 90).filter(even)}, {"a": 1, "b": 3}
    ),
    "interleave": lambda: experimental.InterleaveIterDataset(
        [numbers(0, 4), stream(10, 16).filter(even), numbers(20, 24)], cycle_length=2
    ),
    "interleave of a map dataset": lambda: experimental.InterleaveIterDataset(
        grain.MapDataset.source([0, 10, 20]).map(Datasets().__getitem__), cycle_length=2
    ),
    "interleave of a sequence": lambda: experimental.InterleaveIterDataset(
        Datasets(), cycle_length=3
    ),
    "pack": lambda: tokens().pack({"tokens": 6}),
    "pack by best fit": lambda: documents().pack(
        {"tokens": 8, "id": 4},
        strategy="best_fit",
        num_packing_bins=3,
        shuffle_bins=False,
        meta_features=["id"],
        max_sequences_per_bin=2,
    ),
    "pack with padding": lambda: tokens().pack(
        {"tokens": 8},
        num_packing_bins=3,
        seed=7,
        padding_struct={"tokens": -1},
        pack_alignment_struct={"tokens": 2},
    ),
    "concat_then_split": lambda: tokens().pack({"tokens": 4}, strategy="concat_then_split"),
    "concat_then_split with BOS": lambda: experimental.ConcatThenSplitIterDataset(
        tokens(),
        length_struct={"tokens": 4},
        bos_handling=experimental.BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS,
        bos_features=["tokens"],
        bos_token_id=99,
    ),
    "own subclass of packing": lambda: OwnPack(
        tokens(), length_struct={"tokens": 6}, num_packing_bins=2
    ),
    "options": lambda: experimental.WithOptionsIterDataset(
        stream().filter(below_60), experimental.DatasetOptions()
    ),
    "thread prefetch": lambda: experimental.ThreadPrefetchIterDataset(
        stream().filter(even), prefetch_buffer_size=2
    ),
    "tfrecords": tfrecords,
    "own iter dataset": lambda: OwnIter(stream()).filter(below_60),
    "own stream": lambda: OwnStream(20).map(double),
    "own subclass of iter map": lambda: OwnMapIter(stream(), double),
    "own subclass of iter map with __iter__": lambda: OwnMapIterWithIter(stream(), double),
}

# These take the number of workers themselves.
WITH_WORKERS: dict[str, Callable[[int], Any]] = {
    "elastic": lambda workers: elastic(numbers(), workers),
    "elastic keeping the rest": lambda workers: elastic(numbers(0, 19), workers, remainder="keep"),
    "elastic over a filter": lambda workers: elastic(numbers(0, 60).filter(even), workers),
    "elastic with a mask": lambda workers: elastic(
        stream(0, 19).map(as_features).rekey({"id": "id"}, keep_others=False),
        workers,
        remainder="pad",
    ),
    "elastic and map": lambda workers: elastic(numbers(0, 40), workers).map(double),
    "loader": loader,
    "loader of a shard": lambda workers: loader(workers, shard=Shard(1, 3)),
    "loader with operations": lambda workers: loader(
        workers, [Add(1), grain.transforms.Batch(3, drop_remainder=True)]
    ),
    "loader with random operations": lambda workers: loader(
        workers, [Noise(), grain.transforms.Batch(2)]
    ),
    "loader with an operation": lambda workers: loader(workers, [Twice(), Halves()]),
    "loader of a sequential sampler": lambda workers: loader(
        workers, sampler=grain.samplers.SequentialSampler(20)
    ),
    "loader of an own sampler": lambda workers: loader(workers, [Add(1)], sampler=OwnSampler()),
    "load": lambda workers: grain.load(
        list(range(12)), shuffle=True, seed=5, batch_size=2, worker_count=workers
    ),
}


def _with_processes(ds: Any, workers: int) -> Any:
    if isinstance(ds, grain.MapDataset):
        ds = ds.to_iter_dataset()
    return ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers)) if workers else ds


def make(name: str, workers: int = 0) -> Any:
    """Return the pipeline of a name, computed by a number of worker processes."""
    if name in WITH_WORKERS:
        return WITH_WORKERS[name](workers)
    return _with_processes((MAP.get(name) or ITER[name])(), workers)


NAMES = [*MAP, *ITER, *WITH_WORKERS]


def as_json(element: Any) -> Any:
    """Return an element as JSON holds it."""
    if isinstance(element, dict):
        return {name: as_json(value) for name, value in element.items()}
    if isinstance(element, (list, tuple)):
        return [as_json(value) for value in element]
    return element.tolist() if hasattr(element, "tolist") else element
