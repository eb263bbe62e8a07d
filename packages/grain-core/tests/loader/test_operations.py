"""Operations on records, as they were written before there were transformations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import grain
from grain.python import BatchOperation, FilterOperation, MapOperation, RandomMapOperation

from ..helpers.pipelines import INLINE


def records(*data: Any, seed: int | None = 1) -> list[grain.Record]:
    sampler = grain.samplers.SequentialSampler(len(data), seed=seed)
    return [grain.Record(sampler[index], element) for index, element in enumerate(data)]


def data_of(made: Any) -> list[Any]:
    return [record.data for record in made]


def without_keys(given):
    return [record.metadata.remove_record_key() for record in given]


def test_a_map_keeps_the_metadata_but_for_the_key():
    given = records(1, 2)
    made = list(MapOperation(lambda x: x * 10)(iter(given)))
    assert data_of(made) == [10, 20]
    assert [record.metadata for record in made] == without_keys(given)
    assert all(record.metadata.record_key is None for record in made)


def test_a_random_map_uses_the_generator_of_the_record():
    made = list(RandomMapOperation(lambda x, rng: int(rng.integers(1000)))(iter(records(1, 2))))
    expected = [record.metadata.rng for record in records(1, 2)]
    assert data_of(made) == [int(rng.integers(1000)) for rng in expected]


def test_a_random_map_without_generators_says_so():
    with pytest.raises(ValueError, match="The sampler has no generator"):
        list(RandomMapOperation(lambda x, rng: x)(iter(records(1, seed=None))))


def test_a_filter_keeps_records_but_for_their_keys():
    given = records(1, 2, 3)
    made = list(FilterOperation(lambda x: x != 2)(iter(given)))
    assert data_of(made) == [1, 3]
    assert [record.metadata for record in made] == without_keys([given[0], given[2]])


@pytest.mark.parametrize(("drop", "sizes"), [(False, [2, 2, 1]), (True, [2, 2])])
def test_a_batch_has_the_metadata_of_its_last_record_without_a_key(drop, sizes):
    made = list(BatchOperation(2, drop_remainder=drop)(iter(records(1, 2, 3, 4, 5))))
    assert [len(record.data) for record in made] == sizes
    assert [record.metadata.index for record in made] == [1, 3, 4][: len(sizes)]
    assert all(record.metadata.record_key is None for record in made)


def test_a_batch_of_nothing_is_nothing():
    assert list(BatchOperation(2)(iter([]))) == []


def test_a_batch_may_be_made_by_a_function():
    assert data_of(BatchOperation(2, batch_fn=tuple)(iter(records(1, 2)))) == [(1, 2)]


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (-1, ValueError), ("a", TypeError)])
def test_a_batch_size_is_a_positive_integer(size, error):
    with pytest.raises(error, match="batch_size must be"):
        BatchOperation(size)


OPERATIONS = [
    (MapOperation(lambda x: x + 1),),
    (RandomMapOperation(lambda x, rng: x + int(rng.integers(100))),),
    (FilterOperation(lambda x: x % 3 == 0),),
    (BatchOperation(3, batch_fn=list),),
    (FilterOperation(lambda x: x % 3 > 0), BatchOperation(4, drop_remainder=True, batch_fn=list)),
    (MapOperation(lambda x: x + 1), grain.transforms.Batch(3, batch_fn=list)),
]


@pytest.mark.parametrize("operations", OPERATIONS, ids=lambda ops: type(ops[0]).__name__)
def test_a_loader_with_operations_resumes_after_every_element(operations):
    sampler = grain.samplers.IndexSampler(20, num_epochs=2, shuffle=True, seed=3)

    def make() -> grain.DataLoader:
        return grain.DataLoader(
            data_source=range(20), sampler=sampler, operations=operations, read_options=INLINE
        )

    elements = list(make())
    iterator = iter(make())
    for taken in range(len(elements) + 1):
        fresh = iter(make())
        fresh.set_state(iterator.get_state())
        assert list(fresh) == elements[taken:]
        next(iterator, None)


def test_operations_and_transformations_give_the_same_elements():
    class PlusDraw(grain.transforms.RandomMap):
        def random_map(self, element: Any, rng: np.random.Generator) -> Any:
            return element + int(rng.integers(100))

    def elements(*operations: Any) -> list[Any]:
        sampler = grain.samplers.IndexSampler(20, num_epochs=1, shuffle=True, seed=3)
        return list(
            grain.DataLoader(
                data_source=range(20), sampler=sampler, operations=operations, read_options=INLINE
            )
        )

    old = RandomMapOperation(lambda x, rng: x + int(rng.integers(100)))
    assert elements(old, BatchOperation(3, batch_fn=list)) == elements(
        PlusDraw(), grain.transforms.Batch(3, batch_fn=list)
    )
