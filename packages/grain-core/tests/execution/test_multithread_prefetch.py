"""`multithread_prefetch` uses its threads, and none of them changes the stream."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

import grain
from grain.execution.interleave_opener import ThreadsAhead
from grain.execution.multithread_prefetch import MultithreadPrefetchIterDataset
from grain.experimental import multithread_prefetch

from ..helpers.pipelines import INLINE, numbers
from .pipelines import FAILING, PIPELINES
from .test_same_stream import journey

PATIENCE = 60  # Seconds; only a bound for a test that would otherwise hang.


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("sequential", [False, True])
def test_the_number_of_threads_never_changes_the_stream(threads: int, sequential: bool) -> None:
    ds = multithread_prefetch(
        numbers(11).batch(3), num_threads=threads, buffer_size=2, sequential_slice=sequential
    )
    assert [batch.tolist() for batch in ds] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]


def test_threads_resume_with_another_number_of_them() -> None:
    saved = iter(multithread_prefetch(numbers(9), num_threads=3, buffer_size=2))
    assert [next(saved) for _ in range(4)] == [0, 1, 2, 3]
    restored = iter(multithread_prefetch(numbers(9), num_threads=1, buffer_size=5))
    restored.set_state(saved.get_state())
    assert list(restored) == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("wrong", [{"num_threads": -1}, {"buffer_size": -1}])
def test_wrong_numbers_of_threads_are_refused_when_built(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        multithread_prefetch(numbers(3), **({"num_threads": 1, "buffer_size": 1} | wrong))


@pytest.mark.filterwarnings("ignore:Transformation")
@pytest.mark.parametrize(("threads", "size"), [(3, 2), (5, 40)])
@pytest.mark.parametrize("name", [*PIPELINES, *FAILING])
def test_pipelines_have_the_same_elements_states_and_errors_in_threads(
    name: str, threads: int, size: int, reading_threads: Callable[[], Any]
) -> None:
    del reading_threads
    build, jumps = (PIPELINES | FAILING)[name], [3, 0, 8, 1000]
    with iter(build()) as alone:
        expected = journey(alone, jumps)
    with iter(MultithreadPrefetchIterDataset(build(), threads, size)) as ahead:
        assert journey(ahead, jumps) == expected


class Rendezvous:
    """A function that returns only when `count` threads are inside it at the same time."""

    def __init__(self, count: int):
        self._barrier = threading.Barrier(count)

    def __call__(self, x: int) -> int:
        self._barrier.wait(PATIENCE)
        return x


SHAPES: dict[str, Callable[[Any], grain.IterDataset[Any]]] = {
    "map dataset": lambda wait: grain.MapDataset.range(48).map(wait).to_iter_dataset(INLINE),
    "iter map": lambda wait: numbers(48).map(wait),
    "iter map over threads": lambda wait: grain.MapDataset.range(48).to_iter_dataset().map(wait),
    "below a filter and a batch": lambda wait: (
        numbers(48).map(wait).filter(lambda x: x % 2 == 0).batch(3)
    ),
    "below an ordered operation": lambda wait: grain.experimental.WindowShuffleIterDataset(
        numbers(48).map(wait), window_size=5, seed=1
    ),
    "two datasets": lambda wait: grain.experimental.ZipIterDataset(
        [numbers(48).map(wait), numbers(48)]
    ),
}


@pytest.mark.parametrize("shape", list(SHAPES))
def test_all_threads_work_at_the_same_time(
    shape: str, reading_threads: Callable[[], Any], change_policy: Callable[..., Any]
) -> None:
    """Each element waits until four threads are computing one; fewer threads would break the barrier."""
    del reading_threads
    # From the first block on, and in blocks of one element.
    change_policy(slow_element_seconds=-1.0, block_seconds=0.0, thread_window_seconds=1e9)
    ds = SHAPES[shape](Rendezvous(4))
    with iter(multithread_prefetch(ds, num_threads=4, buffer_size=2)) as iterator:
        found = list(iterator)
    expected = list(SHAPES[shape](lambda x: x))
    assert str(found) == str(expected)


def test_no_more_is_computed_ahead_than_allowed(reading_threads: Callable[[], Any]) -> None:
    del reading_threads
    read: list[int] = []

    def note(x: int) -> int:
        read.append(x)
        return x

    with iter(multithread_prefetch(numbers(200).map(note), 2, 3)) as iterator:
        iterator.start_prefetch()
        for taken in range(200):
            # A block of up to three was taken from the buffer, which holds six more.
            assert max(read, default=0) < taken + 9
            assert next(iterator) == taken


def test_large_elements_of_a_threaded_boundary_are_bounded_in_bytes(
    reading_threads: Callable[[], Any], change_policy: Callable[..., Any]
) -> None:
    del reading_threads
    change_policy(read_ahead_bytes=8_000)
    made: list[int] = []

    def large(x: int) -> bytes:
        made.append(x)
        return bytes(1_000)

    ds = grain.MapDataset.range(100).map(large).to_iter_dataset(grain.ReadOptions(4, 100))
    with iter(multithread_prefetch(ds, num_threads=2, buffer_size=2)) as iterator:
        for taken in range(100):
            next(iterator)
            # The own buffer of four, eight elements that fit into the bytes, and the taken block.
            assert len(made) <= taken + 1 + 4 + 8 + 4


def test_an_interleave_adds_no_thread_to_elements_that_are_prefetched_already(
    reading_threads: Callable[[], Any],
) -> None:
    """Otherwise a second buffer holds more elements than allowed, and dropping it computes them again."""
    del reading_threads
    with iter(MultithreadPrefetchIterDataset(numbers(9), 2, 2)) as iterator:
        next(iterator)
        assert ThreadsAhead().reading(iterator, 4, lambda seconds: None) is iterator


def test_a_closed_or_dropped_iterator_ends_its_threads(
    reading_threads: Callable[[], list[threading.Thread]],
) -> None:
    iterator = iter(multithread_prefetch(numbers(1000), num_threads=2, buffer_size=2))
    next(iterator)
    assert reading_threads()
    iterator.close()
    assert not reading_threads()
    with pytest.raises(ValueError, match="closed"):
        next(iterator)
    dropped = iter(multithread_prefetch(numbers(1000), num_threads=2, buffer_size=2))
    next(dropped)
    del dropped
    gc.collect()  # The fixture waits for the threads.


def test_without_a_buffer_nothing_is_computed_ahead(
    reading_threads: Callable[[], list[threading.Thread]],
) -> None:
    iterator = iter(multithread_prefetch(numbers(9), num_threads=2, buffer_size=0))
    assert list(iterator) == list(range(9))
    assert not reading_threads()


def test_an_exit_in_a_thread_reaches_the_consumer() -> None:
    def leave(x: int) -> int:
        if x == 2:
            raise SystemExit(3)
        return x

    with iter(multithread_prefetch(numbers(4).map(leave), 2, 2)) as iterator:
        assert [next(iterator), next(iterator)] == [0, 1]
        with pytest.raises(RuntimeError, match=r"stopped by SystemExit\(3\)"):
            next(iterator)
