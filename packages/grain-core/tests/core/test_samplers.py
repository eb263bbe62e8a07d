"""Samplers: order, epochs, shards and metadata of records."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.samplers import IndexSampler, SequentialSampler
from grain.sharding import ShardOptions


@given(
    count=st.integers(1, 40),
    shards=st.integers(1, 5),
    epochs=st.integers(1, 3),
    shuffle=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=40)
def test_every_epoch_of_a_shard_has_each_of_its_records_once(count, shards, epochs, shuffle, seed):
    for shard in range(min(shards, count)):
        sampler = IndexSampler(
            count, ShardOptions(shard, shards), shuffle=shuffle, num_epochs=epochs, seed=seed
        )
        own = len(range(shard, count, shards))
        expected = None
        for epoch in range(epochs):
            positions = range(epoch * own, (epoch + 1) * own)
            indices = [position * shards + shard for position in positions]
            keys = [sampler[i].record_key for i in indices if i < len(sampler)]
            if len(keys) < own:
                break  # All shards end together.
            assert len(set(keys)) == own
            expected = set(keys) if expected is None else expected
            assert set(keys) == expected


def test_metadata_have_the_index_the_key_and_a_generator_of_the_record():
    sampler = IndexSampler(5, num_epochs=2, shuffle=True, seed=7)
    for index in range(10):
        metadata = sampler[index]
        assert metadata.index == index
        assert 0 <= metadata.record_key < 5
        expected = np.random.Generator(np.random.Philox(key=7 + index))
        assert metadata.rng.integers(2**60) == expected.integers(2**60)


def test_without_a_seed_there_is_no_generator():
    assert IndexSampler(3)[0].rng is None
    assert SequentialSampler(3)[0].rng is None
    assert SequentialSampler(3, seed=1)[0].rng is not None


def test_a_sampler_can_be_iterated_to_its_end():
    assert [metadata.record_key for metadata in IndexSampler(3, num_epochs=2)] == [0, 1, 2] * 2
    assert [metadata.record_key for metadata in SequentialSampler(3)] == [0, 1, 2]


def test_endless_samplers_have_the_largest_length():
    assert len(IndexSampler(3)) == sys.maxsize
    assert len(IndexSampler(3, num_epochs=sys.maxsize)) == sys.maxsize


def test_a_shard_without_records_has_none():
    sampler = IndexSampler(2, ShardOptions(2, 3), num_epochs=3)
    with pytest.raises(IndexError):
        sampler[2]


@pytest.mark.parametrize("kind", [IndexSampler, SequentialSampler])
@pytest.mark.parametrize(
    "wrong", [("a", TypeError), (1.0, TypeError), (0, ValueError), (-1, ValueError)]
)
def test_the_number_of_records_is_a_positive_integer(kind, wrong):
    value, error = wrong
    with pytest.raises(error, match=str(value)):
        kind(value)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_epochs": 0}, ValueError, "Got 0 epochs"),
        ({"num_epochs": -1}, ValueError, "Got -1 epochs"),
        ({"num_epochs": "a"}, TypeError, "num_epochs must be an integer, got 'a'"),
        ({"seed": -1}, ValueError, "Got -1"),
        ({"seed": 2**32}, ValueError, "Got 4294967296"),
        ({"seed": "a"}, TypeError, "seed must be an integer, got 'a'"),
        ({"shuffle": True}, ValueError, "Shuffling requires specifying a seed"),
        ({"shard_options": 3}, TypeError, r"grain\.sharding\.ShardOptions, got 3 of type int"),
    ],
)
def test_an_index_sampler_refuses(arguments, error, message):
    with pytest.raises(error, match=message):
        IndexSampler(3, **arguments)


def test_a_sequential_sampler_refuses():
    with pytest.raises(ValueError, match="seed must be non-negative, got -1"):
        SequentialSampler(3, seed=-1)
    with pytest.raises(TypeError, match="ShardOptions, got 3"):
        SequentialSampler(3, shard_options=3)


def test_numbers_of_numpy_make_the_same_sampler():
    theirs = IndexSampler(
        np.int64(10**9),
        ShardOptions(np.int64(1), np.int32(2)),
        shuffle=True,
        num_epochs=np.int32(5),
        seed=np.uint32(2**32 - 1),
    )
    ours = IndexSampler(10**9, ShardOptions(1, 2), shuffle=True, num_epochs=5, seed=2**32 - 1)
    assert repr(theirs) == repr(ours)
    assert len(theirs) == len(ours) == 5 * 10**9
    assert theirs[12345].record_key == ours[12345].record_key
    assert theirs[12345].rng.random() == ours[12345].rng.random()


def test_a_sampler_says_what_it_drops(caplog):
    IndexSampler(7, ShardOptions(0, 3, drop_remainder=True))
    assert "Dropping 1 examples of 7 examples (shard 3)." in caplog.messages


@pytest.mark.parametrize("shard", range(3))
def test_a_sequential_sampler_drops_what_cannot_be_divided(shard):
    sampler = SequentialSampler(7, ShardOptions(shard, 3, drop_remainder=True))
    assert [record.record_key for record in sampler] == list(range(6))
    assert len(sampler) == 6
    with pytest.raises(IndexError, match=r"Got index 6, allowed indices should be in \[0, 6\]"):
        sampler[6]
    assert len(SequentialSampler(7, ShardOptions(shard, 3))) == 7
