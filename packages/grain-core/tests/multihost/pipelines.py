"""Pipelines of every kind, and hosts that read them together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import grain
from grain import tree
from grain.experimental import ElasticIterator, InterleaveIterDataset
from grain.sharding import ShardOptions

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


def numbers(length: int) -> grain.MapDataset[Any]:
    return grain.MapDataset.range(1, length + 1).map(lambda x: {"x": x})


def is_kept(element: Any) -> bool:
    return bool(element["x"] % 3)


def scaled(element: Any) -> Any:
    return {"x": element["x"] * 10}


def noisy(element: Any, rng: np.random.Generator) -> Any:
    return {"x": element["x"] + int(rng.integers(1000)) * 1000}


def with_place(place: int, element: Any) -> Any:
    return {"x": element["x"], "place": place}


def plus_place(place: int, element: Any) -> Any:
    return {"x": element["x"] + place}


def added(element: Any) -> Any:
    return {"x": element[0]["x"] + 10_000 * element[1]["x"]}


def document(element: Any) -> Any:
    return {"x": np.full(element["x"] % 5 + 1, element["x"])}


def joined(element: Any) -> Any:
    return {"x": element[0]["x"], "y": element[1]["x"]}


class Counting(grain.IterDataset[Any]):
    """A stream that a user wrote, whose iterator has only live states."""

    def __init__(self, length: int):
        super().__init__()
        self.length = length

    def __iter__(self) -> grain.DatasetIterator[Any]:
        return CountingIterator(self.length)


class CountingIterator(grain.DatasetIterator[Any]):
    def __init__(self, length: int):
        super().__init__()
        self._length = length
        self._next = 0

    def __next__(self) -> Any:
        if self._next >= self._length:
            raise StopIteration
        self._next += 1
        return {"x": self._next}

    def get_state(self) -> Any:
        return {"next": self._next}

    def set_state(self, state: Any) -> None:
        self._next = state["next"]


def stream(length: int) -> grain.IterDataset[Any]:
    return numbers(length).shuffle(seed=1).to_iter_dataset(INLINE)


def packed(length: int, strategy: str) -> grain.IterDataset[Any]:
    documents = numbers(length).map(document).to_iter_dataset(INLINE)
    options = {} if strategy == "concat_then_split" else {"num_packing_bins": 2}
    return documents.pack({"x": 7}, strategy=strategy, **options)


# What is found by its index, so that a host reads its part alone.
BY_INDEX: dict[str, Callable[[int], grain.MapDataset[Any]]] = {
    "map": lambda n: numbers(n).map(scaled),
    "shuffled": lambda n: numbers(n).seed(3).shuffle().random_map(noisy),
    "epochs": lambda n: numbers(n).shuffle(seed=5).repeat(2),
    "mixed": lambda n: grain.MapDataset.mix([numbers(n + 1), numbers(n + 1).map(scaled)], [2, 1]),
    "zipped": lambda n: numbers(n).zip(numbers(n).shuffle(seed=2)).map(joined),
    "windows": lambda n: numbers(n).window_shuffle(4, seed=1),
}

# Streams that are known only by reading in order.
IN_ORDER: dict[str, Callable[[int], Any]] = {
    "filtered": lambda n: numbers(n).shuffle(seed=1).filter(is_kept),
    "filtered, then mapped": lambda n: numbers(n).filter(is_kept).map(scaled),
    "filtered stream": lambda n: stream(n).filter(is_kept).random_map(noisy, seed=4),
    "filtered epochs": lambda n: numbers(n).shuffle(seed=1).filter(is_kept).repeat(2),
    "counted": lambda n: stream(n).filter(is_kept).map_with_index(with_place),
    "mixed streams": lambda n: grain.IterDataset.mix(
        [stream(n).filter(is_kept), stream(n).map(scaled)]
    ),
    "mixed with a filter": lambda n: grain.MapDataset.mix(
        [numbers(n + 1).filter(is_kept), numbers(n + 1)]
    ),
    "zipped streams": lambda n: stream(n).zip(stream(n).window_shuffle(3, seed=1)).map(joined),
    "first fit": lambda n: packed(n, "first_fit"),
    "best fit": lambda n: packed(n, "best_fit"),
    "concatenated and split": lambda n: packed(n, "concat_then_split"),
    "unbatched": lambda n: stream(n).batch(3).unbatch(),
    "window shuffle": lambda n: stream(n).window_shuffle(4, seed=7).limit(max(1, n - 2)),
    "interleaved": lambda n: InterleaveIterDataset(
        [stream(n), stream(n // 2), stream(n // 3)], cycle_length=2
    ),
    "a user's stream": lambda n: Counting(n),
    "a user's stream, filtered": lambda n: Counting(n).filter(is_kept),
}

ALL: dict[str, Callable[[int], Any]] = {**BY_INDEX, **IN_ORDER}


# Operations from which pipelines are put together; each keeps elements of the form {"x": number}.
MAP_OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "map": lambda ds: ds.map(scaled),
    "filter": lambda ds: ds.filter(is_kept),
    "shuffle": lambda ds: ds.shuffle(seed=11),
    "random_map": lambda ds: ds.random_map(noisy, seed=12),
    "repeat": lambda ds: ds.repeat(2),
    "slice": lambda ds: ds[1::2],
    "mix": lambda ds: grain.MapDataset.mix([ds, numbers(30)], [1, 2]) if len(ds) else ds,
    "concatenate": lambda ds: grain.MapDataset.concatenate([ds, numbers(5)]),
    "window_shuffle": lambda ds: ds.window_shuffle(3, seed=13),
}

ITER_OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "map": lambda ds: ds.map(scaled),
    "filter": lambda ds: ds.filter(is_kept),
    "random_map": lambda ds: ds.random_map(noisy, seed=14),
    "map_with_index": lambda ds: ds.map_with_index(plus_place),
    "repeat": lambda ds: ds.repeat(2),
    "limit": lambda ds: ds.limit(17),
    "mix": lambda ds: grain.IterDataset.mix([ds, stream(20)], [2, 1]),
    "zip": lambda ds: ds.zip(stream(40), strict=False).map(added),
    "window_shuffle": lambda ds: ds.window_shuffle(5, seed=15),
    "batch": lambda ds: ds.batch(3).unbatch(),
    "rebatch": lambda ds: ds.batch(2).rebatch(5).unbatch(),
    "interleave": lambda ds: InterleaveIterDataset([ds, stream(9), ds], cycle_length=2),
}


def put_together(
    length: int, map_operations: Sequence[str], iter_operations: Sequence[str] | None
) -> Any:
    """A pipeline of operations in an order; a map dataset where there are none for a stream."""
    ds: Any = numbers(length)
    for name in map_operations:
        ds = MAP_OPERATIONS[name](ds)
    if iter_operations is None:
        return ds
    ds = ds.to_iter_dataset(INLINE)
    for name in iter_operations:
        ds = ITER_OPERATIONS[name](ds)
    return ds


class Hosts:
    """All the hosts of one job, in lock-step."""

    def __init__(self, make: Callable[[], Any], batch_size: int, count: int, **options: Any):
        self.count = count
        self.iterators = [
            ElasticIterator(
                make(), batch_size, ShardOptions(i, count), read_options=INLINE, **options
            )
            for i in range(count)
        ]

    def steps(self, limit: int | None = None) -> Iterator[list[Any]]:
        """The batches of all hosts, step by step, until they end; they must end together."""
        taken = 0
        while limit is None or taken < limit:
            batches = [next(iterator, None) for iterator in self.iterators]
            ended = [batch is None for batch in batches]
            assert all(ended) or not any(ended), f"Some hosts ended before others: {ended}"
            if all(ended):
                return
            taken += 1
            yield batches

    def rows(self, limit: int | None = None) -> list[Any]:
        """The elements of all hosts in their global order, without those that only fill batches."""
        return [row for batches in self.steps(limit) for row in in_order(batches)]

    def saved(self) -> Any:
        """Return the state of all hosts after a round trip through a file."""
        states = [iterator.get_state() for iterator in self.iterators]
        return json.loads(json.dumps(ElasticIterator.merge_states(states)))

    def restore(self, state: Any) -> None:
        for iterator in self.iterators:
            iterator.set_state(state)

    def close(self) -> None:
        for iterator in self.iterators:
            iterator.close()


def in_order(batches: Sequence[Any]) -> list[Any]:
    """The rows of one step of all hosts: row i of the step is on host i % count."""
    parts = [rows_of(batch) for batch in batches]
    length = sum(map(len, parts))
    count = len(batches)
    ordered = [
        parts[i % count][i // count] for i in range(length) if i // count < len(parts[i % count])
    ]
    assert len(ordered) == length
    return ordered


def rows_of(batch: Any) -> list[Any]:
    """A batch row by row, in plain Python; rows that a mask marks as filling are left out."""
    mask = batch.get("mask")
    length = len(batch["x"])
    keep = range(length) if mask is None else np.flatnonzero(mask).tolist()
    return [
        {name: np.asarray(column[row]).tolist() for name, column in batch.items() if name != "mask"}
        for row in keep
    ]


def whole(dataset: Any) -> list[Any]:
    """The global stream, read by one host alone."""
    return [row for element in dataset for row in rows_of(tree.stack([element]))]
