"""Reading ahead in a thread changes nothing but the time at which elements are read."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import grain
from grain.experimental import (
    FirstFitPackIterDataset,
    ThreadPrefetchDatasetIterator,
    ThreadPrefetchIterDataset,
)

from ..helpers.pipelines import INLINE, numbers
from ..helpers.threads import new_threads, wait_for_end


def prefetch_threads() -> list[threading.Thread]:
    return new_threads([], "grain-prefetch")


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = prefetch_threads()
    yield
    gc.collect()
    wait_for_end(lambda: new_threads(before, "grain-prefetch"))


@pytest.mark.parametrize("size", [0, 1, 3, 100])
def test_prefetch_gives_the_same_elements_and_resumes(
    size: int, parent_of: Callable[..., Any], resumes: Callable[..., Any]
) -> None:
    elements = resumes(
        lambda: ThreadPrefetchIterDataset(parent_of(range(9)), prefetch_buffer_size=size)
    )
    assert elements == list(range(9))


def test_states_are_those_of_the_parent_at_every_step() -> None:
    plain = iter(numbers(12).random_map(lambda x, rng: x, seed=1).batch(2))
    ahead = iter(
        ThreadPrefetchIterDataset(
            numbers(12).random_map(lambda x, rng: x, seed=1).batch(2), prefetch_buffer_size=3
        )
    )
    assert ahead.get_state() == plain.get_state()
    for _ in range(6):
        next(plain), next(ahead)
        assert ahead.get_state() == plain.get_state()


@pytest.mark.parametrize("size", [0, 1, 5])
def test_at_the_end_the_state_is_that_of_the_parent_at_its_end(size: int) -> None:
    """Also where the last elements were filtered out."""
    alone = iter(numbers(20).filter(lambda x: x < 15))
    ahead = iter(
        ThreadPrefetchIterDataset(numbers(20).filter(lambda x: x < 15), prefetch_buffer_size=size)
    )
    assert list(ahead) == list(alone)
    assert ahead.get_state() == alone.get_state() == {"next_index": 20}
    ahead.close()
    assert ahead.get_state() == {"next_index": 20}


def test_no_more_is_read_ahead_than_allowed() -> None:
    read: list[int] = []

    def note(x: int) -> int:
        read.append(x)
        return x

    with iter(
        ThreadPrefetchIterDataset(
            grain.MapDataset.range(100).map(note).to_iter_dataset(INLINE), prefetch_buffer_size=3
        )
    ) as iterator:
        iterator.start_prefetch()
        for taken in range(100):
            # One chunk of up to three was taken from the buffer, which holds three more.
            assert max(read, default=0) < taken + 6
            assert next(iterator) == taken


def test_reading_ahead_continues_while_the_consumer_has_left_its_loop() -> None:
    full, read = threading.Event(), []

    def note(x: int) -> int:
        read.append(x)
        if x == 6:
            full.set()
        return x

    ds = grain.MapDataset.range(100).to_iter_dataset(INLINE).map(note)
    with iter(ThreadPrefetchIterDataset(ds, prefetch_buffer_size=3)) as iterator:
        for element in iterator:
            if element == 3:
                break
        assert full.wait(timeout=60)
        assert next(iterator) == 4
    assert max(read) < 12


def test_an_error_comes_in_order_and_the_stream_resumes_after_it() -> None:
    def fail(x: int) -> int:
        if x == 2:
            raise KeyError("bad")
        return x

    iterator = iter(ThreadPrefetchIterDataset(numbers(5).map(fail), prefetch_buffer_size=4))
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(KeyError, match="bad"):
        next(iterator)
    assert list(iterator) == [3, 4]


def test_a_closed_iterator_ends_its_thread_and_cannot_be_advanced() -> None:
    iterator = iter(ThreadPrefetchIterDataset(numbers(1000), prefetch_buffer_size=2))
    next(iterator)
    iterator.close()
    assert not prefetch_threads()
    with pytest.raises(ValueError, match="closed"):
        next(iterator)


def test_a_dropped_iterator_ends_its_thread() -> None:
    iterator = iter(ThreadPrefetchIterDataset(numbers(1000), prefetch_buffer_size=2))
    next(iterator)
    assert len(prefetch_threads()) == 1
    del iterator
    gc.collect()
    wait_for_end(prefetch_threads)


def test_any_iterator_with_a_state_can_be_read_ahead() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def __next__(self) -> int:
            if self.count == 4:
                raise StopIteration
            self.count += 1
            return self.count

        def get_state(self) -> dict[str, int]:
            return {"count": self.count}

        def set_state(self, state: dict[str, int]) -> None:
            self.count = state["count"]

    iterator = ThreadPrefetchDatasetIterator(Counter(), prefetch_buffer_size=2)
    assert next(iterator) == 1
    assert iterator.get_state() == {"count": 1}
    assert list(iterator) == [2, 3, 4]
    iterator.set_state({"count": 2})
    assert list(iterator) == [3, 4]


def test_an_iterator_without_state_is_refused() -> None:
    with pytest.raises(TypeError, match="get_state"):
        ThreadPrefetchDatasetIterator(iter([1, 2]), prefetch_buffer_size=2)


@pytest.mark.parametrize(("size", "error"), [(-1, ValueError), ("2", TypeError), (1.5, TypeError)])
def test_wrong_buffer_size_is_refused_when_built(size: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="prefetch_buffer_size"):
        ThreadPrefetchIterDataset(numbers(3), prefetch_buffer_size=size)


def test_length_and_packing_above_a_thread() -> None:
    ds = ThreadPrefetchIterDataset(numbers(5), prefetch_buffer_size=2)
    assert len(ds) == 5
    packed = FirstFitPackIterDataset(
        ds.map(lambda x: {"x": x}), length_struct={"x": 3}, num_packing_bins=1
    )
    assert [row["x"].tolist() for row in packed] == [[0, 1, 2], [3, 4, 0]]
