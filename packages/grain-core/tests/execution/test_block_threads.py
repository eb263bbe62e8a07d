"""Threads that read blocks: more and fewer of them at any time, and nothing is lost."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import grain
from grain.execution.block_threads import BlockThreads, ReadBlock

from .gated_source import PATIENCE

pytestmark = pytest.mark.usefixtures("reading_threads")


@pytest.fixture
def pool(gated: Callable[..., Any]) -> Iterator[Callable[..., tuple[Any, BlockThreads]]]:
    """Makes a source, and threads over it that are ended with the test."""
    made: list[BlockThreads] = []

    def make(**options: Any) -> tuple[Any, BlockThreads]:
        source = gated(1000, **options)
        made.append(BlockThreads(grain.MapDataset.source(source)))
        return source, made[-1]

    yield make
    for threads in made:
        threads.stop()
        threads.join()


def take(block: ReadBlock) -> list[Any]:
    assert block.ready.acquire(timeout=PATIENCE)
    return block.elements


def test_blocks_are_read_in_the_order_of_being_given(pool: Any) -> None:
    source, threads = pool()
    blocks = [ReadBlock(3 * number, 3) for number in range(20)]
    for block in blocks:
        threads.submit(block)
    threads.at_least(1)
    assert [take(block) for block in blocks] == [[3 * n, 3 * n + 1, 3 * n + 2] for n in range(20)]
    assert source.started == list(range(60))


def test_threads_that_are_let_go_leave_at_once_and_not_behind_what_waits(
    pool: Any, reading_threads: Any
) -> None:
    source, threads = pool(is_open=lambda source, index: False)
    blocks = [ReadBlock(number, 1) for number in range(500)]
    for block in blocks:
        threads.submit(block)
    threads.at_least(3)
    assert source.wait_until(lambda: source.inside == 3)
    threads.at_most(1)
    source.change(lambda source, index: index < 3)
    # Two of them go; the one that is left stands at the gate with the fourth block.
    assert source.wait_until(lambda: len(source.started) >= 4)
    while len(reading_threads()) > 1:
        pass
    assert sorted(source.started) == [0, 1, 2, 3]
    source.change(lambda source, index: True)
    assert [take(block) for block in blocks] == [[number] for number in range(500)]
    assert sorted(source.started) == list(range(500))


def test_threads_that_wait_for_blocks_are_let_go_too(pool: Any, reading_threads: Any) -> None:
    _, threads = pool()
    threads.at_least(4)
    deadline = time.monotonic() + 60
    while len(running := reading_threads()) < 4:
        assert time.monotonic() < deadline
    threads.at_most(0)
    for thread in running:
        thread.join(PATIENCE)
    assert reading_threads() == []
    block = ReadBlock(7, 2)
    threads.submit(block)
    threads.at_least(1)
    assert take(block) == [7, 8]


def test_who_was_let_go_and_is_still_there_is_called_back(pool: Any, reading_threads: Any) -> None:
    source, threads = pool(is_open=lambda source, index: False)
    for number in range(2):
        threads.submit(ReadBlock(number, 1))
    threads.at_least(2)
    assert source.wait_until(lambda: source.inside == 2)
    threads.at_most(1)
    threads.at_least(2)
    assert len(reading_threads()) == 2
    source.change(lambda source, index: index < 2 or source.most_inside >= 2)
    more = [ReadBlock(number, 1) for number in range(2, 40)]
    for block in more:
        threads.submit(block)
    assert [take(block) for block in more] == [[number] for number in range(2, 40)]


def test_a_block_belongs_to_the_generation_in_which_it_is_started(pool: Any) -> None:
    source, threads = pool(is_open=lambda source, index: False)
    blocks = [ReadBlock(number, 1) for number in range(3)]
    for block in blocks:
        threads.submit(block)
    threads.at_least(1)
    assert source.wait_until(lambda: source.inside == 1)
    threads.set_generation(5)
    source.change(lambda source, index: True)
    for block in blocks:
        take(block)
    assert [block.generation for block in blocks] == [0, 5, 5]


def test_where_no_thread_can_be_started_those_that_run_go_on(
    pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, threads = pool()
    threads.at_least(1)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    threads.at_least(4)
    block = ReadBlock(0, 3)
    threads.submit(block)
    assert take(block) == [0, 1, 2]


def test_a_reader_that_can_start_no_thread_reads_where_it_is_asked_until_it_can(
    clock: Any, gated: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = gated(50, on_read=lambda index: clock.wait(0.003))
    start = _thread.start_new_thread
    refused: list[Any] = []

    def maybe(function: Any, arguments: Any) -> int:
        if len(refused) < 3:
            refused.append(function)
            raise RuntimeError("can't start new thread")
        return start(function, arguments)

    monkeypatch.setattr(_thread, "start_new_thread", maybe)
    options = grain.ReadOptions(4, 8)
    with iter(grain.MapDataset.source(source).to_iter_dataset(options)) as iterator:
        iterator.start_prefetch()
        assert list(iterator) == list(range(50))
    assert len(refused) == 3
    assert source.by_thread[threading.current_thread().name] > 3
    assert source.by_thread["grain-read"] > 0
