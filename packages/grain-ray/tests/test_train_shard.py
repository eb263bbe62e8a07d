"""`ShardByRayTrain`: the shard of a worker of Ray Train, and errors elsewhere. Ray is a stand-in here."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

import grain
import grain_ray


class Context:
    def __init__(self, rank: int | None, size: int | None):
        self._rank, self._size = rank, size

    def get_world_rank(self) -> int | None:
        return self._rank

    def get_world_size(self) -> int | None:
        return self._size


def install_ray_train(monkeypatch: pytest.MonkeyPatch, get_context: Any) -> None:
    train = types.ModuleType("ray.train")
    train.get_context = get_context  # type: ignore[attr-defined]
    ray = types.ModuleType("ray")
    ray.train = train  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.train", train)


def test_a_worker_reads_the_shard_of_its_rank(monkeypatch):
    install_ray_train(monkeypatch, lambda: Context(1, 3))
    shard = grain_ray.ShardByRayTrain(drop_remainder=True)
    assert (shard.shard_index, shard.shard_count, shard.drop_remainder) == (1, 3, True)
    sampler = grain.samplers.IndexSampler(10, shard, shuffle=False, num_epochs=1)
    records = grain.DataLoader(data_source=list("abcdefghij"), sampler=sampler)
    assert list(records) == ["d", "e", "f"]


def test_outside_of_a_training_function_the_error_says_what_to_do(monkeypatch):
    def fail() -> Any:
        raise RuntimeError("no session")

    install_ray_train(monkeypatch, fail)
    with pytest.raises(RuntimeError, match=r"\(no session\)\. Create it inside of `train_loop"):
        grain_ray.ShardByRayTrain()


def test_a_context_without_a_rank_is_an_error(monkeypatch):
    install_ray_train(monkeypatch, lambda: Context(None, None))
    with pytest.raises(RuntimeError, match="there is no rank"):
        grain_ray.ShardByRayTrain()
