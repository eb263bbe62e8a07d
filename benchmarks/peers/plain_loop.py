"""The cases as loops of Python and numpy, without a library: how fast the work itself can be done.

Shuffled indices are drawn with replacement, many at a time. There are no states, no errors that are
explained, no workers. Loops that read or decode files use a thread for each processor, loops that wait as
many as this project by default.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks import work
from benchmarks.cases import BY_NAME, LENGTHS
from benchmarks.data import Data

MANY = 10**7
DRAWN = 4096
BINS = 64
WAITING_THREADS = 16

LACKS: Mapping[str, str] = {
    **{name: "one loop has no workers" for name, case in BY_NAME.items() if case.workers},
    "mix3": "mixing by weight is the work of a library",
    "random_map": "a generator for each element is the work of a library",
}


def indices(length: int, size: int) -> Iterator[np.ndarray]:
    """Yield random indices, `size` at a time."""
    rng = np.random.default_rng(0)
    while True:
        drawn = rng.integers(0, length, (max(1, DRAWN // size), size))
        yield from drawn


def elements(length: int) -> Iterator[int]:
    """Yield random indices."""
    for many in indices(length, DRAWN):
        yield from many.tolist()


def in_order() -> Iterator[np.ndarray]:
    """Yield consecutive numbers."""
    for start in range(0, MANY, 128):
        yield np.arange(start, start + 128)


def added(source: Any = None, length: int = MANY) -> Iterator[np.ndarray]:
    """Read, add one and batch."""
    for many in indices(length, 128):
        found = many.tolist() if source is None else map(source.__getitem__, many.tolist())
        yield np.array(list(map(work.add_one, found)))


def evens(size: int) -> Iterator[np.ndarray]:
    """Filter, then batch."""
    kept: Iterator[int] = filter(work.is_even, elements(MANY))
    while True:
        yield np.array(list(itertools.islice(kept, size)))


def stacked(read: Callable[[int], Any], length: int, size: int) -> Iterator[np.ndarray]:
    """Read and stack arrays."""
    for many in indices(length, size):
        yield np.stack(list(map(read, many.tolist())))


def images() -> Iterator[dict[str, np.ndarray]]:
    """Stack images and their labels."""
    source = work.Images(10**6)
    for many in indices(10**6, 64):
        found = list(map(source.__getitem__, many.tolist()))
        yield {name: np.stack([element[name] for element in found]) for name in found[0]}


def stacked_in_threads(
    read: Callable[[Any], Any], files: list[str], size: int, threads: int
) -> Iterator[np.ndarray]:
    """Read in threads, two batches ahead, and stack."""
    with ThreadPoolExecutor(threads) as pool:
        ahead = [
            [pool.submit(read, files[i]) for i in many.tolist()]
            for many in itertools.islice(indices(len(files), size), 2)
        ]
        for many in indices(len(files), size):
            ahead.append([pool.submit(read, files[i]) for i in many.tolist()])
            yield np.stack([found.result() for found in ahead.pop(0)])


def waiting() -> Iterator[np.ndarray]:
    """Wait in threads, with as many reads ahead as this project has by default."""
    source = work.Remote(MANY)
    drawn = elements(MANY)
    with ThreadPoolExecutor(WAITING_THREADS) as pool:
        ahead = [pool.submit(source.__getitem__, i) for i in itertools.islice(drawn, 500)]
        while True:
            ahead += [pool.submit(source.__getitem__, i) for i in itertools.islice(drawn, 32)]
            batch, ahead = ahead[:32], ahead[32:]
            yield np.array([found.result() for found in batch])


def rows(documents: Iterable[np.ndarray], length: int) -> Iterator[dict[str, np.ndarray]]:
    """Join documents and cut rows."""
    parts: list[np.ndarray] = []
    held = 0
    for document in documents:
        parts.append(document)
        held += len(document)
        if held >= length:
            joined = np.concatenate(parts)
            for start in range(0, held - length + 1, length):
                yield {"tokens": joined[start : start + length].copy()}
            parts = [joined[held - held % length :]]
            held %= length


def packed(choose: Callable[[list[int], int], int]) -> Iterator[dict[str, np.ndarray]]:
    """Pack documents into bins; all bins are emitted when one does not fit."""
    length = work.ROW_LENGTH
    documents = [element["tokens"][:length] for element in work.documents()]
    bins, free = np.zeros((BINS, length), np.int32), [length] * BINS
    for document in itertools.cycle(documents):
        size = len(document)
        chosen = choose(free, size)
        if chosen < 0:
            yield from (
                {"tokens": row} for row, left in zip(bins, free, strict=True) if left < length
            )
            bins, free, chosen = np.zeros((BINS, length), np.int32), [length] * BINS, 0
        start = length - free[chosen]
        bins[chosen, start : start + size] = document
        free[chosen] -= size


def first_fit(free: list[int], size: int) -> int:
    """Return the first bin with enough room, or -1."""
    return next((number for number, left in enumerate(free) if left >= size), -1)


def best_fit(free: list[int], size: int) -> int:
    """Return the bin that a document fills most, or -1."""
    fitting = [(left, number) for number, left in enumerate(free) if left >= size]
    return min(fitting)[1] if fitting else -1


def text(lines: list[str]) -> Iterator[dict[str, np.ndarray]]:
    """Tokenize, join, cut and batch lines."""
    tokens = (work.token_ids(lines[i]) for i in elements(len(lines)))
    cut = rows(tokens, work.TEXT_ROW_LENGTH)
    while True:
        yield {"tokens": np.stack([row["tokens"] for row in itertools.islice(cut, 8)])}


def record_lengths(path: str) -> Iterator[np.ndarray]:
    """Read records of an ArrayRecord file, a batch in a call."""
    from array_record.python import array_record_data_source

    source = array_record_data_source.ArrayRecordDataSource(path)
    for many in indices(len(source), 128):
        yield np.array([len(record) for record in source.__getitems__(many.tolist())])


def table(path: str) -> Iterator[dict[str, Any]]:
    """Read the rows of a Parquet file in order."""
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(batch_size=128):
        columns = batch.to_pydict()
        yield {name: np.array(values) for name, values in columns.items()}


def numbers(length: int) -> Iterator[np.ndarray]:
    """Yield shuffled numbers in batches."""
    return indices(length, 128)


def programs(data: Data) -> Mapping[str, Callable[[], Iterable[Any]]]:
    """Return all loops."""
    processors = len(os.sched_getaffinity(0))
    large = work.LargeArrays(10**6)
    made: dict[str, Callable[[], Iterable[Any]]] = {
        "range_batch": in_order,
        "shuffle_map_batch": added,
        "shuffle_map_batch_threads": added,
        "map_elems_threads": lambda: map(work.add_one, elements(MANY)),
        "iter_batch_after_threads": lambda: added(work.Ints(MANY)),
        "filter_iter_batch": lambda: evens(128),
        "dataloader_w0": lambda: added(work.Ints(MANY)),
        "filter_batch_heavy_w0": lambda: map(work.heavy_batch, evens(64)),
        "images_batch": images,
        "image_decode": lambda: stacked_in_threads(
            work.read_image, data.image_files, 32, processors
        ),
        "large_arrays": lambda: stacked(large.__getitem__, 10**6, 4),
        "pack_first_fit": lambda: packed(first_fit),
        "pack_best_fit": lambda: packed(best_fit),
        "pack_concat_split": lambda: rows(
            (element["tokens"] for element in itertools.cycle(work.documents())), work.ROW_LENGTH
        ),
        "text_pack": lambda: text(data.lines()),
        "arrayrecord_1k_seq": lambda: record_lengths(data.array_record),
        "arrayrecord_1k_threads": lambda: record_lengths(data.array_record),
        "arrayrecord_1k_batch_threads": lambda: record_lengths(data.array_record),
        "parquet_iter": lambda: table(data.parquet),
        "small_files": lambda: stacked_in_threads(
            work.read_array, data.small_files, 64, processors
        ),
        "latency_threads": waiting,
        "first_batch": lambda: added(work.Ints(10**6), 10**6),
    }
    for name, length in LENGTHS.items():
        made[name] = functools.partial(numbers, length)
    return made
