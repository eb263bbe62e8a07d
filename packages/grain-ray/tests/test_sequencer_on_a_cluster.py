"""The sequencer on a Ray cluster: processor time of several hosts, and a sequencer that is killed."""

from __future__ import annotations

import os
import pickle
import signal
from typing import Any

import numpy as np
import pytest

import grain
import grain_ray
from grain.experimental import ElasticIterator, FirstFitPackIterDataset
from grain.sharding import ShardOptions

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("GRAIN_RAY") is None, reason="takes minutes; `nox -s ray` runs it"
    ),
    pytest.mark.timeout(300),
]

SIZE = 8
HOSTS = 4


def tokenize(index: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(index)
    return {"tokens": rng.integers(0, 1000, rng.integers(1, 40), dtype=np.int32)}


def packed(count: int) -> grain.IterDataset:
    ds = grain.MapDataset.range(count).shuffle(1).map(tokenize).to_iter_dataset()
    return FirstFitPackIterDataset(ds, length_struct={"tokens": 64}, num_packing_bins=8)


def expected(count: int, host: int) -> list[Any]:
    alone = ElasticIterator(packed(count), SIZE, ShardOptions(host, HOSTS))
    return [(pickle.dumps(batch), alone.get_state()) for batch in alone]


def open_hosts(cluster: Any, count: int) -> list[Any]:
    return [
        grain_ray.SequencedIterator(
            packed(count), SIZE, ShardOptions(host, HOSTS), address=cluster.address
        )
        for host in range(HOSTS)
    ]


def test_a_sequencer_killed_at_every_tenth_step_changes_nothing_on_any_host(cluster):
    count = 1200
    streams = [expected(count, host) for host in range(HOSTS)]
    hosts = open_hosts(cluster, count)
    kills = 0
    for step, _ in enumerate(streams[0]):
        if step % 10 == 5:
            os.kill(hosts[0].client.sequencer_pid(), signal.SIGKILL)
            kills += 1
        for host, stream in zip(hosts, streams, strict=True):
            batch = next(host)
            assert (pickle.dumps(batch), host.get_state()) == stream[step], (step, str(host))
    assert [next(host, None) for host in hosts] == [None] * HOSTS
    for host in hosts:
        host.close()
    print(f"{kills} kills of the sequencer in {len(streams[0])} steps: {HOSTS} streams are exact")
    assert kills >= 3


def test_a_state_saved_with_the_sequencer_restores_without_ray_and_back(cluster):
    streams = [expected(300, host) for host in range(HOSTS)]
    hosts = open_hosts(cluster, 300)
    for _ in range(5):
        states = [(next(host), host.get_state())[1] for host in hosts]
    merged = ElasticIterator.merge_states(states)
    for host in hosts:
        host.close()
    alone = ElasticIterator(packed(300), SIZE, ShardOptions(0, 2))
    alone.set_state(merged)
    next(alone)
    back = open_hosts(cluster, 300)
    for host in back:
        host.set_state(alone.get_state())
    for host, stream in zip(back, streams, strict=True):
        assert pickle.dumps(next(host)) == stream[6][0]
    for host in back:
        host.close()
