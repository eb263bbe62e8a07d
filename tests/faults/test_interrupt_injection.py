"""Ctrl-C at any boundary: an iterator continues exactly, or is closed with a clear error.

A seeded sample of boundaries of pipelines read in the consumer's thread, by threads and by worker processes.
`nox -s faults` interrupts every boundary.
"""

from __future__ import annotations

import contextlib
import functools
import zlib

import pytest

import grain
from grain._policy import use_policy
from grain.execution.block_threads import BlockThreads, ReadBlock

from . import interrupts
from .history import Checker, Stream, close, record
from .pipelines import LOADERS, PIPELINES, Records, build

pytestmark = [
    pytest.mark.skipif("not sys.platform.startswith('linux')", reason="counts handles in /proc"),
    # A filter that keeps little is nothing to warn about here.
    pytest.mark.filterwarnings("ignore"),
]


@functools.cache
def stream(name: str) -> Stream:
    return record(build(name, "inline"))


def check(name: str, mode: str, rounds: int) -> None:
    tally = interrupts.sample(
        lambda: build(name, mode),
        stream(name),
        zlib.crc32(f"{name} {mode}".encode()),
        rounds,
        label=f"{name} {mode}",
        prefetch=mode != "inline",
    )
    assert not tally.bad, "\n".join(tally.bad)
    assert tally.interrupts


@pytest.mark.parametrize("name", [*PIPELINES, *LOADERS])
def test_an_interrupted_iterator_continues_exactly(name: str) -> None:
    check(name, "inline", 8)


@pytest.mark.parametrize("name", [*PIPELINES, *LOADERS])
def test_an_interrupted_iterator_with_threads_continues_exactly(name: str) -> None:
    check(name, "threads", 4)


@pytest.mark.parametrize("name", [*PIPELINES, *LOADERS])
def test_an_interrupted_iterator_with_workers_continues_exactly(name: str) -> None:
    check(name, "workers", 2)


@pytest.mark.parametrize("mode", ["inline executor", "threads executor"])
@pytest.mark.parametrize("name", ["filter and batch", "user iterator", "interleave streams"])
def test_an_interrupted_session_continues_exactly(name: str, mode: str) -> None:
    check(name, mode, 8)


@pytest.mark.parametrize("name", LOADERS)
def test_the_state_of_a_loader_has_its_whole_text_wherever_it_is_interrupted(name: str) -> None:
    expected = stream(name)
    boundary, left_over = 1, False
    fired: list[str] = []
    while not left_over:
        iterator = iter(build(name, "inline"))
        injector = interrupts.Injector([boundary])
        with contextlib.suppress(KeyboardInterrupt):
            injector(iterator.get_state)
        fired += injector.fired
        Checker(expected, iterator).check_state()
        close(iterator)
        left_over, boundary = injector.left_over, boundary + 1
    assert any("data_loader.py" in site for site in fired)


def test_a_recursion_guard_of_repr_can_be_interrupted() -> None:
    records, fired = Records(3), []
    boundary, left_over = 1, False
    while not left_over:
        injector = interrupts.Injector([boundary])
        with contextlib.suppress(KeyboardInterrupt):
            injector(repr, records)
        fired += injector.fired
        left_over, boundary = injector.left_over, boundary + 1
    assert any("c_return" in site for site in fired)
    assert repr(records) == "..."


def interrupted(name: str, mode: str, position: int, boundary: int) -> Checker | None:
    """Return an iterator at a position whose `next` was interrupted; None if it was over before that."""
    checker = Checker(stream(name), iter(build(name, mode)))
    checker.jump(position)
    try:
        checker.accept(interrupts.Injector([boundary])(next, checker.iterator))
    except KeyboardInterrupt:
        return checker
    close(checker.iterator)
    return None


@pytest.mark.parametrize("mode", ["inline", "inline executor"])
@pytest.mark.parametrize("name", PIPELINES)
def test_the_next_call_after_an_interrupt_may_be_any(name: str, mode: str) -> None:
    elements = len(stream(name).elements)
    if not elements:
        pytest.skip("it has no element")
    position, boundary = min(1, elements - 1), 1
    while (checker := interrupted(name, mode, position, boundary)) is not None:
        if boundary % 2:
            close(checker.iterator)
            checker.check_state()
        else:
            checker.jump(min(position + 1 + boundary // 2 % 2, elements))
            checker.check_state()
            checker.finish()
            close(checker.iterator)
        boundary += 1 + boundary // 20
    assert boundary > 1


def all_boundaries_passed(name: str, mode: str, boundary: int) -> bool:
    """Drop an iterator with an interrupt; return whether the drop has fewer boundaries."""
    before = interrupts.held()
    iterators = [iter(build(name, mode))]
    iterators[0].start_prefetch()
    next(iterators[0])
    injector = interrupts.Injector([boundary])
    tally = interrupts.Tally()
    with interrupts.counting_swallowed(tally), contextlib.suppress(KeyboardInterrupt):
        injector(iterators.clear)
    assert not interrupts.wait_for_release(before), injector.fired
    return injector.left_over


def test_a_dropped_iterator_ends_its_workers_in_spite_of_interrupts() -> None:
    for boundary in range(1, 200, 7):
        if all_boundaries_passed("range", "workers", boundary):
            break
    assert boundary > 1


DROPPED = {
    "multithread prefetch": "threads",
    "range": "threads",
    "thread prefetch": "threads",
    "thread prefetch on top": "inline",
    "map chain": "threads executor",
    "stream": "threads executor",
    "interleave streams": "threads",
}


@pytest.mark.parametrize("name", DROPPED)
def test_a_dropped_iterator_ends_its_threads_in_spite_of_interrupts(name) -> None:
    boundary = 1
    while not all_boundaries_passed(name, DROPPED[name], boundary):
        boundary += 1


def test_threads_that_do_not_pay_off_end_in_spite_of_interrupts() -> None:
    """An interrupt while they end must not leave the reader waiting for them."""
    rows, tally = stream("range"), interrupts.Tally()
    options = {"label": "range threads", "prefetch": True, "jumps": (), "hang_seconds": 20.0}
    with use_policy(read_ahead_trial_blocks=1, slow_element_seconds=1e9):
        interrupts.exhaust(lambda: build("range", "threads"), rows, tally, **options)
    assert not tally.bad, "\n".join(tally.bad)
    assert any("close" in site for site in tally.sites)


def test_dismissed_threads_leave_one_that_reads_in_spite_of_interrupts() -> None:
    dataset = grain.MapDataset.range(10)
    boundary, left_over = 1, False
    while not left_over:
        threads = BlockThreads(dataset)
        threads.at_least(2)
        injector = interrupts.Injector([boundary])
        with contextlib.suppress(KeyboardInterrupt):
            injector(threads.at_most, 1)
        threads.at_most(1)
        for start in range(6):
            block = ReadBlock(start, 1)
            threads.submit(block)
            assert block.ready.acquire(timeout=60), injector.fired
            assert block.elements == [start]
        threads.stop()
        threads.join()
        left_over, boundary = injector.left_over, boundary + 1
    assert boundary > 2
