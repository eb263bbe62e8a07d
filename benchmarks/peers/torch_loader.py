"""The cases with torch's DataLoader."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from array_record.python import array_record_data_source
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, get_worker_info

from benchmarks import work
from benchmarks.cases import HEAVY_WORKERS, LENGTHS
from benchmarks.data import Data

NO_PACKING = "does not pack"
NO_THREADS = "has no reading threads"
ALL_INDICES = "makes a list of all indices, which does not fit into memory"

LACKS: Mapping[str, str] = {
    "random_map": "has no random generator for each element",
    "mix3": "does not mix data sets by weight",
    "pack_first_fit": NO_PACKING,
    "pack_best_fit": NO_PACKING,
    "pack_concat_split": NO_PACKING,
    "text_pack": NO_PACKING,
    "parquet_iter": "does not read Parquet",
    "shuffle_map_batch_threads": NO_THREADS,
    "map_elems_threads": NO_THREADS,
    "iter_batch_after_threads": NO_THREADS,
    "arrayrecord_1k_threads": NO_THREADS,
    "arrayrecord_1k_batch_threads": NO_THREADS,
    "length_1e9": ALL_INDICES,
    "length_1e12": ALL_INDICES,
}

MANY = 10**7
ENDLESS = 10**12


class Mapped(Dataset):
    """A source with a function on each element."""

    def __init__(self, source: Any, function: Callable[[Any], Any] | None = None) -> None:
        self.source = source
        self.function = function

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        element = self.source[index]
        return element if self.function is None else self.function(element)


class RecordLengths(Dataset):
    """Lengths of the records of an ArrayRecord file, a batch in one call."""

    def __init__(self, path: str) -> None:
        self.source = array_record_data_source.ArrayRecordDataSource(path)

    def __len__(self) -> int:
        return len(self.source)

    def __getitems__(self, indices: list[int]) -> list[int]:
        """Return the whole batch."""
        return [len(record) for record in self.source.__getitems__(indices)]


class EvenInts(IterableDataset):
    """Shuffled even numbers; each worker draws others."""

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        rng = np.random.default_rng(0 if worker is None else worker.id)
        while True:
            for x in rng.integers(0, MANY, 1024).tolist():
                if work.is_even(x):
                    yield x


def random(dataset: Any, batch: int, workers: int = 0, ahead: int = 2) -> Any:
    """Return an endless loader that draws indices with replacement."""
    return DataLoader(
        dataset,
        batch_size=batch,
        sampler=RandomSampler(dataset, replacement=True, num_samples=ENDLESS),
        num_workers=workers,
        prefetch_factor=ahead if workers else None,
    )


def shuffled(dataset: Any, workers: int = 0) -> Any:
    """Return a loader that shuffles all indices first."""
    return DataLoader(dataset, batch_size=128, shuffle=True, drop_last=True, num_workers=workers)


def filter_batch_heavy(workers: int) -> Any:
    """Apply a heavy function to batches of filtered elements."""
    return DataLoader(
        EvenInts(),
        batch_size=64,
        collate_fn=work.heavy_batch,
        num_workers=workers,
        prefetch_factor=4 if workers else None,
    )


def programs(data: Data) -> Mapping[str, Callable[[], Iterable[Any]]]:
    """Return all cases that torch supports."""
    added = Mapped(work.Ints(MANY), work.add_one)
    million = Mapped(work.Ints(10**6), work.add_one)
    normalized = Mapped(work.Images(10**6), work.normalize)
    decoded = Mapped(work.Paths(data.image_files), work.read_image)
    small = Mapped(work.Paths(data.small_files), work.read_array)
    made: dict[str, Callable[[], Iterable[Any]]] = {
        "range_batch": lambda: DataLoader(Mapped(work.Ints(MANY)), batch_size=128),
        "shuffle_map_batch": lambda: random(added, 128),
        "filter_iter_batch": lambda: DataLoader(EvenInts(), batch_size=128),
        "ints_batch_mp2": lambda: random(added, 128, 2, 8),
        "dataloader_w0": lambda: random(added, 128),
        "dataloader_w2": lambda: random(added, 128, 2, 8),
        "filter_batch_heavy_w0": lambda: filter_batch_heavy(0),
        "filter_batch_heavy_mp2": lambda: filter_batch_heavy(2),
        "images_batch": lambda: random(Mapped(work.Images(10**6)), 64),
        "images_norm_batch_mp2": lambda: random(normalized, 64, 2),
        "image_decode": lambda: random(decoded, 32),
        "image_decode_mp2": lambda: random(decoded, 32, 2),
        "large_arrays": lambda: random(Mapped(work.LargeArrays(10**6)), 4),
        "large_arrays_mp2": lambda: random(Mapped(work.LargeArrays(10**6)), 4, 2),
        "arrayrecord_1k_seq": lambda: random(RecordLengths(data.array_record), 128),
        "small_files": lambda: random(small, 64),
        "small_files_mp2": lambda: random(small, 64, 2),
        "latency_threads": lambda: random(Mapped(work.Remote(MANY)), 32),
        "latency_mp2": lambda: random(Mapped(work.Remote(MANY)), 32, 2),
        "first_batch": lambda: shuffled(million),
        "first_batch_mp2": lambda: shuffled(million, 2),
        "memory_mp2": lambda: random(normalized, 64, 2),
        "memory_list_mp2": lambda: random(Mapped(work.labels(), work.label_id), 128, 2),
    }
    for name, count in HEAVY_WORKERS.items():
        source = Mapped(work.Ints(MANY), work.heavy)
        made[name] = functools.partial(random, source, 64, count, ahead=4)
    for name, length in LENGTHS.items():
        made[name] = functools.partial(shuffled, Mapped(work.Ints(length)))
    return made
