"""Unbatch, rekey, pad or trim, the split without leak, and batches that come out even for all shards."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import (
    PadOrTrim,
    Rekey,
    Remainder,
    ShapeDtypeStruct,
    ShardBatchesMapDataset,
    get_element_spec,
    train_validation_split,
)

from ...helpers.pipelines import INLINE, numbers

Shard = grain.sharding.ShardOptions


# Unbatch


def test_unbatch_undoes_batch_and_resumes(
    parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    batches = [
        {"a": np.arange(3), "b": (np.ones((3, 2)),)},
        {"a": np.arange(0), "b": (np.ones((0, 2)),)},
        {"a": np.arange(3, 5), "b": (np.zeros((2, 2)),)},
    ]
    rows = resumes(lambda: parent_of(batches).unbatch())
    assert [int(row["a"]) for row in rows] == [0, 1, 2, 3, 4]
    assert [row["b"][0][3] for row in rows] == [[1, 1]] * 3 + [[0, 0]] * 2


def test_unbatch_knows_what_rows_look_like() -> None:
    ds = grain.MapDataset.source(np.zeros((4, 3), np.int8)).batch(2).to_iter_dataset().unbatch()
    assert get_element_spec(ds) == ShapeDtypeStruct((3,), np.int8)


@pytest.mark.parametrize(
    ("element", "error"),
    [(3, TypeError), ({"a": np.arange(2), "b": np.arange(3)}, ValueError)],
)
def test_what_is_no_batch_cannot_be_unbatched(element: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="unbatch needs batches"):
        list(grain.MapDataset.source([element]).to_iter_dataset().unbatch())


# Rekey


def test_rekey_renames_in_both_kinds_of_dataset() -> None:
    ds = grain.MapDataset.source([{"a": 1, "b": 2}])
    assert ds.rekey({"a": "x"})[0] == {"x": 1, "b": 2}
    assert list(ds.to_iter_dataset().rekey({"a": "b", "b": "a"})) == [{"b": 1, "a": 2}]
    assert list(ds.to_iter_dataset().rekey({"a": "x"}, keep_others=False)) == [{"x": 1}]


def test_rekey_pickles_and_tells_its_spec() -> None:
    transform = pickle.loads(pickle.dumps(Rekey({"a": "x"})))
    assert transform == Rekey({"a": "x"})
    ds = grain.MapDataset.source([{"a": np.zeros(2)}]).map(transform)
    assert get_element_spec(ds) == {"x": ShapeDtypeStruct((2,), np.float64)}


@pytest.mark.parametrize(
    ("names", "error"), [({"a": "x", "b": "x"}, ValueError), (["a"], TypeError)]
)
def test_wrong_names_are_refused_when_built(names: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="rekey"):
        grain.MapDataset.source([{}]).rekey(names)


def test_rekey_refuses_what_it_cannot_rename() -> None:
    with pytest.raises(KeyError, match=r"\['z'\].*\['a', 'b'\]"):
        Rekey({"z": "x"}).map({"a": 1, "b": 2})
    with pytest.raises(ValueError, match="two features"):
        Rekey({"a": "b"}).map({"a": 1, "b": 2})
    with pytest.raises(TypeError, match="dictionaries"):
        Rekey({"a": "b"}).map([1])


# Pad or trim


@settings(deadline=None)
@given(length=st.integers(0, 8), target=st.integers(0, 8))
def test_arrays_come_out_at_their_length(length: int, target: int) -> None:
    made = PadOrTrim(target, pad_value=-1).map(np.arange(length))
    assert made.tolist() == (list(range(length)) + [-1] * target)[:target]
    assert made.dtype == np.arange(1).dtype


def test_features_have_lengths_and_values_of_their_own() -> None:
    ds = grain.MapDataset.source([{"a": [1, 2], "b": np.ones((3, 2), np.float32), "id": 5}])
    ds = ds.pad_or_trim({"a": 3, "b": 1}, pad_value={"a": 9})
    element = ds[0]
    assert element["a"].tolist() == [1, 2, 9]
    assert element["b"].shape == (1, 2)
    assert element["id"] == 5
    spec = get_element_spec(
        grain.MapDataset.source([{"a": np.zeros((2, 4))}]).pad_or_trim({"a": 7})
    )
    assert spec == {"a": ShapeDtypeStruct((7, 4), np.float64)}


def test_padded_elements_batch() -> None:
    ds = numbers(1, 5).map(lambda n: np.arange(n)).pad_or_trim(3).batch(4)
    assert next(iter(ds)).tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize(
    ("lengths", "pad_value", "error"),
    [
        (-1, 0, ValueError),
        ("3", 0, TypeError),
        ({"a": -1}, 0, ValueError),
        ({"a": 1}, {"b": 0}, ValueError),
        (3, {"a": 0}, TypeError),
    ],
)
def test_wrong_lengths_are_refused_when_built(
    lengths: Any, pad_value: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        numbers(3).pad_or_trim(lengths, pad_value=pad_value)


def test_pad_or_trim_refuses_what_has_no_such_feature() -> None:
    with pytest.raises(KeyError, match=r"\['a'\].*\['b'\]"):
        PadOrTrim({"a": 2}).map({"b": 1})
    with pytest.raises(TypeError, match="no dictionary"):
        PadOrTrim({"a": 2}).map([1])
    with pytest.raises(TypeError, match="at least one dimension"):
        PadOrTrim(2).map(5)


# Train and validation


@settings(deadline=None, max_examples=40)
@given(data=st.data(), length=st.integers(2, 60), seed=st.integers(0, 2**32 - 1))
def test_the_parts_share_nothing_in_any_epoch(data: Any, length: int, seed: int) -> None:
    count = data.draw(st.integers(1, length - 1))
    train, validation = train_validation_split(
        grain.MapDataset.range(length), validation=count, seed=seed
    )
    assert (len(train), len(validation)) == (length - count, count)
    for part in (train, validation):
        first = set(part)
        assert len(first) == len(part)
        assert set(part.shuffle(seed).repeat(3)) == first
        assert set(part.shuffle(3)[: len(part) // 2 + 1].repeat(4)) <= first
    assert set(train) | set(validation) == set(range(length))


def test_a_shuffled_dataset_does_not_leak_either() -> None:
    shuffled = grain.MapDataset.range(20).shuffle(7)
    train, validation = shuffled.train_validation_split(validation=0.25, seed=3)
    assert not set(train.repeat(5)) & set(validation.repeat(5))
    mixed = grain.MapDataset.mix([grain.MapDataset.range(9), grain.MapDataset.range(100, 105)])
    train, validation = mixed.train_validation_split(validation=3, seed=3)
    assert not set(train.repeat(5)) & set(validation.repeat(5))


def test_random_functions_below_a_split_draw_anew_in_every_epoch() -> None:
    ds = grain.MapDataset.range(8).random_map(lambda x, rng: (x, rng.random()), seed=1)
    train, _ = ds.train_validation_split(validation=2, seed=1)
    first, second = list(train), [train[i] for i in range(6, 12)]
    assert [x for x, _ in first] == [x for x, _ in second]
    assert [draw for _, draw in first] != [draw for _, draw in second]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: train_validation_split(numbers(5), validation=1, seed=1), TypeError, "MapDataset"),
        (
            lambda: (
                grain.MapDataset.range(5).repeat(2).train_validation_split(validation=1, seed=1)
            ),
            ValueError,
            "repeat",
        ),
        *[
            (
                lambda share=share: grain.MapDataset.range(5).train_validation_split(
                    validation=share, seed=1
                ),
                ValueError,
                "alidation",
            )
            for share in (0, 5, 0.0, 1.5, 0.01)
        ],
        (
            lambda: grain.MapDataset.range(5).train_validation_split(validation=1, seed=-1),
            ValueError,
            "seed",
        ),
    ],
)
def test_splits_that_make_no_sense_are_refused(
    make: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


# Batches of shards


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
