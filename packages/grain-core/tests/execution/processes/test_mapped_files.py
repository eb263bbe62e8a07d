"""Memory-mapped arrays reach workers as references to their files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import grain
from grain._policy import use_policy
from grain.execution.processes import array_pickling
from grain.execution.processes.job import pickle_for_workers

WORKERS = grain.MultiprocessingOptions(num_workers=2)
# More than a page, so that offsets within a page and beyond it occur.
LENGTH = 5000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.npy"
    np.save(path, np.arange(LENGTH * 3, dtype=np.int32).reshape(LENGTH, 3))
    return path


def sent(value: Any) -> tuple[Any, int]:
    """Return a value as a worker receives it, and the bytes that were sent."""
    pickled = pickle_for_workers(value, "job", None)
    size = len(pickled.stream) + sum(buffer.nbytes for buffer in pickled.buffers)
    return array_pickling.loads(pickled.stream, pickled.buffers), size


VIEWS = {
    "all": lambda array: array,
    "rows": lambda array: array[1500:1700],
    "one column": lambda array: array[:, 1],
    "every seventh row": lambda array: array[3::7],
    "backwards": lambda array: array[::-1, ::-1],
    "transposed": lambda array: array.T,
    "one number": lambda array: array[4000:4001, 2:3],
    "plain view": lambda array: np.asarray(array)[100:],
    "another type": lambda array: array.view(np.uint16),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_a_view_of_a_mapped_file_is_sent_by_path(file: Path, view: Any) -> None:
    array = view(np.load(file, mmap_mode="r"))
    received, size = sent(array)
    assert size < 1500
    assert type(received) is type(array)
    assert not received.flags.writeable
    np.testing.assert_array_equal(received, array, strict=True)


def test_workers_read_a_mapped_source(file: Path) -> None:
    array = np.load(file, mmap_mode="r")
    dataset = grain.MapDataset.source(array).seed(1).shuffle().batch(7).to_iter_dataset()
    there = list(dataset.mp_prefetch(WORKERS))
    for batch, expected in zip(there, dataset, strict=True):
        np.testing.assert_array_equal(batch, expected)


def test_writes_of_a_worker_stay_private(file: Path) -> None:
    array = np.load(file, mmap_mode="r+")
    received, size = sent(array)
    assert size < 1500
    received[0] = 7
    assert array[0].tolist() == [0, 1, 2]
    array[1] = 9
    assert sent(array)[0][1].tolist() == [9, 9, 9]


def test_private_writes_are_sent(file: Path) -> None:
    array = np.load(file, mmap_mode="c")
    array[0] = 7
    assert sent(array)[0][0].tolist() == [7, 7, 7]


def test_a_removed_file_is_sent_with_its_contents(file: Path) -> None:
    array = np.load(file, mmap_mode="r")
    file.unlink()
    np.testing.assert_array_equal(sent(array)[0], array)


def test_a_replaced_file_is_sent_with_its_former_contents(file: Path, tmp_path: Path) -> None:
    array = np.load(file, mmap_mode="r")
    other = tmp_path / "other.npy"
    np.save(other, np.zeros((LENGTH, 3), np.int32))
    os.replace(other, file)
    np.testing.assert_array_equal(sent(array)[0], array)


@pytest.mark.parametrize("change", ["removed", "resized"])
def test_a_file_that_changes_on_the_way_is_named(file: Path, change: str) -> None:
    pickled = pickle_for_workers(np.load(file, mmap_mode="r"), "job", None)
    if change == "removed":
        file.unlink()
    else:
        with file.open("ab") as end:
            end.write(b"more")
    with pytest.raises(OSError, match=r"numbers\.npy.*Keep the file in place"):
        array_pickling.loads(pickled.stream, pickled.buffers)


def test_an_empty_view_of_a_mapped_file_is_sent(file: Path) -> None:
    received, _ = sent(np.load(file, mmap_mode="r")[:0])
    assert received.shape == (0, 3)


def test_a_source_of_many_objects_warns_that_every_worker_loads_it() -> None:
    dataset = grain.MapDataset.source([str(number) for number in range(50_000)]).to_iter_dataset()
    with (
        use_policy(large_job_bytes=100_000),
        pytest.warns(RuntimeWarning, match="MB of Python objects, which every worker process"),
    ):
        assert next(iter(dataset.mp_prefetch(WORKERS))) == "0"


def test_a_large_array_does_not_warn() -> None:
    dataset = grain.MapDataset.source(np.arange(50_000)).to_iter_dataset()
    with use_policy(large_job_bytes=100_000):
        assert next(iter(dataset.mp_prefetch(WORKERS))) == 0
