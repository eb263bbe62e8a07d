"""Reading ahead in threads: when they start, how far ahead they read, and how they end."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain
from grain.execution.adaptive_reader import make_reader

from .gated_source import PATIENCE

Map = grain.MapDataset
pytestmark = pytest.mark.usefixtures("reading_threads")


def options(num_threads: int = 4, prefetch_buffer_size: int = 8) -> grain.ReadOptions:
    return grain.ReadOptions(num_threads, prefetch_buffer_size)


def reader_of(source: Any, read_options: grain.ReadOptions) -> Any:
    ds = Map.source(source)
    return make_reader(ds, 0, len(ds), read_options)


def read_all(reader: Any, limit: int = 16, between: Callable[[], None] = lambda: None) -> list[Any]:
    elements: list[Any] = []
    while block := reader.read(limit):
        elements += block
        between()
    return elements


# --- whether threads start -----------------------------------------------------------------------


def test_data_in_memory_that_is_read_as_fast_as_it_is_consumed_starts_no_thread(
    clock, gated, reading_threads
):
    source = gated(2000, on_read=lambda index: clock.compute(1e-6))
    reader = reader_of(source, options())
    assert read_all(reader, between=lambda: clock.compute(0.01)) == list(range(2000))
    assert source.threads == {threading.current_thread().name}
    assert reading_threads() == []


def test_slow_elements_are_read_by_all_threads_at_the_same_time(clock, gated):
    """From the 11th element on, no read passes before all sixteen readers are inside."""
    source = gated(
        200,
        is_open=lambda source, index: index < 10 or source.most_inside >= 16,
        on_read=lambda index: clock.wait(0.003),
    )
    reader = reader_of(source, grain.ReadOptions())
    assert read_all(reader, limit=1) == list(range(200))
    assert source.most_inside == 16
    reader.close()


def test_a_pipeline_over_a_slow_source_reads_with_all_its_threads(clock, gated):
    source = gated(
        200,
        is_open=lambda source, index: index < 100 or source.most_inside >= 5,
        on_read=lambda index: clock.wait(0.003),
    )
    ds = Map.source(source).map(lambda x: x + 1).batch(2).to_iter_dataset(options(5, 20))
    assert [int(x) for batch in ds.map(lambda x: x * 2) for x in batch] == [
        2 * x + 2 for x in range(200)
    ]
    assert source.most_inside == 5


def test_a_few_slow_elements_are_enough_however_many_are_asked_for(clock, gated):
    """A batch above asks for all it needs; it must not wait for them one after the other."""
    source = gated(200, on_read=lambda index: clock.wait(0.003))
    with iter(Map.source(source).to_iter_dataset(options(4, 8)).batch(64)) as iterator:
        next(iterator)
        assert source.by_thread[threading.current_thread().name] <= 3


def test_one_slow_block_proves_nothing(clock, gated, reading_threads):
    """It may have opened a file."""
    source = gated(100, on_read=lambda index: clock.wait(0.5 if index == 0 else 1e-6))
    reader = reader_of(source, options())
    assert read_all(reader) == list(range(100))
    assert reading_threads() == []


def test_a_consumer_that_waits_for_something_else_gets_one_thread(clock, gated):
    source = gated(500, on_read=lambda index: clock.wait(1e-6))
    reader = reader_of(source, options())
    assert read_all(reader, between=lambda: clock.wait(0.005)) == list(range(500))
    assert source.threads == {threading.current_thread().name, "grain-read"}
    reader.close()


def test_a_consumer_that_computes_all_the_time_gets_no_thread(clock, gated, reading_threads):
    source = gated(500, on_read=lambda index: clock.compute(1e-5))
    reader = reader_of(source, options())
    assert read_all(reader, between=lambda: clock.compute(0.05)) == list(range(500))
    assert reading_threads() == []


@pytest.mark.parametrize("read_options", [options(0, 8), options(4, 0), options(0, 0)])
def test_without_threads_or_without_a_buffer_nothing_is_read_elsewhere(
    clock, gated, reading_threads, read_options
):
    source = gated(50, on_read=lambda index: clock.wait(1.0))
    iterator = iter(Map.source(source).to_iter_dataset(read_options))
    iterator.start_prefetch()
    assert list(iterator) == list(range(50))
    assert source.threads == {threading.current_thread().name}
    assert reading_threads() == []


# --- order and extent ----------------------------------------------------------------------------


def test_elements_come_in_order_however_they_are_finished(clock, gated):
    """Every fourth read waits for the three after it."""
    source = gated(
        200,
        is_open=lambda s, i: i < 12 or i % 4 > 0 or {i + 1, i + 2, i + 3} <= set(s.finished),
        on_read=lambda index: clock.wait(0.003),
    )
    assert list(Map.source(source).to_iter_dataset(options(4, 8))) == list(range(200))
    assert source.finished.index(103) < source.finished.index(100)


def test_never_more_than_the_buffer_is_read_beyond_what_was_taken(clock, gated):
    source = gated(300, on_read=lambda index: clock.wait(0.003))
    iterator = iter(Map.source(source).to_iter_dataset(options(3, 7)))
    for taken, element in enumerate(iterator, start=1):
        assert element == taken - 1
        if taken > 5:
            # As far as it may, and no further.
            assert source.wait_until(lambda taken=taken: len(source.started) >= min(taken + 7, 300))
        assert len(source.started) <= taken + 7


def test_nothing_is_read_twice(clock, gated):
    source = gated(300, on_read=lambda index: clock.wait(0.003))
    assert list(Map.source(source).to_iter_dataset(options(3, 7))) == list(range(300))
    assert sorted(source.started) == list(range(300))


class LargeElements:
    """A source as another one, with elements of 200 bytes."""

    def __init__(self, source: Any):
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        return np.full(25, self.source[index], dtype=np.float64)


@pytest.mark.parametrize("early", [0, 1, 3, 50])
def test_large_elements_are_read_less_far_ahead_from_the_first_on(
    clock, gated, change_policy, early
):
    """Whether threads are started by themselves or before that element is asked for."""
    change_policy(read_ahead_bytes=1000)
    source = gated(100, on_read=lambda index: clock.wait(0.003))
    ds = Map.source(LargeElements(source)).to_iter_dataset(options(2, 20))
    with iter(ds) as iterator:
        for taken in range(100):
            if taken == early:
                iterator.start_prefetch()
            if taken == 50:
                # As far as they may.
                assert source.wait_until(lambda: len(source.started) >= 50 + 1000 // 200)
            assert len(source.started) <= taken + 1000 // 200
            assert next(iterator)[0] == taken


def test_elements_that_were_filtered_out_say_nothing_about_the_size_of_others(
    clock, gated, change_policy
):
    change_policy(read_ahead_bytes=1000)
    source = gated(100, on_read=lambda index: clock.wait(0.003))
    ds = Map.source(LargeElements(source)).filter(lambda x: x[0] % 3 == 2)
    with iter(ds.to_iter_dataset(options(2, 20))) as iterator:
        for number in range(33):
            assert next(iterator)[0] == 3 * number + 2
            assert number < 8 or len(source.started) <= 3 * number + 3 + 1000 // 200


@pytest.mark.parametrize("buffer", [1, 2, 3, 10, 100])
def test_cheap_elements_are_not_read_further_ahead_than_the_buffer_either(
    clock, gated, change_policy, buffer
):
    """They come in blocks, of which the consumer may have taken one element only."""
    change_policy(read_ahead_trial_blocks=10**6)
    source = gated(400, on_read=lambda index: clock.wait(1e-6))
    iterator = iter(Map.source(source).to_iter_dataset(options(4, buffer)))
    iterator.start_prefetch()
    for taken, element in enumerate(iterator, start=1):
        assert element == taken - 1
        clock.wait(0.005)
        # There is always something ahead, once the first is taken.
        more = min(taken + 1, 400)
        assert source.wait_until(lambda more=more: len(source.started) >= more)
        assert len(source.started) <= taken + buffer
    iterator.close()
    assert sorted(source.started) == list(range(400))


def test_elements_larger_than_the_buffer_still_occupy_every_thread(clock, gated, change_policy):
    change_policy(read_ahead_bytes=10)
    source = gated(
        60,
        is_open=lambda source, index: index < 20 or source.most_inside >= 3,
        on_read=lambda index: clock.wait(0.003),
    )
    found = list(Map.source(LargeElements(source)).to_iter_dataset(options(3, 50)))
    assert [int(element[0]) for element in found] == list(range(60))
    assert source.most_inside == 3


# --- starting early ------------------------------------------------------------------------------


def test_start_prefetch_reads_before_the_first_element_is_asked_for(gated):
    source = gated(40)
    iterator = iter(Map.source(source).to_iter_dataset(options()).map(lambda x: x).batch(4))
    iterator.start_prefetch()
    assert source.wait_until(lambda: bool(source.started))
    assert source.threads == {"grain-read"}
    iterator.start_prefetch()
    assert [int(x) for batch in iterator for x in batch] == list(range(40))
    iterator.close()


def test_start_prefetch_of_an_empty_dataset_does_nothing(reading_threads):
    iterator = iter(Map.source([]).to_iter_dataset(options()))
    iterator.start_prefetch()
    assert list(iterator) == []
    assert reading_threads() == []


# --- going elsewhere -----------------------------------------------------------------------------


def test_going_elsewhere_while_threads_read_ahead_forgets_what_they_read(clock, gated):
    source = gated(100, on_read=lambda index: clock.wait(0.003))
    iterator = iter(Map.source(source).to_iter_dataset(options(4, 8)))
    taken = [next(iterator) for _ in range(12)]
    state = json.loads(json.dumps(iterator.get_state()))
    assert taken == list(range(12))
    # Reads that are under way stay behind the gate while the iterator goes elsewhere.
    source.change(lambda s, i: i not in range(12, 40))
    started = len(source.started)
    source.wait_until(lambda: source.inside > 0 or len(source.started) > started + 8)
    iterator.set_state({"next_index": 60})
    source.change(lambda s, i: True)
    assert [next(iterator) for _ in range(5)] == [60, 61, 62, 63, 64]
    iterator.set_state(state)
    assert list(iterator) == list(range(12, 100))


def test_a_state_is_where_the_consumer_is_not_where_the_threads_are(clock, gated):
    source = gated(100, on_read=lambda index: clock.wait(0.003))
    iterator = iter(Map.source(source).to_iter_dataset(options(4, 20)))
    for taken in range(1, 30):
        next(iterator)
        assert iterator.get_state() == {"next_index": taken}
    assert source.wait_until(lambda: len(source.started) >= 49)
    iterator.close()
    assert iterator.get_state() == {"next_index": 29}


# --- errors --------------------------------------------------------------------------------------


class Failing:
    def __init__(self, error: BaseException, at: int = 6):
        self.error, self.at = error, at

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> int:
        if index == self.at:
            raise self.error
        return index


def test_an_error_in_a_thread_comes_at_its_element_and_again():
    iterator = iter(Map.source(Failing(LookupError("six"))).to_iter_dataset(options()))
    iterator.start_prefetch()
    assert [next(iterator) for _ in range(6)] == list(range(6))
    for _ in range(3):
        with pytest.raises(LookupError, match="six") as caught:
            next(iterator)
        assert "at index 6" in caught.value.__notes__[0]
    iterator.set_state({"next_index": 7})
    assert list(iterator) == list(range(7, 30))
    iterator.close()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_an_exit_in_a_thread_is_an_error_of_the_consumer(error):
    iterator = iter(Map.source(Failing(error)).to_iter_dataset(options()))
    iterator.start_prefetch()
    with pytest.raises(RuntimeError, match=type(error).__name__):
        list(iterator)
    iterator.close()


# --- endings -------------------------------------------------------------------------------------


def start_reading(source: Any, read_options: grain.ReadOptions) -> Any:
    iterator = iter(Map.source(source).to_iter_dataset(read_options))
    iterator.start_prefetch()
    next(iterator)
    return iterator


def test_close_ends_the_threads(gated, reading_threads):
    iterator = start_reading(gated(1000), options())
    assert reading_threads()
    iterator.close()
    assert reading_threads() == []
    iterator.close()


def test_close_waits_for_reads_that_are_under_way(clock, gated, reading_threads):
    source = gated(100, is_open=lambda s, i: i == 0)
    iterator = start_reading(source, options(2, 8))
    assert source.wait_until(lambda: source.inside > 0)
    closing = threading.Thread(target=iterator.close)
    closing.start()
    assert reading_threads()
    source.change(lambda s, i: True)
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert reading_threads() == []


def test_an_iterator_that_is_dropped_ends_its_threads(gated, reading_threads):
    iterator = start_reading(gated(1000), options())
    started = reading_threads()
    assert started
    gc.disable()
    try:
        del iterator
        for thread in started:
            thread.join(PATIENCE)
            assert not thread.is_alive()
    finally:
        gc.enable()


def test_threads_of_an_iterator_that_is_dropped_begin_no_more_reads(clock, gated, reading_threads):
    source = gated(1000, is_open=lambda s, i: i < 12, on_read=lambda index: clock.wait(0.003))
    iterator = iter(Map.source(source).to_iter_dataset(options(2, 50)))
    assert [next(iterator) for _ in range(12)] == list(range(12))
    assert source.wait_until(lambda: source.inside == 2)
    started = reading_threads()
    del iterator
    source.change(lambda s, i: True)
    for thread in started:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert sorted(source.started) == list(range(14))


@pytest.mark.parametrize(
    "above",
    [
        lambda ds: ds.map(lambda x: x),
        lambda ds: ds.filter(lambda x: True),
        lambda ds: ds.batch(2),
        lambda ds: grain.IterDataset.mix([ds, ds]),
        lambda ds: ds.random_map(lambda x, rng: x, seed=1),
    ],
    ids=["map", "filter", "batch", "mix", "random_map"],
)
def test_dropping_what_is_above_ends_the_threads_too(gated, reading_threads, above):
    iterator = iter(above(Map.source(gated(1000)).to_iter_dataset(options())))
    iterator.start_prefetch()
    next(iterator)
    iterator.get_state()
    started = reading_threads()
    assert started
    gc.disable()
    try:
        del iterator
        for thread in started:
            thread.join(PATIENCE)
            assert not thread.is_alive()
    finally:
        gc.enable()


def test_an_iterator_that_is_finished_keeps_no_thread_once_it_is_gone(gated, reading_threads):
    iterator = start_reading(gated(50), options())
    assert len(list(iterator)) == 49
    del iterator
    for thread in reading_threads():
        thread.join(PATIENCE)
    assert reading_threads() == []


def test_two_iterators_read_with_threads_of_their_own(clock, gated):
    first = iter(
        Map.source(gated(60, on_read=lambda i: clock.wait(0.003))).to_iter_dataset(options())
    )
    second = iter(Map.source(gated(60)).to_iter_dataset(options()))
    first.start_prefetch()
    second.start_prefetch()
    pairs = list(zip(first, second, strict=True))
    assert pairs == [(x, x) for x in range(60)]
    first.close()
    second.close()


def test_large_elements_among_small_ones_are_read_less_far_ahead(clock, gated, change_policy):
    change_policy(read_ahead_bytes=40_000)

    class Mixed(LargeElements):
        def __getitem__(self, index: int) -> Any:
            number = self.source[index]
            return np.full(1000 if index % 5 == 4 else 1, number, dtype=np.float64)

    source = gated(2000, on_read=lambda index: clock.wait(0.003))
    with iter(Map.source(Mixed(source)).to_iter_dataset(options(2, 500))) as iterator:
        for taken in range(300):
            assert next(iterator)[0] == taken
            # So many hold 40 000 bytes on the average, and half as many again.
            assert len(source.started) <= taken + 1 + 1.5 * 40_000 / 1600
