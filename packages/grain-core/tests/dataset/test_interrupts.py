"""After Ctrl-C, and after a state that was refused, an iterator resumes exactly where it was."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.parity.encoding import encode

import grain

from ..helpers.pipelines import INLINE, ForwardingIterDataset

Map = grain.MapDataset
X = grain.experimental


class Touch:
    """A function that is interrupted once, when it is called for the n-th time."""

    def __init__(self, at: int):
        self.calls, self.at = 0, at

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return x


class Halves(grain.transforms.FlatMap):
    max_fan_out = 3

    def __init__(self, touch: Touch):
        self.touch = touch

    def flat_map(self, element: Any) -> list[Any]:
        return [self.touch(element)] * (int(element) % 4)


def rows(count: int, touch: Touch) -> grain.IterDataset:
    return Map.range(count).map(touch).to_iter_dataset(INLINE)


def plain(count: int) -> grain.IterDataset:
    return Map.range(count).to_iter_dataset(INLINE)


def odd(x: Any) -> bool:
    return bool(np.sum(x) % 2)


def add_index(index: int, x: Any) -> Any:
    return (index, x)


def add_draw(x: Any, rng: np.random.Generator) -> float:
    return float(np.sum(x)) + rng.random()


def tokens(touch: Touch) -> grain.IterDataset:
    return rows(12, touch).map(lambda x: {"tokens": np.arange(1, x % 5 + 2) + 100 * x})


PACKED: dict[str, Any] = {"length_struct": {"tokens": 7}}

PIPELINES: dict[str, Callable[[Touch], grain.IterDataset]] = {
    "boundary": lambda touch: rows(20, touch),
    "map": lambda touch: rows(20, touch).map(lambda x: x + 1).map(lambda x: x * 2),
    "map above": lambda touch: plain(20).map(lambda x: x + 1).map(touch).map(lambda x: x * 2),
    "filter": lambda touch: rows(20, touch).filter(odd),
    "filter above": lambda touch: plain(20).filter(lambda x: odd(touch(x))).map(lambda x: x + 1),
    "map filter": lambda touch: Map.range(20).filter(odd).map(touch).to_iter_dataset(INLINE),
    "indices": lambda touch: rows(20, touch).filter(odd).map_with_index(add_index),
    "indices above": lambda touch: plain(20).map_with_index(lambda i, x: (i, touch(x))),
    "draws": lambda touch: plain(20).map(touch).random_map(add_draw, seed=1).map(touch),
    "batch": lambda touch: rows(20, touch).filter(odd).batch(3),
    "batch above": lambda touch: plain(20).batch(3, batch_fn=lambda x: touch(np.array(x))),
    "flat map": lambda touch: plain(12).apply(Halves(touch)).batch(2),
    "mix": lambda touch: grain.IterDataset.mix([rows(9, touch), plain(20).map(touch)], [1, 2]),
    "window shuffle": lambda touch: rows(20, touch).window_shuffle(6, seed=1),
    "zip": lambda touch: rows(9, touch).zip(plain(18).batch(2).map(touch)),
    "limit": lambda touch: rows(20, touch).filter(odd).limit(7),
    "repeat": lambda touch: rows(5, touch).batch(2).repeat(3),
    "rebatch": lambda touch: rows(20, touch).batch(6).rebatch(4),
    "unbatch": lambda touch: rows(20, touch).batch(6).unbatch(),
    "interleave": lambda touch: X.InterleaveIterDataset(
        [rows(n, touch) for n in (3, 5, 2)], cycle_length=2
    ),
    "first fit": lambda touch: X.FirstFitPackIterDataset(
        tokens(touch), num_packing_bins=2, **PACKED
    ),
    "concatenation": lambda touch: X.ConcatThenSplitIterDataset(tokens(touch), **PACKED),
    "below a user's iterator": lambda touch: ForwardingIterDataset(rows(20, touch).map(touch)),
}
each_pipeline = pytest.mark.parametrize("name", PIPELINES)


def coded(elements: list[Any]) -> list[Any]:
    return [encode(element) for element in elements]


@each_pipeline
def test_an_interrupted_iterator_resumes_with_exactly_the_next_element(name: str) -> None:
    build = PIPELINES[name]
    touch = Touch(0)
    expected = coded(list(build(touch)))
    interruptions = 0
    for at in range(1, touch.calls + 1):
        iterator = iter(build(Touch(at)))
        found: list[Any] = []
        interrupted = False
        while True:
            try:
                found.append(next(iterator))
            except KeyboardInterrupt:
                interrupted = True
                state = json.loads(json.dumps(iterator.get_state()))
                given = len(found)
            except StopIteration:
                break
        assert coded(found) == expected
        interruptions += interrupted
        if not interrupted:  # Chunks adapt to the speed: a run may call less often than the first.
            continue
        fresh = iter(build(Touch(0)))
        fresh.set_state(state)
        assert coded(list(fresh)) == expected[given:]
    assert interruptions


def test_what_a_function_made_of_ones_own_iterators_element_is_made_again() -> None:
    for at in range(1, 6):
        ds = ForwardingIterDataset(plain(5)).map(Touch(at))
        iterator, found = iter(ds), []
        with pytest.raises(KeyboardInterrupt):
            found.extend(iterator)
        assert [*found, *iterator] == [0, 1, 2, 3, 4]


def test_an_interrupt_strikes_while_the_iterator_goes_back() -> None:
    class Twice(Touch):
        def __call__(self, x: Any) -> Any:
            self.calls += 1
            if self.calls in (self.at, self.at + 1, self.at + 2):
                raise KeyboardInterrupt
            return x

    iterator = iter(rows(10, Twice(4)).filter(odd).batch(2))
    found, interrupts = [], 0
    while len(found) < 5 // 2 + 1:
        try:
            found.append(next(iterator).tolist())
        except KeyboardInterrupt:
            interrupts += 1
    assert interrupts == 3
    assert found == [[1, 3], [5, 7], [9]]


def test_a_state_may_be_set_after_an_interrupt() -> None:
    iterator = iter(rows(10, Touch(6)).batch(2))
    start = iterator.get_state()
    with pytest.raises(KeyboardInterrupt):
        list(iterator)
    iterator.set_state(start)
    assert [batch.tolist() for batch in iterator] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def test_an_interrupted_iterator_that_is_closed_keeps_its_state() -> None:
    iterator = iter(rows(10, Touch(6)).filter(odd))
    found = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(iterator)
    iterator.close()
    with pytest.raises(ValueError, match="closed"):
        next(iterator)
    fresh = iter(rows(10, Touch(0)).filter(odd))
    fresh.set_state(iterator.get_state())
    assert [*found, *fresh] == [1, 3, 5, 7, 9]


# --- states that are refused ---------------------------------------------------------------------


def wrongly(state: Any) -> list[Any]:
    """Return states like the given one, each wrong in one field, and some that are wrong altogether."""
    if isinstance(state, dict):
        found = [{**state, key: wrong} for key, value in state.items() for wrong in wrongly(value)]
        return [*found, *({k: v for k, v in state.items() if k != key} for key in state)]
    if isinstance(state, list):
        return [
            [*state[:place], wrong, *state[place + 1 :]]
            for place, value in enumerate(state)
            for wrong in wrongly(value)
        ]
    return ["wrong", 10**6]


@each_pipeline
@pytest.mark.parametrize("taken", [0, 1, 3])
def test_after_a_state_that_is_refused_the_iterator_resumes_where_it_was(
    name: str, taken: int
) -> None:
    build = PIPELINES[name]
    expected = coded(list(build(Touch(0))))
    start = json.loads(json.dumps(iter(build(Touch(0))).get_state()))
    refused = 0
    for wrong in [None, 3, *wrongly(start)]:
        iterator = iter(build(Touch(0)))
        found = [next(iterator) for _ in range(taken)]
        state = json.loads(json.dumps(iterator.get_state()))
        try:
            iterator.set_state(wrong)
        except Exception:
            refused += 1
        else:
            continue
        assert json.loads(json.dumps(iterator.get_state())) == state
        assert coded([*found, *iterator]) == expected
    assert refused >= 3


# --- threads -------------------------------------------------------------------------------------


class Gated:
    """A source of which one record cannot be had until it is let go; it counts the reads of it."""

    def __init__(self, shut: int):
        self.shut, self.open = shut, threading.Event()
        self.reached = 0

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> int:
        if index == self.shut:
            self.reached += 1
            assert self.open.wait(60)
        return index


@pytest.mark.parametrize("shut", [0, 1, 7, 29])
def test_an_interrupt_while_waiting_for_a_thread_loses_nothing(
    shut: int, interrupt_in_wait: Callable[..., Any]
) -> None:
    source = Gated(shut)
    options = grain.ReadOptions(num_threads=3, prefetch_buffer_size=6)
    iterator = iter(Map.source(source).to_iter_dataset(options).map(lambda x: x))
    iterator.start_prefetch()
    found: list[int] = []
    with pytest.raises(KeyboardInterrupt), interrupt_in_wait(lambda: source.reached > 0):
        found.extend(iterator)
    assert found == list(range(len(found)))
    assert iterator.get_state() == {"next_index": len(found)}
    source.open.set()
    assert [*found, *iterator] == list(range(30))
    assert source.reached == 1, "what was read ahead is not read again"
    iterator.close()


def test_an_interrupt_while_a_thread_reads_an_iterator_ahead_loses_nothing(
    interrupt_in_wait: Callable[..., Any],
) -> None:
    source = Gated(7)
    ds = Map.source(source).to_iter_dataset(INLINE).filter(lambda x: x != 3)
    iterator = iter(X.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=4))
    found: list[int] = []
    with pytest.raises(KeyboardInterrupt), interrupt_in_wait(lambda: source.reached > 0):
        found.extend(iterator)
    assert found == [0, 1, 2, 4, 5, 6][: len(found)]
    source.open.set()
    state = iterator.get_state()
    assert [*found, *iterator] == [x for x in range(30) if x != 3]
    assert source.reached == 1, "what was read ahead is not read again"
    iterator.set_state(state)
    assert [*found, *iterator] == [x for x in range(30) if x != 3]
    iterator.close()
