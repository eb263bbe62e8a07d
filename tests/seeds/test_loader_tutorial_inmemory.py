"""The DataLoader tutorial's cells on the in-memory data source."""

# ruff: noqa: B007  (the snippets stand here as they stand in the document)

from __future__ import annotations

import re

import pytest

import grain.python as grain

pytest.importorskip("grain_inmemory")


@pytest.mark.parametrize("workers", [0, 5])
def test_a_loader_reads_an_in_memory_source(
    workers: int, capsys: pytest.CaptureFixture[str]
) -> None:
    in_memory_datasource = grain.InMemoryDataSource(range(5))

    print(in_memory_datasource)
    print(f"First Record Read: {in_memory_datasource[0]}")

    described, first = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"InMemoryDataSource\(name=\S+, len=5\)", described)
    assert first == "First Record Read: 0"

    data_loader = grain.DataLoader(
        data_source=in_memory_datasource,
        sampler=grain.IndexSampler(
            num_records=len(in_memory_datasource),
            num_epochs=2,
            shard_options=grain.NoSharding(),
            shuffle=True,
            seed=0,
        ),
        worker_count=workers,
    )

    data_iter = iter(data_loader)

    for i in range(len(in_memory_datasource) * 2):
        x = next(data_iter)
        print(x)

    assert capsys.readouterr().out.split() == list("0412312304")
    in_memory_datasource.close()
    in_memory_datasource.unlink()
