"""The controller that sizes chunks and blocks."""

from __future__ import annotations

import pytest

from grain._chunk_size import ChunkSizeController


def _sizes(controller: ChunkSizeController, seconds: list[float]) -> list[int]:
    found = []
    for taken in seconds:
        controller.observe([0] * controller.size, taken)
        found.append(controller.size)
    return found


def test_quick_chunks_double_up_to_the_maximum():
    assert _sizes(ChunkSizeController(1.0, 6), [0.5] * 4) == [2, 4, 6, 6]


def test_chunks_near_the_target_grow_up_to_it():
    assert _sizes(ChunkSizeController(1.0, 100), [0.5, 0.5, 0.5, 0.8, 0.95, 0.99, 0.0]) == [
        *(2, 4, 8, 10, 10, 10, 20)
    ]


def test_slow_chunks_halve_down_to_one():
    controller = ChunkSizeController(1.0, 8)
    _sizes(controller, [0.5] * 3)
    assert _sizes(controller, [4.5] * 4) == [4, 2, 1, 1]


@pytest.mark.parametrize("seconds", [1.0, 2.0, 4.0])
def test_a_chunk_near_the_target_keeps_the_size(seconds):
    controller = ChunkSizeController(1.0, 8)
    assert _sizes(controller, [0.5, seconds]) == [2, 2]


def test_a_chunk_that_came_short_does_not_grow_the_size():
    controller = ChunkSizeController(1.0, 8)
    _sizes(controller, [0.5])
    controller.observe([0], 0.1)
    assert controller.size == 2


def test_large_elements_bound_the_size():
    controller = ChunkSizeController(1.0, 1024, max_bytes=40, nbytes=lambda element: 10)
    assert _sizes(controller, [0.5] * 4) == [2, 4, 4, 4]


def test_fit_follows_the_time_of_an_element_and_doubles_at_most():
    controller = ChunkSizeController(1.0, 100)
    found = []
    for seconds in (0.1, 0.1, 0.1, 0.1, 0.1, 0.5, 5.0, 2.0):
        controller.fit(seconds)
        found.append(controller.size)
    assert found == [2, 4, 8, 10, 10, 10, 2, 1]


def test_fit_neither_shrinks_nor_stops_growing_for_one_delayed_call():
    controller = ChunkSizeController(1.0, 100)
    found = []
    for seconds in (0.1, 0.1, 9.0, 0.1, 9.0, 0.1):
        controller.fit(seconds)
        found.append(controller.size)
    assert found == [2, 4, 8, 10, 10, 10]


def test_fit_allows_large_elements_up_to_the_allowance():
    controller = ChunkSizeController(1.0, 100, max_bytes=40)
    for _ in range(5):
        controller.fit(0.01, element_bytes=20, allowance=3)
    assert controller.size == 3


def test_fit_wants_a_minimum_whatever_the_time():
    controller = ChunkSizeController(1.0, 100)
    for _ in range(5):
        controller.fit(2.0, at_least=6)
    assert controller.size == 6


def test_fit_lengthens_the_chunks_of_a_producer_that_lasts():
    controller = ChunkSizeController(1.0, 100, growth=2.0, growth_calls=4)
    found = []
    for _ in range(8):
        controller.fit(0.1)
        found.append(controller.size)
    assert found == [2, 4, 8, 16, 20, 20, 20, 20]
