"""Each operation has one stream and one state for any number of worker processes."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import grain
from grain import experimental as ex

from .rows import INLINE, ITERATORS, NO_STREAM, OPERATIONS, numbers, place_of, records

Plain = Callable[[Any], Any]


def walk(iterator: Any, plain: Plain) -> tuple[list[Any], list[Any]]:
    """All elements, and the state before the first and after each."""
    elements, states = [], [iterator.get_state()]
    for element in iterator:
        elements.append(plain(element))
        states.append(iterator.get_state())
    return elements, states


def assert_resumes(
    iterator: Any, elements: list[Any], states: list[Any], step: int, plain: Plain, most: int
) -> None:
    """Assert that an iterator resumes from a state of the walk."""
    iterator.set_state(states[step])
    assert place_of(iterator.get_state()) == place_of(states[step]), (
        f"the state that was set, step {step}"
    )
    for place in range(step, min(step + most, len(elements))):
        assert plain(next(iterator)) == elements[place], f"element {place} from step {step}"
        state = iterator.get_state()
        assert place_of(state) == place_of(states[place + 1]), f"state {place + 1} from step {step}"
    if step + most > len(elements):
        with pytest.raises(StopIteration):
            next(iterator)


@contextlib.contextmanager
def closing(iterator: Any) -> Iterator[Any]:
    yield iterator
    if hasattr(iterator, "close"):
        iterator.close()


def assert_same(make: Callable[[int], Any], workers: int, plain: Plain) -> None:
    """Checks elements, states and resuming with workers against those without.

    One pool of workers does it all: states are set on a running iterator.
    """
    with closing(make(0)) as alone:
        elements, states = walk(alone, plain)
    assert len(elements) > 1
    steps = list(range(len(states)))
    with closing(make(workers)) as parallel:
        # The states are those without workers, so a state saved with any number resumes with any other.
        assert walk(parallel, plain) == (elements, states)
        assert_resumes(parallel, elements, states, 0, plain, most=len(states))
        # Forwards and backwards: each state is set twice, coming from different places.
        for step in (*steps, *reversed(steps)):
            assert_resumes(parallel, elements, states, step, plain, most=1)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", OPERATIONS)
def test_one_stream_and_one_state(
    name: str, workers: int, tmp_path: pathlib.Path, as_plain: Plain
) -> None:
    ds = OPERATIONS[name](tmp_path)

    def make(count: int) -> Any:
        return iter(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=count)))

    assert_same(make, workers, as_plain)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", ITERATORS)
def test_one_stream_and_one_state_of_what_starts_workers_itself(
    name: str, workers: int, tmp_path: pathlib.Path, as_plain: Plain
) -> None:
    assert_same(lambda count: ITERATORS[name](tmp_path, count), workers, as_plain)


def test_every_public_name_has_a_row() -> None:
    rows = {*OPERATIONS, *ITERATORS, *NO_STREAM}
    assert rows == set(ex.__all__)


def test_an_index_is_counted_and_set_with_workers_as_without() -> None:
    ds = numbers(30).map_with_index(lambda i, x: (i, x)).batch(4, batch_fn=list)
    plain = list(ds)
    with iter(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))) as iterator:
        assert next(iterator) == plain[0]
        assert ex.get_next_index(iterator) == 1
        ex.set_next_index(iterator, 5)
        assert ex.get_next_index(iterator) == 5
        assert list(iterator) == plain[5:]


def test_streams_that_cannot_be_divided_are_read_by_workers(tmp_path: pathlib.Path) -> None:
    files = [records(tmp_path, count) for count in (4, 5, 6)]
    ds = ex.InterleaveIterDataset(files, cycle_length=2)
    expected = list(ds)
    with iter(ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))) as iterator:
        assert [next(iterator) for _ in range(5)] == expected[:5]
        state = iterator.get_state()
        assert list(iterator) == expected[5:]
        iterator.set_state(state)
        assert list(iterator) == expected[5:]
    fresh = iter(ds)
    fresh.set_state(state)
    assert list(fresh) == expected[5:]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("count", [1, 3])
def test_shards_of_an_elastic_iterator_are_the_whole_with_any_workers(
    count: int, workers: int
) -> None:
    whole = grain.MapDataset.range(17).shuffle(4)
    shards = [
        ex.ElasticIterator(
            whole,
            6,
            grain.sharding.ShardOptions(index, count),
            remainder="keep",
            read_options=INLINE,
            multiprocessing_options=grain.MultiprocessingOptions(num_workers=workers),
        )
        for index in range(count)
    ]
    found = []
    for step in range(3):
        found += [int(x) for shard in shards for x in next(shard)]
        assert len({json.dumps(shard.get_state()) for shard in shards}) == 1, f"step {step}"
    assert sorted(found) == list(range(17))
    for shard in shards:
        with pytest.raises(StopIteration):
            next(shard)
        iter(shard).close()
