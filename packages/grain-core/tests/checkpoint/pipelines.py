"""Pipelines of many kinds, written so that google/grain 0.2.18 runs them as well.

What one library saves in the middle of them, the other is to restore.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import grain

# How many elements are compared from there on.
AFTER = 8


class Triple(grain.transforms.Map):
    def map(self, element: Any) -> Any:
        return element * 3


class Even(grain.transforms.Filter):
    def filter(self, element: Any) -> bool:
        return bool(element % 2 == 0)


class Noise(grain.transforms.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return element + int(rng.integers(1000))


class Halves(grain.experimental.FlatMapTransform):
    max_fan_out = 2

    def flat_map(self, element: Any) -> list[Any]:
        return [element, -element]


class Pattern(grain.transforms.DatasetSelectionMap):
    def __len__(self) -> int:
        return 18

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index % 3 % 2, index // 2


def numbers(start: int = 0, stop: int = 40) -> grain.MapDataset:
    return grain.MapDataset.range(start, stop)


def stream(start: int = 0, stop: int = 40) -> grain.IterDataset:
    return numbers(start, stop).to_iter_dataset()


def documents() -> grain.IterDataset:
    lengths = [3, 5, 2, 7, 1, 4, 6, 2, 3, 5] * 4
    records = [{"tokens": np.arange(1, n + 1)} for n in lengths]
    return grain.MapDataset.source(records).to_iter_dataset()


def loader(*operations: Any, worker_count: int = 0, **sampler: Any) -> grain.DataLoader:
    return grain.DataLoader(
        data_source=list(range(40)),
        sampler=grain.samplers.IndexSampler(
            40, shard_options=grain.sharding.NoSharding(), seed=7, **sampler
        ),
        operations=list(operations),
        worker_count=worker_count,
    )


def in_workers(dataset: grain.IterDataset) -> grain.IterDataset:
    return dataset.mp_prefetch(grain.multiprocessing.MultiprocessingOptions(num_workers=2))


PIPELINES: dict[str, Callable[[], Any]] = {
    "map": lambda: numbers().map(Triple()).to_iter_dataset(),
    "shuffle and batch": lambda: numbers().seed(3).shuffle().batch(3).to_iter_dataset(),
    "filter": lambda: numbers().filter(Even()).to_iter_dataset(),
    "random map over epochs": lambda: (
        numbers(0, 5).seed(3).shuffle().repeat(5).random_map(Noise()).to_iter_dataset()
    ),
    "slice": lambda: numbers()[1::3].to_iter_dataset(),
    "concatenate": lambda: grain.MapDataset.concatenate(
        [numbers(0, 6), numbers(50, 90)]
    ).to_iter_dataset(),
    "mix by index": lambda: grain.MapDataset.mix(
        [numbers(), numbers(100, 140)], [1, 2]
    ).to_iter_dataset(),
    "select": lambda: grain.MapDataset.select_from_datasets(
        [numbers(), numbers(100, 140)], Pattern()
    ).to_iter_dataset(),
    "threads": lambda: numbers().to_iter_dataset(
        grain.ReadOptions(num_threads=2, prefetch_buffer_size=4)
    ),
    "filter and batch in order": lambda: stream().filter(Even()).batch(2),
    "random map in order": lambda: stream().seed(5).random_map(Noise()).map(Triple()),
    "flat map in order": lambda: grain.experimental.FlatMapIterDataset(stream(), Halves()),
    "mix in order": lambda: grain.IterDataset.mix([stream(), stream(100, 140)], [1, 3]),
    "named mix": lambda: grain.IterDataset.mix(
        {"b": stream().filter(Even()), "a": stream(100, 140)}, {"a": 1, "b": 2}
    ),
    "window shuffle": lambda: grain.experimental.WindowShuffleIterDataset(
        stream(), window_size=5, seed=1
    ),
    "zip": lambda: grain.experimental.ZipIterDataset([stream(), stream(100, 140)]),
    "limit": lambda: grain.experimental.LimitIterDataset(stream(), 10),
    "interleave": lambda: grain.experimental.InterleaveIterDataset(
        [numbers(10 * n, 10 * n + 3 + n) for n in range(5)], cycle_length=2
    ),
    "first fit": lambda: grain.experimental.FirstFitPackIterDataset(
        documents(), length_struct={"tokens": 8}, num_packing_bins=3, shuffle_bins=False
    ),
    "concat then split": lambda: grain.experimental.ConcatThenSplitIterDataset(
        documents(), length_struct={"tokens": 8}
    ),
    "loader": lambda: loader(Triple(), shuffle=True, num_epochs=1),
    "loader with all operations": lambda: loader(
        Even(),
        Noise(),
        grain.transforms.Batch(2, drop_remainder=True),
        shuffle=True,
        num_epochs=2,
    ),
    "loader over epochs": lambda: loader(shuffle=False, num_epochs=None),
    "loader with two workers": lambda: loader(Triple(), worker_count=2, shuffle=True, num_epochs=1),
    "workers": lambda: in_workers(numbers().map(Triple()).to_iter_dataset()),
}


def steps(name: str) -> tuple[int, ...]:
    """After how many elements a pipeline is saved; the workers of the reference are slow to start."""
    return (4,) if "workers" in name else (0, 1, 3, 4)


# What cannot be restored, by whom, and why.
HERE, THERE = "grain-core", "grain"
LIMITS = {
    (THERE, "concat then split"): (
        "its own checkpoints fail in the same way, for a pair that its state has is a list in JSON"
    ),
    (THERE, "loader with two workers"): (
        "it restores only with the worker count it was saved with; here the count is not in the state"
    ),
    (THERE, "workers"): "it has a state for each worker; here there is one for all",
}


def as_json(element: Any) -> Any:
    """An element as JSON has it."""
    if isinstance(element, dict):
        return {name: as_json(value) for name, value in element.items()}
    if isinstance(element, (list, tuple)):
        return [as_json(value) for value in element]
    return np.asarray(element).tolist()
