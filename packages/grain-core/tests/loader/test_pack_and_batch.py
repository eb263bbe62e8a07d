"""Packed batches of a DataLoader."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import grain
from grain.experimental import (
    PackAndBatchOperation,
)


def test_packed_batches_of_a_loader() -> None:
    records = [{"x": np.arange(1, n + 1)} for n in (1, 2, 3, 2, 2, 1)]
    loader = grain.DataLoader(
        data_source=records,
        sampler=grain.samplers.SequentialSampler(len(records), grain.sharding.NoSharding()),
        operations=[PackAndBatchOperation(length_struct={"x": 4}, batch_size=2)],
    )
    batches = list(loader)
    values, ids, positions = batches[0]
    assert values["x"].tolist() == [[1, 1, 2, 0], [1, 2, 3, 0]]
    assert ids["x"].tolist() == [[1, 2, 2, 0], [1, 1, 1, 0]]
    assert positions["x"].tolist() == [[0, 0, 1, 0], [0, 1, 2, 0]]
    assert batches[1][0]["x"].tolist() == [[1, 2, 1, 2], [1, 0, 0, 0]]
    iterator = iter(loader)
    next(iterator)
    restored = iter(loader)
    restored.set_state(iterator.get_state())
    assert [b[0]["x"].tolist() for b in restored] == [batches[1][0]["x"].tolist()]


def test_packed_batches_take_any_tree_and_respect_limits() -> None:
    record = grain.python.Record
    metadata = grain.python.RecordMetadata
    records = [record(metadata(index=n, record_key=n), (np.full(n, n),)) for n in (1, 2, 1)]
    operation = PackAndBatchOperation(length_struct=(5,), batch_size=1, max_sequences_per_bin=2)
    made = list(operation(iter(records)))
    assert [r.data[0][0].tolist() for r in made] == [[[1, 2, 2, 0, 0]], [[1, 0, 0, 0, 0]]]
    assert [r.metadata.index for r in made] == [2, 1]
    assert list(operation(iter([]))) == []
    (alone,) = PackAndBatchOperation(length_struct=(2,), batch_size=2)(iter(records[:1]))
    assert [tree[0].tolist() for tree in alone.data] == [
        [[1, 0], [0, 0]],
        [[1, 0], [0, 0]],
        [[0, 0], [0, 0]],
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [({"x": np.arange(5)}, "truncated"), ({"y": np.arange(2)}, "structure")],
)
def test_records_that_cannot_be_packed_are_errors(data: Any, message: str) -> None:
    record = grain.python.Record(grain.python.RecordMetadata(index=0, record_key=0), data)
    with pytest.raises(ValueError, match=message):
        list(PackAndBatchOperation(length_struct={"x": 4}, batch_size=1)(iter([record])))


@pytest.mark.parametrize(
    "wrong", [{"batch_size": 0}, {"max_sequences_per_bin": 0}, {"length_struct": {"x": -1}}]
)
def test_wrong_options_of_the_loader_operation_are_refused_when_built(wrong: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PackAndBatchOperation(**({"length_struct": {"x": 4}, "batch_size": 2} | wrong))


def test_the_operation_is_a_generic_class_and_keeps_nothing_between_iterations() -> None:
    assert PackAndBatchOperation[int].__origin__ is PackAndBatchOperation
    operation = PackAndBatchOperation(length_struct={"x": 4}, batch_size=2)
    record, metadata = grain.python.Record, grain.python.RecordMetadata
    records = [record(metadata(n, record_key=n), {"x": np.full(3, n)}) for n in range(3)]
    runs = [[r.data[0]["x"].tolist() for r in operation(iter(records))] for _ in range(2)]
    assert runs[0] == runs[1] == [[[0, 0, 0, 0], [1, 1, 1, 0]], [[2, 2, 2, 0], [0, 0, 0, 0]]]
