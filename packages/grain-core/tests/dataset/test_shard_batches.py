"""All shards have equally many batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import (
    Remainder,
    ShardBatchesMapDataset,
)

from ..helpers.pipelines import INLINE

Shard = grain.sharding.ShardOptions


def shards_of(length: int, count: int, size: int, remainder: Any) -> list[list[dict[str, Any]]]:
    ds = grain.MapDataset.range(1, length + 1).map(lambda x: {"x": x})
    return [
        list(ds.shard_batches(Shard(index, count), size, remainder=remainder))
        for index in range(count)
    ]


@pytest.mark.parametrize("remainder", [*Remainder, "wrap"])
@settings(deadline=None, max_examples=40)
@given(length=st.integers(1, 40), count=st.integers(1, 5), size=st.integers(1, 5))
def test_all_shards_have_equally_many_batches(
    remainder: Any, length: int, count: int, size: int
) -> None:
    shards = shards_of(length, count, size, remainder)
    steps = {len(shard) for shard in shards}
    whole, rest = divmod(length, count * size)
    policy = Remainder(remainder)
    assert steps == {whole + (1 if rest and policy is not Remainder.DROP else 0)}
    rows = [batch["x"] for shard in shards for batch in shard]
    if policy is not Remainder.KEEP:
        assert all(len(x) == size for x in rows)
    found = sorted(int(v) for x in rows for v in x)
    every = list(range(1, length + 1))
    match policy:
        case Remainder.DROP:
            assert found == every[: whole * count * size]
        case Remainder.KEEP:
            assert found == every
        case Remainder.WRAP:
            missing = -length % (count * size)
            assert found == sorted(every + [every[i % length] for i in range(missing)])
        case Remainder.PAD:
            real = [v for s in shards for b in s for v in b["x"][b["mask"]].tolist()]
            assert sorted(real) == every
            assert all((b["x"][~b["mask"]] == 0).all() for s in shards for b in s)


def test_batches_of_shards_follow_epochs_and_resume(resumes: Callable[..., Any]) -> None:
    ds = grain.MapDataset.range(10).shuffle(1)
    shard = ShardBatchesMapDataset(ds, Shard(1, 2), 3, remainder=Remainder.WRAP)
    assert len(shard) == 2
    rest = [shard[i].tolist() for i in range(2, 4)]
    assert rest[0] == [ds[10 + i] for i in (1, 3, 5)]
    assert rest[1] == [ds[10 + i] for i in (7, 9, 1)]
    resumes(lambda: shard.repeat(2).to_iter_dataset(INLINE))


def test_an_empty_batch_looks_like_the_others() -> None:
    ds = grain.MapDataset.source(np.ones((3, 2), np.float32))
    batches = list(ds.shard_batches(Shard(1, 2), 1, remainder="keep"))
    assert [batch.shape for batch in batches] == [(1, 2), (0, 2)]
    assert batches[1].dtype == np.float32


def test_an_element_that_fails_fails_its_batch_alone() -> None:
    def fail(x: int) -> int:
        if x == 4:
            raise ValueError("bad element")
        return x

    ds = grain.MapDataset.range(6).map(fail).shard_batches(Shard(0, 1), 2)
    iterator = iter(ds.to_iter_dataset(INLINE))
    assert [next(iterator).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="bad element"):
        next(iterator)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: grain.MapDataset.range(5).shard_batches(Shard(0, 1), 2, remainder="no"),
            ValueError,
            "no",
        ),
        (lambda: grain.MapDataset.range(5).shard_batches(Shard(0, 1), 0), ValueError, "batch_size"),
        (lambda: grain.MapDataset.range(5).shard_batches(2, 2), TypeError, "shard_options"),
        (
            lambda: grain.MapDataset.range(5).filter(lambda x: True).shard_batches(Shard(0, 1), 2),
            ValueError,
            "filter",
        ),
        (
            lambda: grain.MapDataset.range(3).shard_batches(Shard(0, 1), 2, remainder="pad")[0],
            TypeError,
            "mask",
        ),
        (
            lambda: grain.MapDataset.source([{"mask": 1}]).shard_batches(
                Shard(0, 1), 2, remainder="pad"
            )[0],
            ValueError,
            "mask_name",
        ),
    ],
)
def test_wrong_use_of_shard_batches_is_an_error(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()
