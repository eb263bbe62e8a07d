"""Data in memory exists once, however many workers read it."""

from __future__ import annotations

import os

import numpy as np

import grain

from ..helpers.pipelines import with_workers
from ..helpers.processes import descendants
from .pipelines import heavy

MEGABYTES = 200


def proportional(pids: list[int]) -> int:
    """The memory of processes in bytes, what they share counted once."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            total += next(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    return total


def growth(dataset: grain.IterDataset, elements: int) -> int:
    """How much more memory there is in use when workers have read a dataset."""
    before = proportional([os.getpid()])
    with iter(with_workers(dataset, 2)) as iterator:
        for _ in range(elements):
            next(iterator)
        return proportional([os.getpid(), *descendants(os.getpid())]) - before


def test_an_array_in_memory_is_not_copied_for_each_worker() -> None:
    rows = 4 * MEGABYTES
    small = np.zeros((rows, 4), np.uint8)
    large = np.zeros((rows, 1 << 18), np.uint8)
    large[:] = np.arange(rows, dtype=np.uint8)[:, None]

    def pipeline(array: np.ndarray) -> grain.IterDataset:
        return grain.MapDataset.source(array).map(_sum).to_iter_dataset().batch(10)

    # Each page is read by one worker or the other.
    least = growth(pipeline(small), rows // 10)
    found = growth(pipeline(large), rows // 10) - least
    # The workers' copy, for all of them together.
    assert found < 1.2 * large.nbytes


def _sum(row: np.ndarray) -> int:
    return int(row.sum())


def test_parts_of_an_array_that_are_read_by_turns_are_not_copied_for_each_turn() -> None:
    large = np.ones((MEGABYTES, 1 << 20), np.uint8)
    parts = [grain.MapDataset.source(large)[i::50].map(_sum) for i in range(50)]
    turns = grain.experimental.InterleaveIterDataset(parts, cycle_length=2)
    assert growth(turns, MEGABYTES) < 1.5 * large.nbytes


def test_what_a_function_is_applied_to_is_not_sent_along_with_it() -> None:
    large = np.ones((MEGABYTES, 1 << 20), np.uint8)

    class Rows(grain.IterDataset):
        def __init__(self) -> None:
            super().__init__()
            self.rows = large

        def __iter__(self) -> grain.DatasetIterator:
            return iter(grain.MapDataset.range(20).to_iter_dataset())

    ds = grain.IterDataset.mix([Rows(), grain.MapDataset.range(20).to_iter_dataset()]).map(heavy)
    assert growth(ds, 30) < 0.5 * large.nbytes
