"""Reading one block in several threads, inside a worker, where reading waits for I/O."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import grain
from grain.dataset.chunk import PartialRead
from grain.execution.split_reader import SplitReader

from .gated_source import PATIENCE

pytestmark = pytest.mark.usefixtures("reading_threads")

OPTIONS = grain.ReadOptions(num_threads=3, prefetch_buffer_size=8)


def reader_of(source: Any, clock: Any, options: grain.ReadOptions = OPTIONS) -> SplitReader:
    return SplitReader(grain.MapDataset.source(source), options, count_pauses=lambda: clock.pauses)


def read(reader: SplitReader, begin: int) -> list[int]:
    found = reader.read(np.arange(begin, begin + 9))
    assert list(found) == list(range(begin, begin + 9))
    return found


def test_blocks_are_split_over_all_threads_once_reads_were_seen_to_wait(clock, gated):
    """After the first block, no read passes before all three readers are inside."""
    source = gated(
        100,
        is_open=lambda source, index: index < 10 or source.most_inside >= 3,
        on_read=lambda index: clock.wait(0.003),
    )
    reader = reader_of(source, clock)
    for begin in (0, 10, 20):
        read(reader, begin)
    assert source.most_inside == 3
    assert source.by_thread == {threading.current_thread().name: 9, "grain-read": 18}


def test_three_slow_elements_in_a_row_are_the_evidence(clock, gated):
    source = gated(100, on_read=lambda index: clock.wait(0.003))
    reader = reader_of(source, clock)
    for index in range(3):
        reader.read(np.arange(index, index + 1))
    assert source.threads == {threading.current_thread().name}
    read(reader, 3)
    assert source.by_thread == {threading.current_thread().name: 3, "grain-read": 9}


def test_a_quick_block_in_between_takes_the_evidence_back(clock, gated, reading_threads):
    source = gated(100, on_read=lambda index: clock.wait(1e-6 if index == 2 else 0.003))
    reader = reader_of(source, clock)
    for index in range(5):
        reader.read(np.arange(index, index + 1))
    read(reader, 5)
    assert reading_threads() == []


def test_elements_that_need_the_processor_are_read_in_the_workers_thread(
    clock, gated, reading_threads
):
    source = gated(100, on_read=lambda index: clock.compute(0.003))
    reader = reader_of(source, clock)
    for begin in range(0, 50, 10):
        read(reader, begin)
    assert reading_threads() == []


def test_a_thread_that_was_preempted_has_not_waited(clock, gated, reading_threads):
    def be_preempted(index: int) -> None:
        clock.now += 0.003

    reader = reader_of(gated(100, on_read=be_preempted), clock)
    for begin in range(0, 50, 10):
        read(reader, begin)
    assert reading_threads() == []


@pytest.mark.parametrize(("threads", "buffer"), [(0, 8), (1, 8), (4, 0)])
def test_no_thread_is_started_where_the_options_allow_none(
    clock, gated, reading_threads, threads, buffer
):
    source = gated(100, on_read=lambda index: clock.wait(0.003))
    reader = reader_of(source, clock, grain.ReadOptions(threads, buffer))
    for begin in range(0, 50, 10):
        read(reader, begin)
    assert reading_threads() == []


def test_an_error_in_a_thread_comes_after_the_elements_before_it(clock, gated):
    def fail_at_15(index: int) -> None:
        clock.wait(0.003)
        if index == 15:
            raise LookupError("fifteen")

    reader = reader_of(gated(100, on_read=fail_at_15), clock)
    read(reader, 0)
    found = reader.read(np.arange(10, 19))
    assert isinstance(found, PartialRead)
    assert list(found) == [10, 11, 12, 13, 14]
    assert isinstance(found.error, LookupError)


def test_a_reader_that_is_dropped_ends_its_threads(clock, gated, reading_threads):
    """Workers drop many readers when many streams are interleaved."""
    source = gated(
        100,
        is_open=lambda source, index: index < 10 or source.most_inside >= 3,
        on_read=lambda index: clock.wait(0.003),
    )
    reader = reader_of(source, clock)
    for begin in (0, 1, 0, 10):
        read(reader, begin)
    started = reading_threads()
    assert len(started) == 3
    del reader
    for thread in started:
        thread.join(PATIENCE)
        assert not thread.is_alive()
