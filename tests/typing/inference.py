"""Types that a checker infers from pipelines; read by `test_inference.py`, never run."""

from typing import Any, assert_type

import numpy as np

import grain


def length(text: str) -> int:
    return len(text)


def positive(number: int) -> bool:
    return number > 0


def noisy(number: int, rng: np.random.Generator) -> float:
    return number + rng.random()


def numbered(index: int, number: int) -> tuple[int, int]:
    return index, number


texts = grain.MapDataset.source(["a", "bc"])
assert_type(texts, grain.MapDataset[str])
assert_type(texts[0], str | None)
assert_type(texts[:1], grain.MapDataset[str])
numbers = texts.map(length)
assert_type(numbers, grain.MapDataset[int])
assert_type(numbers.shuffle(seed=1).repeat(2), grain.MapDataset[int])
assert_type(numbers.filter(positive), grain.MapDataset[int])
assert_type(numbers.random_map(noisy, seed=1), grain.MapDataset[float])
assert_type(numbers.map_with_index(numbered), grain.MapDataset[tuple[int, int]])
batches = numbers.batch(2)
assert_type(batches, grain.MapDataset[Any])
assert_type(numbers.batch(2, batch_fn=sum), grain.MapDataset[int])
assert_type(grain.MapDataset.range(3), grain.MapDataset[int])
rows = grain.MapDataset.source(np.zeros((3, 2)))
stream = numbers.to_iter_dataset()
assert_type(stream, grain.IterDataset[int])
assert_type(stream.map(str), grain.IterDataset[str])
assert_type(stream.batch(2), grain.IterDataset[Any])
assert_type(next(iter(stream)), int)
for number in stream:
    assert_type(number, int)
source = grain.sources.RangeDataSource(0, 3, 1)
assert_type(grain.MapDataset.source(source), grain.MapDataset[int])


class Shout(grain.transforms.Map):
    def map(self, text: str) -> bytes:
        return text.upper().encode()


class Number(grain.transforms.MapWithIndex):
    def map_with_index(self, index: int, text: str) -> tuple[int, str]:
        return index, text


class Blur(grain.transforms.RandomMap):
    def random_map(self, number: int, rng: np.random.Generator) -> float:
        return number + rng.random()


class Untyped(grain.transforms.Map):
    def map(self, element):  # type: ignore[no-untyped-def]
        return element


class Split(grain.transforms.FlatMap):
    max_fan_out = 2

    def flat_map(self, element: str) -> list[str]:
        return element.split()


assert_type(texts.map(Shout()), grain.MapDataset[bytes])
assert_type(texts.map_with_index(Number()), grain.MapDataset[tuple[int, str]])
assert_type(numbers.random_map(Blur(), seed=1), grain.MapDataset[float])
assert_type(texts.map(Untyped()), grain.MapDataset[Any])
assert_type(stream.random_map(Blur(), seed=1), grain.IterDataset[float])
assert_type(texts.to_iter_dataset().map(Shout()), grain.IterDataset[bytes])
rebatched = grain.experimental.RebatchIterDataset(stream, 2)
assert_type(next(iter(rebatched)), int)
pieces = grain.experimental.FlatMapIterDataset(texts.to_iter_dataset(), Split())
for piece in pieces:
    assert_type(piece, Any)
