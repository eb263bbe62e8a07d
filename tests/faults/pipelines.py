"""Small pipelines of every shape, by name; each is built for given read options.

The functions in them are pure, so one recorded stream is right for every executor.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import grain

M = grain.MapDataset
X = grain.experimental
Build = Callable[[grain.ReadOptions], Any]

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
THREADS = grain.ReadOptions(num_threads=2, prefetch_buffer_size=4)


class Gaps(M):
    """A user's map dataset; some elements are missing."""

    def __len__(self) -> int:
        return 14

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        position = index % 14
        return None if position in (3, 7, 8) else 7 * position


class Sums(grain.IterDataset):
    """A user's iter dataset: running sums of its parent."""

    def __iter__(self) -> grain.DatasetIterator:
        return SumsIterator(iter(self._parent))


class SumsIterator(grain.DatasetIterator):
    """An iterator whose state holds more than a position."""

    def __init__(self, parent: grain.DatasetIterator):
        super().__init__(parent)
        self._sum = 0

    def __next__(self) -> int:
        self._sum += next(self._parent)
        return self._sum

    def get_state(self) -> dict[str, Any]:
        return {"inside": self._parent.get_state(), "sum": self._sum}

    def set_state(self, state: dict[str, Any]) -> None:
        total = state["sum"]
        self._parent.set_state(state["inside"])
        self._sum = total


class Lines(grain.IterDataset):
    """A user's stream that cannot be divided, such as the lines of a file."""

    def __init__(self, first: int, count: int):
        super().__init__()
        self.first, self.count = first, count

    def __iter__(self) -> grain.DatasetIterator:
        return LinesIterator(self.first, self.count)


class LinesIterator(grain.DatasetIterator):
    """Counts lines."""

    def __init__(self, first: int, count: int):
        super().__init__()
        self._first, self._count, self._line = first, count, 0

    def __next__(self) -> int:
        line = self._line
        if line >= self._count:
            raise StopIteration
        self._line = line + 1
        return self._first + line

    def get_state(self) -> dict[str, int]:
        return {"line": self._line}

    def set_state(self, state: dict[str, int]) -> None:
        line = state["line"]
        if not 0 <= line <= self._count:
            raise ValueError(f"there is no line {line}")
        self._line = line


class Copies(grain.transforms.FlatMap):
    """Returns an element up to three times."""

    max_fan_out = 3

    def flat_map(self, element: Any) -> list[Any]:
        return [element] * (int(element) % 4)


class AddOne(grain.transforms.Map):
    """Adds one."""

    def map(self, element: Any) -> Any:
        return element + 1


class AddDraw(grain.transforms.RandomMap):
    """Adds a random number."""

    def random_map(self, element: Any, rng: np.random.Generator) -> float:
        return float(np.sum(element)) + rng.random()


class KeepOdd(grain.transforms.Filter):
    """Keeps odd numbers."""

    def filter(self, element: Any) -> bool:
        return bool(element % 2)


def plus_one(x: Any) -> Any:
    """Return `x + 1`."""
    return x + 1


def odd(x: Any) -> bool:
    """Return whether the sum of `x` is odd."""
    return bool(np.sum(x) % 2)


def add_index(index: int, x: Any) -> Any:
    """Return `x` with its index."""
    return (index, x)


def add_draw(x: Any, rng: np.random.Generator) -> float:
    """Return the sum of `x` plus a random number."""
    return float(np.sum(x)) + rng.random()


def busy(x: Any) -> Any:
    """Return `x` after enough work to be worth a worker."""
    started = time.perf_counter()
    while time.perf_counter() - started < 0.003:
        pass
    return x


def picture(x: int) -> dict[str, np.ndarray]:
    """Return arrays that travel in shared memory."""
    return {"pixels": np.full((64, 64, 3), x % 251, np.uint8), "label": np.array([x])}


def document(x: int) -> dict[str, np.ndarray]:
    """Return a document of 1 to 7 tokens."""
    return {"tokens": np.arange(1, x * 5 % 7 + 2, dtype=np.int32) + 100 * x}


def _documents(read: grain.ReadOptions) -> grain.IterDataset:
    return M.range(14).map(document).to_iter_dataset(read)


def _loader(**options: Any) -> grain.DataLoader:
    return grain.DataLoader(
        data_source=grain.RangeDataSource(0, 12, 1),
        sampler=grain.IndexSampler(num_records=12, num_epochs=2, shuffle=True, seed=5),
        operations=[AddOne(), KeepOdd(), grain.Batch(2)],
        **options,
    )


def _rows(count: int = 20) -> Callable[[grain.ReadOptions], grain.IterDataset]:
    return lambda read: M.range(count).to_iter_dataset(read)


@dataclasses.dataclass
class Records:
    """A user's source with the `repr` of dataclasses, which is in states."""

    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index


@dataclasses.dataclass
class Backwards:
    """A user's sampler with the `repr` of dataclasses, which is in states."""

    length: int
    shard: grain.sharding.ShardOptions

    def __getitem__(self, index: int) -> grain.RecordMetadata:
        if index >= self.length:
            raise IndexError
        return grain.RecordMetadata(index=index, record_key=self.length - 1 - index)


def _loader_of_dataclasses() -> grain.DataLoader:
    shard = grain.sharding.NoSharding()
    return grain.DataLoader(
        data_source=Records(9),
        sampler=Backwards(9, shard),
        operations=[AddOne()],
        shard_options=shard,
        read_options=INLINE,
    )


_FIT = {"length_struct": {"tokens": 8}}

PIPELINES: dict[str, Build] = {
    "range": lambda r: _rows()(r),
    "empty": lambda r: _rows(0)(r).batch(2),
    "single element": lambda r: _rows(1)(r).map(plus_one),
    "shuffled map batches": lambda r: (
        M.range(40).shuffle(3).map(plus_one).batch(4).to_iter_dataset(r)
    ),
    "seeded repeat": lambda r: M.range(7).seed(4).shuffle().repeat(3).to_iter_dataset(r),
    "random map": lambda r: M.range(12).seed(1).random_map(AddDraw()).to_iter_dataset(r),
    "slice": lambda r: M.range(30)[3:27:2].map(plus_one).to_iter_dataset(r),
    "concatenation": lambda r: M.concatenate([M.range(5), M.range(10, 20)]).to_iter_dataset(r),
    "map filter": lambda r: M.range(24).filter(odd).to_iter_dataset(r),
    "all filtered out": lambda r: M.range(9).filter(lambda x: False).to_iter_dataset(r),
    "user map dataset with gaps": lambda r: (
        Gaps().shuffle(2).to_iter_dataset(r).map_with_index(add_index)
    ),
    "None elements": lambda r: (
        M.source([None, 1, None, 3, 4]).repeat(3).to_iter_dataset(r, allow_nones=True)
    ),
    "map mixture": lambda r: M.mix(
        [M.range(6).repeat(2), M.range(100, 112)], [1, 2]
    ).to_iter_dataset(r),
    "map flat map": lambda r: X.FlatMapMapDataset(M.range(8), Copies()).to_iter_dataset(r).batch(4),
    "map chain": lambda r: _rows()(r).map(plus_one).map(AddOne()),
    "filter and batch": lambda r: _rows(30)(r).filter(odd).batch(4).map(np.sum),
    "batch and filter": lambda r: _rows(30)(r).batch(3).filter(odd).map(plus_one).batch(2),
    "dropped remainder": lambda r: (
        _rows(10)(r).batch(4, drop_remainder=True).map_with_index(add_index)
    ),
    "indices": lambda r: _rows()(r).filter(odd).map_with_index(add_index),
    "draws": lambda r: _rows()(r).random_map(add_draw, seed=3).batch(3),
    "draws after a filter": lambda r: (
        _rows(24)(r).filter(lambda x: x % 3).map(plus_one).random_map(add_draw, seed=1)
    ),
    "map to None": lambda r: _rows(9)(r).map(lambda x: None if x % 2 else x),
    "flat map": lambda r: X.FlatMapIterDataset(_rows(9)(r), Copies()).batch(2),
    "mixture": lambda r: grain.IterDataset.mix(
        [_rows(6)(r).map(plus_one), _rows(14)(r).filter(odd)], [1, 2]
    ),
    "window shuffle": lambda r: X.WindowShuffleIterDataset(_rows()(r), window_size=6, seed=2),
    "repetition": lambda r: X.RepeatIterDataset(_rows(5)(r).batch(2), 3),
    "limit": lambda r: X.LimitIterDataset(_rows(30)(r).filter(odd), 7).batch(2),
    "rebatch": lambda r: X.RebatchIterDataset(_rows()(r).batch(6), 4),
    "unbatch": lambda r: _rows()(r).batch(6).unbatch(),
    "zip": lambda r: X.ZipIterDataset([_rows(8)(r), _rows(16)(r).batch(2)]),
    "cache": lambda r: X.CacheIterDataset(_rows(6)(r).map(plus_one)),
    "first fit": lambda r: X.FirstFitPackIterDataset(_documents(r), num_packing_bins=2, **_FIT),
    "best fit": lambda r: X.BestFitPackIterDataset(_documents(r), num_packing_bins=2, **_FIT),
    "concat then split": lambda r: X.ConcatThenSplitIterDataset(_documents(r), **_FIT),
    "user iterator": lambda r: Sums(_rows(12)(r)).map(plus_one).batch(2),
    "user iterator on top": lambda r: Sums(_rows(12)(r).filter(odd)),
    "stream": lambda r: Lines(5, 12).map(plus_one).batch(2),
    "interleave map datasets": lambda r: X.InterleaveIterDataset(
        [M.range(i * 10, i * 10 + i + 2) for i in range(4)], cycle_length=2
    ).batch(2),
    "interleave filtered datasets": lambda r: X.InterleaveIterDataset(
        [_rows(i + 5)(r).filter(odd).map(plus_one) for i in range(4)], cycle_length=2
    ),
    "interleave streams": lambda r: X.InterleaveIterDataset(
        [Lines(10 * i, 2 * i + 1) for i in range(4)], cycle_length=3
    ).map(plus_one),
    "interleave datasets made on demand": lambda r: X.InterleaveIterDataset(
        M.range(4).map(lambda i: Lines(10 * i, i + 2)), cycle_length=2
    ),
    "thread prefetch": lambda r: X.ThreadPrefetchIterDataset(
        _rows()(r).filter(odd), prefetch_buffer_size=3
    ).batch(2),
    "thread prefetch on top": lambda r: X.ThreadPrefetchIterDataset(
        _rows(12)(r).map(plus_one), prefetch_buffer_size=2
    ),
    "multithread prefetch": lambda r: X.multithread_prefetch(
        _rows(12)(r).batch(2), num_threads=2, buffer_size=1
    ),
    "pictures": lambda r: M.range(16).shuffle(1).map(picture).batch(2).to_iter_dataset(r),
    "pictures above a filter": lambda r: _rows(16)(r).filter(odd).map(picture),
    "busy function above a filter": lambda r: _rows(14)(r).filter(odd).map(busy).map(plus_one),
}

LOADERS: dict[str, Callable[[], grain.DataLoader]] = {
    "loader": lambda: _loader(read_options=INLINE),
    "loader with threads": lambda: _loader(read_options=THREADS),
    "loader of dataclasses": _loader_of_dataclasses,
}


def build(name: str, mode: str, workers: int = 2) -> Any:
    """Build a pipeline of the tables.

    Args:
        name: the pipeline's name.
        mode: "inline", "threads", "workers", or the executor that replaces worker processes: "inline
            executor" or "threads executor".
        workers: the number of worker processes in the mode "workers".
    """
    if name in LOADERS:
        return LOADERS[name]()
    dataset = PIPELINES[name](THREADS if mode == "threads" else INLINE)
    if mode == "workers":
        return dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    if mode.endswith(" executor"):
        executor = mode.removesuffix(" executor")
        return dataset.mp_prefetch(grain.MultiprocessingOptions(workers, executor=executor))
    return dataset
