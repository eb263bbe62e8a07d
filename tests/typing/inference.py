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
