"""Pipelines by name, small ones of every shape that worker processes treat in a way of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import grain

M = grain.MapDataset
X = grain.experimental


# What users write: sources, datasets and iterators with the abstract methods only.


class OwnMapDataset(M):
    """A map dataset that is its own source; some elements are missing."""

    def __init__(self, length: int, missing: tuple[int, ...] = ()):
        super().__init__()
        self._length = length
        self._missing = missing

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        place = int(index) % self._length
        return None if place in self._missing else 7 * place


class OwnIterDataset(grain.IterDataset):
    """An iter dataset over a parent: running sums."""

    def __iter__(self) -> grain.DatasetIterator:
        return OwnIterator(iter(self._parent))


class OwnIterator(grain.DatasetIterator):
    """Depends on all that came before, and says so in its state."""

    def __init__(self, parent: grain.DatasetIterator):
        super().__init__(parent)
        self._sum = 0

    def __next__(self) -> int:
        self._sum += int(np.sum(next(self._parent)))
        return self._sum

    def get_state(self) -> dict[str, Any]:
        return {"inside": self._parent.get_state(), "sum": self._sum}

    def set_state(self, state: dict[str, Any]) -> None:
        self._parent.set_state(state["inside"])
        self._sum = state["sum"]


class Lines(grain.IterDataset):
    """A stream that cannot be divided, such as the lines of a file; some lines cannot be read."""

    def __init__(self, first: int, count: int, bad: tuple[int, ...] = ()):
        super().__init__()
        self.first, self.count, self.bad = first, count, bad

    def __iter__(self) -> grain.DatasetIterator:
        return LinesIterator(self)


class LinesIterator(grain.DatasetIterator):
    def __init__(self, lines: Lines):
        super().__init__()
        self._lines = lines
        self._state = {"place": 0}

    def __next__(self) -> int:
        place = self._state["place"]
        if place >= self._lines.count:
            raise StopIteration
        self._state["place"] = place + 1
        if place in self._lines.bad:
            raise ValueError(f"line {place} cannot be read")
        return self._lines.first + place

    def get_state(self) -> dict[str, int]:
        return dict(self._state)

    def set_state(self, state: dict[str, int]) -> None:
        self._state = dict(state)


class CarelessLines(Lines):
    """A stream whose iterator gives the same object as its state each time."""

    def __iter__(self) -> grain.DatasetIterator:
        return CarelessIterator(self)


class CarelessIterator(LinesIterator):
    def get_state(self) -> dict[str, int]:
        return self._state


class Halves(grain.transforms.FlatMap):
    """Splits an element in up to three pieces."""

    max_fan_out = 3

    def flat_map(self, element: Any) -> list[Any]:
        return [element] * (int(element) % 4)


class AddOne(grain.transforms.Map):
    def map(self, element: Any) -> Any:
        return element + 1


class AddDraw(grain.transforms.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> float:
        return float(element) + rng.random()


class KeepOdd(grain.transforms.Filter):
    def filter(self, element: Any) -> bool:
        return bool(element % 2)


class BrokenSource:
    """A source with records that cannot be read, however often they are asked for."""

    def __init__(self, length: int, bad: tuple[int, ...]):
        self.length, self.bad = length, bad

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        if index in self.bad:
            raise OSError(f"record {index} is damaged")
        return index


def plus_one(x: Any) -> Any:
    return x + 1


def add_index(index: int, x: Any) -> Any:
    return (index, x)


def add_draw(x: Any, rng: np.random.Generator) -> float:
    return float(np.sum(x)) + rng.random()


def heavy(x: Any) -> Any:
    """Takes long enough for a worker to be asked."""
    started = time.perf_counter()
    while time.perf_counter() - started < 0.003:
        pass
    return x


def not_thirteen(x: Any) -> Any:
    if x == 13:
        raise ValueError("thirteen")
    return x


def not_index_five(index: int, x: Any) -> Any:
    if index == 5:
        raise LookupError("index five")
    return (index, x)


def no_batch_with_seven(elements: list[Any]) -> Any:
    if 7 in elements:
        raise KeyError("seven")
    return np.array(elements)


def documents(count: int = 24) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {"tokens": np.arange(1, length + 1, dtype=np.int32) + 100 * number}
        for number, length in enumerate(rng.integers(1, 11, count))
    ]


def rows(count: int = 40) -> grain.IterDataset:
    return M.range(count).to_iter_dataset()


def odd(x: Any) -> bool:
    return bool(np.sum(x) % 2)


def packed(kind: Any) -> grain.IterDataset:
    return kind(
        M.source(documents()).to_iter_dataset(), length_struct={"tokens": 12}, num_packing_bins=3
    )


class EndlessSampler:
    """A sampler that knows no length and tells by an IndexError where it ends."""

    _shard_options = grain.NoSharding()

    def __getitem__(self, index: int) -> grain.RecordMetadata:
        if index >= 25:
            raise IndexError(index)
        return grain.RecordMetadata(
            index=index,
            record_key=index % 10,
            rng=np.random.Generator(np.random.Philox(key=index)),
        )

    def __repr__(self) -> str:
        return "EndlessSampler()"


# Nothing goes wrong in these.
PIPELINES: dict[str, Callable[[], grain.IterDataset]] = {
    "34 rows in batches of 16": lambda: rows(34).batch(16),
    "shuffled map batches": lambda: (
        M.range(100).shuffle(3).map(plus_one).batch(8).to_iter_dataset()
    ),
    "nothing": lambda: M.range(0).to_iter_dataset().batch(3),
    "one element": lambda: rows(1).map(plus_one),
    "all filtered out": lambda: M.range(9).filter(lambda x: False).to_iter_dataset().batch(2),
    "dropped remainder": lambda: rows(10).batch(4, drop_remainder=True).map_with_index(add_index),
    "dropped remainders": lambda: (
        rows(23).batch(2, drop_remainder=True).batch(3).map_with_index(add_index)
    ),
    "index below a dropped remainder": lambda: (
        rows(10).map_with_index(lambda i, x: i + x).batch(4, drop_remainder=True)
    ),
    "map filter then batch": lambda: M.range(60).filter(odd).to_iter_dataset().batch(4),
    "filter then batch": lambda: rows(60).filter(odd).batch(4).map(np.sum),
    "batch then filter": lambda: rows(60).batch(3).filter(odd).map(plus_one).batch(2),
    "draws": lambda: rows().random_map(add_draw, seed=3).batch(7).random_map(add_draw, seed=4),
    "indices and draws": lambda: (
        rows(25).map_with_index(add_index).map(sum).batch(4).random_map(add_draw, seed=4)
    ),
    "draws after a filter": lambda: (
        rows(50).filter(lambda x: x % 3).map(plus_one).random_map(add_draw, seed=1).batch(4)
    ),
    "one element missing": lambda: (
        M.range(50).map(lambda x: None if x == 30 else x).to_iter_dataset().batch(4)
    ),
    "own map dataset with gaps": lambda: (
        OwnMapDataset(40, (3, 20, 21)).shuffle(2).to_iter_dataset().map_with_index(add_index)
    ),
    "elements that are None": lambda: (
        M.source([None, 1, None, 3, 4])
        .repeat(3)
        .to_iter_dataset(allow_nones=True)
        .map(plus_one)
        .map_with_index(lambda i, x: None if x is None else i * x)
    ),
    "map to None": lambda: rows(9).map(lambda x: None if x % 2 else x).map(plus_one),
    "mixture": lambda: grain.IterDataset.mix(
        [rows(10).map(plus_one), M.range(50, 90).filter(odd).to_iter_dataset()], [1, 2]
    ).batch(3),
    "map mixture": lambda: (
        M.mix([M.range(10).repeat(3), M.range(100, 140)], [1, 2]).shuffle(5).to_iter_dataset()
    ),
    "flat map": lambda: X.FlatMapIterDataset(rows(20), Halves()).batch(3).map(np.sum),
    "map flat map": lambda: X.FlatMapMapDataset(M.range(20), Halves()).to_iter_dataset().batch(4),
    "first fit": lambda: packed(X.FirstFitPackIterDataset).map(lambda x: x["tokens"]),
    "best fit": lambda: packed(X.BestFitPackIterDataset).batch(2),
    "window shuffle": lambda: X.WindowShuffleIterDataset(rows(), window_size=7, seed=2).batch(4),
    "repetition": lambda: X.RepeatIterDataset(rows(7).batch(2), 3).map_with_index(add_index),
    "limit": lambda: X.LimitIterDataset(rows().filter(odd), 11).batch(2),
    "rebatch": lambda: X.RebatchIterDataset(rows(34).batch(16), 5),
    "pairs": lambda: X.ZipIterDataset([rows(12), rows(24).batch(2)]),
    "cache": lambda: X.CacheIterDataset(rows(5).map(plus_one)),
    "concatenation": lambda: M.concatenate([M.range(5), M.range(10, 30)])[3:21].to_iter_dataset(),
    "own iterator": lambda: OwnIterDataset(rows(20).batch(3)).map(plus_one).batch(2),
    "own iterator over a filter": lambda: OwnIterDataset(rows(20).filter(odd)),
    "heavy above filter and batch": lambda: rows(60).filter(odd).batch(2).map(heavy).map(plus_one),
    "heavy above own iterator": lambda: OwnIterDataset(rows(12)).map(heavy).batch(3).map(plus_one),
    "heavy above packing": lambda: packed(X.FirstFitPackIterDataset).map(heavy),
    "single stream": lambda: Lines(5, 30).map(plus_one).batch(4),
    "single stream alone": lambda: Lines(5, 9),
    "careless single stream": lambda: CarelessLines(5, 30).map(plus_one),
    "heavy single stream": lambda: Lines(5, 9).map(heavy),
    "turns of map datasets": lambda: X.InterleaveIterDataset(
        [M.range(i * 10, i * 10 + i + 2) for i in range(5)], cycle_length=3
    ).batch(2),
    "turns of filtered datasets": lambda: X.InterleaveIterDataset(
        [rows(i + 9).filter(odd).map(plus_one).batch(2) for i in range(5)], cycle_length=2
    ),
    "turns of heavy datasets": lambda: X.InterleaveIterDataset(
        [rows(i + 9).filter(odd).map_with_index(add_index).map(heavy) for i in range(4)],
        cycle_length=2,
    ),
    "turns of streams": lambda: X.InterleaveIterDataset(
        [Lines(10 * i, 3 * i + 1) for i in range(6)], cycle_length=4
    ).map(plus_one),
    "turns of datasets made when needed": lambda: X.InterleaveIterDataset(
        M.range(5).map(lambda i: Lines(10 * i, i + 2)), cycle_length=2
    ).batch(3),
    "turns of turns": lambda: X.InterleaveIterDataset(
        [
            X.InterleaveIterDataset([Lines(10 * i, 4), rows(i + 2)], cycle_length=2)
            for i in range(3)
        ],
        cycle_length=2,
    ),
    "thread below": lambda: X.ThreadPrefetchIterDataset(
        rows(20).filter(odd), prefetch_buffer_size=3
    ).batch(3),
    "prefetch below": lambda: rows(20).mp_prefetch(grain.MultiprocessingOptions(1)).batch(3),
}

# In these, elements fail: they are gone, or asked for again, exactly as without workers.
FAILING: dict[str, Callable[[], grain.IterDataset]] = {
    "a map": lambda: M.range(30).map(not_thirteen).to_iter_dataset(),
    "a map below a batch": lambda: M.range(30).map(not_thirteen).to_iter_dataset().batch(4),
    "a source": lambda: M.source(BrokenSource(30, (9, 11))).to_iter_dataset().batch(4),
    "an iter map": lambda: rows(30).map(not_thirteen),
    "an iter map below a batch": lambda: rows(30).map(not_thirteen).batch(4).map(plus_one),
    "an iter map above a filter": lambda: rows(30).filter(odd).map(not_thirteen).batch(4),
    "an iter map above indices": lambda: (
        rows(30).map_with_index(lambda i, x: x).map(not_thirteen).map_with_index(add_index)
    ),
    "an indexed map": lambda: rows(30).map_with_index(not_index_five).batch(4),
    "an indexed map above a batch": lambda: (
        rows(30).map_with_index(lambda i, x: x).batch(3).map_with_index(not_index_five)
    ),
    "a batch": lambda: rows(30).map_with_index(lambda i, x: x).batch(4, batch_fn=no_batch_with_seven),
    "two of them": lambda: (
        rows(30).map(not_thirteen).map_with_index(lambda i, x: x).map(
            lambda x: 1 // ((x - 11) * (x - 14))
        )
    ),
    "a filter": lambda: rows(30).filter(lambda x: 1 / (x - 13) < 0 or x % 2).batch(3),
    "a heavy map": lambda: (
        rows(60).filter(lambda x: x % 2 == 0).map(lambda x: x // 2).random_map(
            lambda x, rng: x, seed=1
        ).map(heavy).map(not_thirteen)
    ),
    "a heavy map over own iterator": lambda: OwnIterDataset(rows(9)).map(heavy).map(
        lambda x: 1 // (x - 10)
    ),
    "below a heavy map": lambda: rows(30).filter(lambda x: x != 2).map_with_index(
        not_index_five
    ).map(heavy),
    "a stream": lambda: Lines(0, 20, bad=(3, 4, 11)),
    "a stream below a batch": lambda: Lines(0, 20, bad=(3, 11)).map(plus_one).batch(3),
    "one of several streams": lambda: X.InterleaveIterDataset(
        [Lines(10 * i, 8, bad=(i, 5)) for i in range(4)], cycle_length=3
    ),
    "one of several datasets": lambda: X.InterleaveIterDataset(
        [M.range(10 * i, 10 * i + 9).to_iter_dataset().map(not_thirteen) for i in range(4)],
        cycle_length=2,
    ),
    "packing": lambda: X.FirstFitPackIterDataset(
        M.source([{"tokens": np.ones(n)} for n in (3, 20, 4, 5)]).to_iter_dataset(),
        length_struct={"tokens": 6},
        num_packing_bins=1,
    ),
}  # fmt: skip
