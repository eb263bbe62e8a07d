"""Sequenced iterators are elastic iterators: same batches, same states, through any loss."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import pickle
import signal
from typing import Any

import numpy as np
import pytest

import grain
import grain_ray
from grain.execution.processes import array_pickling
from grain.experimental import ElasticIterator
from grain.sharding import ShardOptions
from grain_ray.cluster import ClusterUnavailableError
from grain_ray.payload import pack
from grain_ray.ray_pool import ClusterLostError

from .ray_clusters.sequencer_sites import SequencerInFolder

SIZE = 4


def fail_at_thirteen(x: Any) -> Any:
    if x == 13:
        raise ValueError("thirteen")
    return x


def odd(x: Any) -> bool:
    return bool(x % 2)


def stream() -> grain.IterDataset:
    return grain.MapDataset.range(90).to_iter_dataset().map(fail_at_thirteen).filter(odd)


class InFolder(grain_ray.SequencedIterator):
    """Joins a cluster in a folder."""

    def __init__(self, *arguments: Any, folder: pathlib.Path, fatal: tuple = (), **options: Any):
        super().__init__(*arguments, address="nowhere", **options)
        self._folder, self._fatal = str(folder), fatal

    def site(self) -> Any:
        elastic = pack(array_pickling.dumps_by_value(self.elastic))
        return SequencerInFolder(self._folder, elastic, self._fatal)


@pytest.fixture
def up(tmp_path) -> pathlib.Path:
    file = tmp_path / "up"
    file.touch()
    return file


def sequenced(up: pathlib.Path, host: int = 0, hosts: int = 2, **options: Any) -> InFolder:
    return InFolder(stream(), SIZE, ShardOptions(host, hosts), folder=up.parent, **options)


def elastic(host: int = 0, hosts: int = 2) -> ElasticIterator:
    return ElasticIterator(stream(), SIZE, ShardOptions(host, hosts))


def walk(iterator: Any, count: int = 1000) -> list[Any]:
    seen = []
    for _ in range(count):
        try:
            batch = next(iterator)
        except StopIteration:
            break
        except ValueError as error:
            seen.append((repr(error), iterator.get_state()))
        else:
            seen.append((batch.tolist(), json.loads(json.dumps(iterator.get_state()))))
    return seen


def test_batches_errors_and_states_are_those_of_an_elastic_iterator(up):
    with iter(sequenced(up, 1)) as iterator:
        assert iterator.get_state() == elastic(1).get_state()
        assert walk(iterator) == walk(elastic(1))
        assert next(iterator, None) is None


def test_a_state_restores_with_and_without_the_sequencer_and_on_other_hosts(up):
    expected = walk(elastic(0, 1))
    state = walk(elastic(0, 2), 6)[-1][1]
    for host, hosts in ((1, 2), (3, 4)):
        iterator = sequenced(up, host, hosts)
        iterator.set_state(state)
        following = next(iterator)
        saved = iterator.get_state()
        iterator.close()
        alone = elastic(host, hosts)
        alone.set_state(state)
        np.testing.assert_array_equal(following, next(alone))
        assert alone.get_state() == saved
        alone.set_state(saved)
        again = sequenced(up, host, hosts)
        again.set_state(saved)
        assert walk(again) == walk(alone)
        again.close()
    assert expected[-1][1]["global_next_index"] == 44


def test_a_sequencer_lost_at_any_step_changes_nothing(up):
    with iter(sequenced(up, fatal=(1, 2, 5, 9))) as iterator:
        assert walk(iterator) == walk(elastic())
    assert len(list(up.parent.glob("sequencer-*"))) > 1


def test_a_lost_gateway_changes_nothing(up):
    iterator = sequenced(up)
    seen = walk(iterator, 3)
    assert iterator.client is not None
    os.kill(iterator.client.gateway_pid, signal.SIGKILL)
    seen += walk(iterator)
    assert seen == walk(elastic())
    assert iterator.client.losses == 1
    iterator.close()


def test_this_host_can_compute_alone_when_the_cluster_is_gone(up):
    iterator = sequenced(up, fallback="local")
    seen = walk(iterator, 3)
    up.unlink()
    assert iterator.client is not None
    os.kill(iterator.client.gateway_pid, signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match="computes the whole stream from now on"):
        seen += walk(iterator)
    assert seen == walk(elastic())
    iterator.set_state(seen[4][1])
    assert walk(iterator) == seen[5:]
    iterator.close()


def test_a_cluster_that_is_not_there_or_does_not_return_is_an_error(up):
    iterator = sequenced(up, reconnect_seconds=0.1)
    next(iterator)
    up.unlink()
    assert iterator.client is not None
    os.kill(iterator.client.gateway_pid, signal.SIGKILL)
    with pytest.raises(ClusterLostError, match=r"did not return within 0\.1 seconds"):
        walk(iterator)
    iterator.close()
    never = sequenced(up)
    with pytest.raises(ClusterUnavailableError, match="no cluster in"):
        next(never)
    never.close()


def test_saving_acknowledges_and_restores_as_an_elastic_iterator(up, tmp_path):
    iterator = sequenced(up, 0, 1)
    walk(iterator, 4)

    async def save() -> None:
        await (await iterator.save(tmp_path))

    asyncio.run(save())
    rest = walk(iterator)
    iterator.close()
    alone = elastic(0, 1)
    alone.set_state(ElasticIterator.read_state(tmp_path))
    assert walk(alone) == rest


def test_a_dataset_read_by_index_needs_no_sequencer(up):
    up.unlink()
    ds = grain.MapDataset.range(20)
    iterator = InFolder(ds, SIZE, ShardOptions(0, 2), folder=up.parent)
    assert next(iterator).tolist() == [0, 2]
    assert iterator.client is None
    iterator.acknowledge(iterator.get_state())
    assert pickle.loads(pickle.dumps(iterator)).global_batch_size == SIZE


def test_a_state_of_another_kind_and_wrong_arguments_are_refused(up):
    iterator = sequenced(up)
    with pytest.raises(ValueError, match="belongs to a dataset without a filter"):
        iterator.set_state({"global_next_index": 4})
    iterator.close()
    with pytest.raises(ValueError, match="fallback must be None or 'local', got 'processes'"):
        sequenced(up, fallback="processes")
    with pytest.raises(ValueError, match="address must be that of a Ray cluster"):
        grain_ray.SequencedIterator(stream(), SIZE, ShardOptions(0, 1), address="ray://x:1")
