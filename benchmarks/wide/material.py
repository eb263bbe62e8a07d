"""Sources, functions and transforms of the programs, and the parts of loops without a library."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import grain
import grain.experimental


class Numbers:
    """A source as users write it: the number at an index is the index."""

    def __init__(self, length: int, seconds: float = 0.0) -> None:
        self._length = length
        self._seconds = seconds

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> int:
        if self._seconds:
            time.sleep(self._seconds)
        return index


def add_one(x: Any) -> Any:
    """Add one."""
    return x + 1


def add_fifty(x: Any) -> Any:
    """Add one, fifty times."""
    for _ in range(50):
        x = add_one(x)
    return x


def compute(x: int) -> int:
    """Compute in Python for about 100 microseconds."""
    total = 0
    for step in range(2000):
        total += step * x
    return total


def jitter(x: Any, rng: np.random.Generator) -> Any:
    """Add a random number."""
    return x + rng.random()


def add_index(index: int, x: Any) -> Any:
    """Add the index."""
    return index + x


def is_even(x: int) -> bool:
    """Return whether a number is even."""
    return x % 2 == 0


def records(count: int) -> list[dict[str, Any]]:
    """Return small dictionaries of numbers."""
    return [{"id": number, "score": number / 2} for number in range(count)]


def trees(count: int) -> list[dict[str, Any]]:
    """Return nested elements."""
    return [
        {
            "image": {"pixels": np.arange(4) + number, "size": (number, [1.0, np.float32(number)])},
            "name": f"n{number}",
        }
        for number in range(count)
    ]


def sequences(count: int, low: int, high: int) -> list[np.ndarray]:
    """Return arrays of different lengths."""
    lengths = np.random.default_rng(0).integers(low, high, count)
    return [np.arange(length, dtype=np.int32) for length in lengths]


def documents(count: int, low: int, high: int) -> list[dict[str, np.ndarray]]:
    """Return documents of tokens."""
    return [{"tokens": tokens} for tokens in sequences(count, low, high)]


class Plus(grain.transforms.Map):
    """Adds one."""

    def map(self, element: int) -> int:
        """Add one."""
        return element + 1


class Odd(grain.transforms.Filter):
    """Keeps odd numbers."""

    def filter(self, element: int) -> bool:
        """Return whether a number is odd."""
        return element % 2 == 1


class Jitter(grain.transforms.RandomMap):
    """Adds a random number."""

    def random_map(self, element: int, rng: np.random.Generator) -> Any:
        """Add a random number."""
        return element + rng.integers(5)


class Split(grain.experimental.FlatMapTransform):
    """Splits a number into as many pieces as its last digit says, up to four."""

    max_fan_out = 4

    def flat_map(self, element: int) -> list[int]:
        """Split a number."""
        return [element] * (element % 5)


class RoundRobin(grain.transforms.DatasetSelectionMap):
    """Selects from three datasets in turn."""

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index % 3, index // 3


def random_indices(length: int) -> Callable[[], int]:
    """Return a function that returns random indices, the same in every process."""
    found = np.random.default_rng(0).integers(0, length, 1000).tolist()
    return functools.partial(next, itertools.cycle(found))


# --- loops without a library -------------------------------------------------------------------


def drawn(length: int) -> Iterator[int]:
    """Yield random indices, drawn many at a time."""
    rng = np.random.default_rng(0)
    while True:
        yield from rng.integers(0, length, 4096).tolist()


def grouped(elements: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yield lists of consecutive elements."""
    iterator = iter(elements)
    while group := list(itertools.islice(iterator, size)):
        yield group


def stacked(elements: Iterable[Any], size: int) -> Iterator[np.ndarray]:
    """Yield stacks of consecutive arrays or numbers."""
    for group in grouped(elements, size):
        yield np.stack(group) if isinstance(group[0], np.ndarray) else np.array(group)


def columns(elements: Iterable[dict[str, Any]], size: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield batches of dictionaries of numbers."""
    for group in grouped(elements, size):
        yield {name: np.array([element[name] for element in group]) for name in group[0]}


def picked(items: list[Any]) -> Iterator[Any]:
    """Yield random items."""
    return (items[index] for index in drawn(len(items)))


def shuffled_batches(length: int, size: int) -> Iterator[np.ndarray]:
    """Yield batches of random numbers."""
    rng = np.random.default_rng(0)
    while True:
        yield from rng.integers(0, length, (max(1, 4096 // size), size))


def in_threads(read: Callable[[int], Any], threads: int = 16, ahead: int = 500) -> Iterator[Any]:
    """Yield results of a function in order, computed by threads."""
    with ThreadPoolExecutor(threads) as pool:
        numbers = itertools.count()
        waiting = [pool.submit(read, number) for number in itertools.islice(numbers, ahead)]
        for number in numbers:
            waiting.append(pool.submit(read, number))
            yield waiting.pop(0).result()


def rows_of(parts: Iterable[np.ndarray], length: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield rows with segment ids and positions, of documents that fit a row each."""
    for part in parts:
        part = part[:length]
        row, ids, positions = (np.zeros(length, np.int32) for _ in range(3))
        row[: len(part)] = part
        ids[: len(part)] = 1
        positions[: len(part)] = np.arange(len(part))
        yield {"tokens": row, "ids": ids, "positions": positions}


def joined_rows(parts: Iterable[np.ndarray], length: int) -> Iterator[dict[str, np.ndarray]]:
    """Join documents and yield full rows with segment ids and positions."""
    pieces: list[np.ndarray] = []
    held = 0
    for part in parts:
        while len(part):
            piece, part = part[: length - held], part[length - held :]
            pieces.append(piece)
            held += len(piece)
            if held == length:
                sizes = [len(each) for each in pieces]
                starts = np.cumsum([0, *sizes[:-1]])
                yield {
                    "tokens": np.concatenate(pieces),
                    "ids": np.repeat(np.arange(1, len(sizes) + 1, dtype=np.int32), sizes),
                    "positions": np.arange(length, dtype=np.int32)
                    - np.repeat(starts.astype(np.int32), sizes),
                }
                pieces, held = [], 0
