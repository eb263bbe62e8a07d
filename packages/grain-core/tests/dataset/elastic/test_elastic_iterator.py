"""Elastic shards yield the same global batches for any number of shards."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

import grain
from grain.experimental import (
    ElasticIterator,
)

from ...helpers.pipelines import INLINE

Shard = grain.sharding.ShardOptions


def elastic(length: int, batch: int, index: int, count: int, **options: Any) -> ElasticIterator:
    return ElasticIterator(
        grain.MapDataset.range(length), batch, Shard(index, count), read_options=INLINE, **options
    )


@pytest.mark.parametrize("length", [3, 19, 20, 21, 23])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_shards_give_equally_many_batches_and_the_same_global_ones(length: int, count: int) -> None:
    shards = [[b.tolist() for b in elastic(length, 4, i, count)] for i in range(count)]
    assert {len(shard) for shard in shards} == {length // 4}
    for number, parts in enumerate(zip(*shards, strict=True)):
        assert sorted(itertools.chain(*parts)) == list(range(4 * number, 4 * number + 4))


@pytest.mark.parametrize("before", [1, 2, 4])
@pytest.mark.parametrize("after", [1, 2, 4])
def test_training_resumes_with_another_number_of_shards(before: int, after: int) -> None:
    saved = elastic(24, 4, 0, before)
    next(saved), next(saved)
    state = json.loads(json.dumps(saved.get_state()))
    assert state == {"global_next_index": 8}
    rest: list[int] = []
    for index in range(after):
        shard = elastic(24, 4, index, after)
        shard.set_state(state)
        assert shard.get_state() == state
        for batch in shard:
            rest += batch.tolist()
    assert sorted(rest) == list(range(8, 24))


def test_an_elastic_iterator_is_one_iterator_and_a_dataset() -> None:
    it = elastic(20, 4, 0, 2)
    assert next(it).tolist() == [0, 2]
    assert next(iter(it)).tolist() == [4, 6]
    mapped = iter(it.map(lambda batch: batch + 1))
    assert next(mapped).tolist() == [9, 11]
    assert it.get_state() == mapped.get_state() == {"global_next_index": 12}
    it.close()
    with pytest.raises(ValueError, match="closed"):
        next(it)


def test_elastic_shards_resume_twice(resumes: Callable[..., Any]) -> None:
    resumes(lambda: elastic(23, 6, 1, 3))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: elastic(10, 3, 0, 2), ValueError, "not divisible"),
        (lambda: elastic(10, 0, 0, 2), ValueError, "global_batch_size"),
        (lambda: ElasticIterator([1, 2, 3], 4, Shard(0, 2)), TypeError, "MapDataset"),
        (lambda: ElasticIterator(grain.MapDataset.range(5), 4, 2), TypeError, "shard_options"),
        (
            lambda: ElasticIterator(
                grain.MapDataset.range(9).shard_batches(Shard(0, 2), 2), 4, Shard(0, 2)
            ),
            ValueError,
            "share of one shard already",
        ),
    ],
)
def test_wrong_use_of_elastic_shards_is_refused_when_built(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()
