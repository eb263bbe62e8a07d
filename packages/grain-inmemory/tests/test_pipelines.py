"""Pipelines over the source have one stream and one state with every executor."""

from __future__ import annotations

import numpy as np
import pytest
from tests.source_pipelines import (
    ColumnsOverASource,
    PipelinesOverASource,
    expect_refused,
    loader,
    resumed,
    steps,
)

import grain
from grain_inmemory import InMemoryDataSource


@pytest.fixture(
    params=[
        range(12),
        [f"text {i}" for i in range(11)],
        {"id": np.arange(12), "image": np.arange(48).reshape(12, 2, 2)},
        [{"id": i, "image": np.full(2, i)} for i in range(7)],
    ],
    ids=["range", "texts", "columns", "objects"],
)
def source(request):
    with InMemoryDataSource(request.param) as source:
        yield source


class TestPipelines(PipelinesOverASource, ColumnsOverASource):
    @staticmethod
    def function(element):
        return element


def test_a_loader_over_the_same_elements_in_other_memory_resumes():
    with InMemoryDataSource(range(12)) as first, InMemoryDataSource(range(12)) as second:
        elements, states = steps(loader(first, 0))
        assert resumed(loader(second, 0), states[2]) == elements[2:]
    with InMemoryDataSource(range(1, 13)) as other:
        expect_refused(states[2], other)


def test_grain_exports_the_source():
    assert grain.InMemoryDataSource is InMemoryDataSource
    assert grain.sources.SharedMemoryDataSource is InMemoryDataSource
    assert grain.sources.InMemoryDataSource is InMemoryDataSource
