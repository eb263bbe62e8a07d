"""Shard options: valid values, and the shard of a JAX process."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from grain.sharding import NoSharding, ShardByJaxProcess, ShardOptions


@pytest.mark.parametrize(
    ("index", "count", "error", "message"),
    [
        (2, 2, ValueError, "shard_count was 2 and shard_index was 2"),
        (-1, 2, ValueError, "shard_index was -1"),
        (0, 0, ValueError, "positive integer but got 0"),
        (0.5, 2, TypeError, r"shard_index must be an integer, got 0\.5 of type float"),
        (0, "2", TypeError, "shard_count must be an integer, got '2' of type str"),
        (True, 2, TypeError, "shard_index must be an integer, got True"),
        (None, 2, TypeError, "got None"),
    ],
)
def test_shard_options_refuse(index, count, error, message):
    with pytest.raises(error, match=message):
        ShardOptions(index, count)


def test_shard_options_are_values():
    assert ShardOptions(0, 2) == ShardOptions(np.int64(0), 2)
    assert len({ShardOptions(0, 2), ShardOptions(0, 2), ShardOptions(1, 2)}) == 2
    with pytest.raises(AttributeError):
        ShardOptions(0, 2).shard_index = 1
    assert (NoSharding().shard_index, NoSharding().shard_count) == (0, 1)


def test_one_process_without_jax_is_the_only_shard(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    shard = ShardByJaxProcess(drop_remainder=True)
    assert (shard.shard_index, shard.shard_count, shard.drop_remainder) == (0, 1, True)


def test_processes_of_jax_are_shards():
    jax = pytest.importorskip("jax")
    shard = ShardByJaxProcess()
    assert (shard.shard_index, shard.shard_count) == (jax.process_index(), jax.process_count())
