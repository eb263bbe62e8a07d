"""Each record of a loader has a generator of its own, whichever generator object is used for it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import grain
from grain import samplers, transforms
from grain.loader import record_random
from grain.rng import KeyedGenerator


class Draw(transforms.RandomMap):
    """Draws of several kinds, some of which leave half a word over."""

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return (*element, int(rng.integers(100, dtype=np.uint32)), float(rng.random()))


class Start(transforms.Map):
    def map(self, element: Any) -> Any:
        return (element,)


class Odd(transforms.Filter):
    def filter(self, element: Any) -> bool:
        return bool(element[0] % 2)


class Twice(transforms.FlatMap):
    max_fan_out = 2

    def flat_map(self, element: Any) -> list[Any]:
        return [element, (*element, "again")]


class DrawOfBatch(transforms.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return element, float(rng.random())


def draws(element: tuple[Any, ...], rng: np.random.Generator) -> tuple[Any, ...]:
    return (*element, int(rng.integers(100, dtype=np.uint32)), float(rng.random()))


def expected_stream(seed: int, count: int) -> list[Any]:
    """The stream of all operations, by generators made one by one."""
    split: list[tuple[Any, np.random.Generator]] = []
    for index in range(count):
        rng = np.random.Generator(np.random.Philox(key=seed + index))
        if index % 2:
            element = draws(draws((index,), rng), rng)
            split += [(element, rng), ((*element, "again"), rng)]
    split = [(draws(element, rng), rng) for element, rng in split]
    made = []
    for first in range(0, len(split), 3):
        batch = split[first : first + 3]
        made.append(([element for element, _ in batch], float(batch[-1][1].random())))
    return made


OPERATIONS = [
    Start(),
    Odd(),
    Draw(),
    Draw(),
    Twice(),
    Draw(),
    transforms.Batch(3, batch_fn=list),
    DrawOfBatch(),
]


def loader(sampler: Any, operations: list[Any], workers: int = 0) -> grain.DataLoader:
    return grain.DataLoader(
        data_source=range(20), sampler=sampler, operations=operations, worker_count=workers
    )


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "sampler",
    [samplers.IndexSampler(20, num_epochs=1, seed=5), samplers.SequentialSampler(20, seed=5)],
    ids=["index", "sequential"],
)
def test_every_draw_is_that_of_the_records_own_generator(sampler: Any, workers: int) -> None:
    assert list(loader(sampler, OPERATIONS, workers)) == expected_stream(5, 20)


def test_draws_are_the_same_where_numpy_has_another_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyedGenerator, "is_supported", lambda: False)
    monkeypatch.setattr(record_random, "_free", [])
    sampler = samplers.IndexSampler(20, num_epochs=1, seed=5)
    assert list(loader(sampler, OPERATIONS)) == expected_stream(5, 20)


def test_a_generator_that_is_kept_stays_with_its_record() -> None:
    class Keep(transforms.RandomMap):
        def random_map(self, element: Any, rng: np.random.Generator) -> Any:
            return rng if element % 2 else rng.bit_generator

    sampler = samplers.IndexSampler(6, num_epochs=1, seed=3)
    kept = list(loader(sampler, [Keep()]))
    assert len(set(map(id, kept))) == 6
    for index, rng in enumerate(kept):
        own = rng if index % 2 else np.random.Generator(rng)
        assert own.random() == np.random.Generator(np.random.Philox(key=3 + index)).random()


def test_a_failed_draw_leaves_a_usable_generator() -> None:
    class Fail(transforms.RandomMap):
        def random_map(self, element: Any, rng: np.random.Generator) -> Any:
            value = rng.random()
            if element == 1:
                raise ValueError("no")
            return value

    iterator = iter(loader(samplers.IndexSampler(3, num_epochs=1, seed=3), [Fail()]))
    assert next(iterator) == np.random.Generator(np.random.Philox(key=3)).random()
    with pytest.raises(ValueError, match="no"):
        next(iterator)
    assert next(iterator) == np.random.Generator(np.random.Philox(key=5)).random()


def test_metadata_travel_with_their_position() -> None:
    metadata = record_random.SampledMetadata(7)
    draw = np.random.Generator(np.random.Philox(key=7))
    for _ in range(3):
        assert metadata.draw(lambda _, rng: rng.random(), None) == draw.random()
        metadata = pickle.loads(pickle.dumps(metadata))


def test_a_sampler_without_seed_is_refused_by_random_maps() -> None:
    with pytest.raises(ValueError, match="Give the sampler a seed"):
        list(loader(samplers.SequentialSampler(3), [Draw()]))
