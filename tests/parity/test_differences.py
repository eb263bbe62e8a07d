"""Deliberate differences from the reference that no single recorded fact can show."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import grain

from .cases.common import AppendDraw, IsEven
from .cases.loader import load


@pytest.mark.parametrize("length", [2**16 + 1, 2**18 + 1])
def test_shuffle_of_one_more_than_a_power_of_two_is_a_permutation(length: int) -> None:
    # The reference gives one index twice and one never.
    ds = grain.MapDataset.range(length).shuffle(seed=1)
    shuffled = ds.__getitems__(np.arange(length))
    assert sorted(shuffled) == list(range(length))
    assert ds[length // 2] == shuffled[length // 2]


def _batches(workers: int) -> grain.DataLoader:
    operations = [AppendDraw(), IsEven(), grain.transforms.Batch(4)]
    return load(*operations, n=34, epochs=2, worker_count=workers)


@pytest.mark.parametrize("workers", [1, 3])
def test_number_of_workers_changes_no_batch(workers: int) -> None:
    # In the reference every worker batches its own share, and each keeps a remainder.
    expected = [batch.tolist() for batch in _batches(0)]
    assert [batch.tolist() for batch in _batches(workers)] == expected


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (2, 3)])
def test_number_of_workers_may_change_at_a_checkpoint(before: int, after: int) -> None:
    # The reference refuses a state that was taken with another number of workers.
    expected = [batch.tolist() for batch in _batches(0)]
    first = iter(_batches(before))
    for _ in range(3):
        next(first)
    state = first.get_state()
    second = iter(_batches(after))
    second.set_state(state)
    assert [batch.tolist() for batch in second] == expected[3:]


def test_every_state_survives_json() -> None:
    # The reference's packing states hold tuples, and lose their meaning as lists.
    ds = grain.IterDataset.mix(
        {
            "a": grain.MapDataset.range(9).to_iter_dataset().map(_double).batch(2),
            "b": grain.MapDataset.range(9).to_iter_dataset().random_map(_draw, seed=1).batch(2),
        }
    )
    iterator = iter(ds)
    expected = [batch.tolist() for batch in ds]
    for taken in range(len(expected) + 1):
        fresh = iter(ds)
        fresh.set_state(json.loads(json.dumps(iterator.get_state())))
        assert [batch.tolist() for batch in fresh] == expected[taken:]
        next(iterator, None)


def _double(x: int) -> int:
    return x * 2


def _draw(x: int, rng: np.random.Generator) -> int:
    return int(rng.integers(0, 100))


def test_lengths_are_known_where_they_can_be() -> None:
    # The reference has no len() beyond map datasets.
    elements = grain.MapDataset.range(10).to_iter_dataset()
    known: dict[str, tuple[Any, int]] = {
        "elements": (elements, 10),
        "map": (elements.map(_double), 10),
        "random_map": (elements.random_map(_draw, seed=1), 10),
        "batch": (elements.batch(3), 4),
        "batch, remainder dropped": (elements.batch(3, drop_remainder=True), 3),
        "loader": (load(n=10, epochs=2), 20),
        "loader, sharded": (load(n=10, shard=(0, 3, False)), 3),
        "loader, batched": (load(grain.transforms.Batch(4), n=10), 3),
    }
    for name, (ds, length) in known.items():
        assert len(ds) == length == len(list(ds)), name
    with pytest.raises(TypeError):
        len(elements.filter(lambda x: x > 3))
