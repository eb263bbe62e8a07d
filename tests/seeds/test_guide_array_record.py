"""The guide's snippets that read ArrayRecord files."""

# ruff: noqa: B007, RET504  (the snippets stand here as they stand in the document)

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import grain

pytest.importorskip("grain_arrayrecord")
array_record_module = pytest.importorskip("array_record.python.array_record_module")


def decode_proto(record: bytes) -> np.ndarray:
    return np.frombuffer(record, np.int64)


parse_example = decode_proto


@dataclasses.dataclass
class DecodeAndAugment(grain.transforms.Map):
    def map(self, record: bytes):
        example = decode_proto(record)
        return example


@dataclasses.dataclass
class Decode(grain.transforms.Map):
    def map(self, record: bytes):
        return parse_example(record)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with 0..299 in one file, and in two."""
    folder = tmp_path_factory.mktemp("data")
    files = {
        "train.arrayrecord": range(300),
        "train-00000.arrayrecord": range(200),
        "train-00001.arrayrecord": range(200, 300),
    }
    for name, numbers in files.items():
        writer = array_record_module.ArrayRecordWriter(str(folder / name), "group_size:1")
        for number in numbers:
            writer.write(np.int64(number).tobytes())
        writer.close()
    return folder


def test_an_array_record_source_reads_one_file_or_several(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Single file
    source = grain.ArrayRecordDataSource(f"{data}/train.arrayrecord")
    assert len(source) == 300

    # Multiple shards
    source = grain.ArrayRecordDataSource(
        [
            f"{data}/train-00000.arrayrecord",
            f"{data}/train-00001.arrayrecord",
        ]
    )
    assert decode_proto(source[250]) == 250

    # With index stored in memory for fast random access
    source = grain.ArrayRecordDataSource(
        [f"{data}/train-*.arrayrecord"],
        reader_options={"index_storage_option": "in_memory"},
    )

    print(f"Total records: {len(source)}")
    record_bytes = source[42]  # raw bytes; decode in a Map transform

    assert capsys.readouterr().out == "Total records: 300\n"
    assert decode_proto(record_bytes) == 42


@pytest.mark.parametrize("workers", [0, 8])
def test_a_loader_reads_array_records(data: Path, workers: int) -> None:
    max_steps = 5
    steps: list[Any] = []
    train_step = steps.append

    source = grain.ArrayRecordDataSource([f"{data}/train-*.arrayrecord"])

    sampler = grain.IndexSampler(
        num_records=len(source),
        shard_options=grain.ShardByJaxProcess(),
        shuffle=True,
        num_epochs=None,  # infinite
        seed=42,
    )

    loader = grain.DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[
            DecodeAndAugment(),
            grain.transforms.Batch(batch_size=128, drop_remainder=True),
        ],
        worker_count=workers,
        worker_buffer_size=2,
    )

    iterator = iter(loader)
    state = iterator.get_state()  # bytes; save to disk for preemption recovery
    for step in range(max_steps):
        batch = next(iterator)
        train_step(batch)

    assert isinstance(state, bytes)
    keys = [int(sampler[i].record_key) for i in range(5 * 128)]
    assert np.concatenate(steps)[:, 0].tolist() == keys
    iterator.set_state(state)
    np.testing.assert_array_equal(next(iterator), steps[0])


@pytest.mark.parametrize("workers", [0, 4])
def test_load_reads_array_records(data: Path, workers: int) -> None:
    steps: list[Any] = []
    train_step = steps.append

    source = grain.ArrayRecordDataSource([f"{data}/train-*.arrayrecord"])

    loader = grain.load(
        source=source,
        num_epochs=10,
        shuffle=True,
        seed=0,
        shard_options=grain.ShardByJaxProcess(),
        transformations=[Decode()],
        batch_size=64,
        drop_remainder=True,
        worker_count=workers,
    )

    for batch in loader:
        train_step(batch)

    assert len(steps) == 3000 // 64
    assert sorted(np.concatenate(steps)[:300, 0].tolist()) == list(range(300))
