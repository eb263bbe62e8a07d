"""A job that resumes with other numbers of hosts and workers: each element once, in the global order."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grain
from grain.experimental import ElasticIterator, Remainder

from .pipelines import (
    ALL,
    BY_INDEX,
    INLINE,
    ITER_OPERATIONS,
    MAP_OPERATIONS,
    Counting,
    Hosts,
    in_order,
    is_kept,
    numbers,
    put_together,
    rows_of,
    stream,
    whole,
)


def given_to_all(rows: list[Any], taken: int, size: int, remainder: Remainder) -> list[Any]:
    """Return the expected rows of hosts from a position of the global stream on."""
    left = rows[taken:]
    missing = -len(left) % size
    match remainder:
        case Remainder.DROP:
            return left[: len(left) // size * size]
        case Remainder.WRAP:
            return left + [rows[i % len(rows)] for i in range(missing)]
        case Remainder.KEEP | Remainder.PAD:
            return left


def check_going_on(make: Callable[[], Any], data: Any) -> None:
    """Draws two jobs over a pipeline and a step between them, and compares with the global stream."""
    remainder = data.draw(st.sampled_from(Remainder), "remainder")
    before, after = (data.draw(st.integers(1, 4), name) for name in ("hosts before", "after"))
    sizes = [count * data.draw(st.integers(1, 4), "rows of a host") for count in (before, after)]
    rows = whole(make())
    stop = data.draw(st.integers(0, math.ceil(len(rows) / sizes[0])), "stop")

    first = Hosts(make, sizes[0], before, remainder=remainder)
    consumed = first.rows(limit=stop)
    state = first.saved()
    second = Hosts(make, sizes[1], after, remainder=remainder)
    second.restore(state)
    assert second.saved() == state
    rest = second.rows()

    taken = min(stop * sizes[0], len(rows))
    if remainder is Remainder.DROP:
        taken = taken // sizes[0] * sizes[0]
    assert state["global_next_index"] == taken
    assert consumed[:taken] == rows[:taken]
    assert rest == given_to_all(rows, taken, sizes[1], remainder)
    # The end is an end on all hosts, and a state too.
    end = second.saved()
    assert second.rows() == []
    second.restore(end)
    assert second.rows() == []


@pytest.mark.parametrize("kind", list(ALL))
@settings(deadline=None, max_examples=12)
@given(data=st.data())
def test_what_n_hosts_gave_and_m_hosts_give_is_the_global_stream(kind: str, data: Any) -> None:
    length = data.draw(st.integers(0, 40), "length")
    check_going_on(lambda: ALL[kind](length), data)


@settings(deadline=None, max_examples=80)
@given(
    length=st.integers(0, 40),
    map_operations=st.lists(st.sampled_from(list(MAP_OPERATIONS)), max_size=3),
    iter_operations=st.none() | st.lists(st.sampled_from(list(ITER_OPERATIONS)), max_size=4),
    data=st.data(),
)
def test_pipelines_put_together_at_random_resume_with_other_hosts(
    length: int, map_operations: list[str], iter_operations: list[str] | None, data: Any
) -> None:
    check_going_on(lambda: put_together(length, map_operations, iter_operations), data)


@pytest.mark.parametrize(
    ("kind", "before", "workers", "after", "others"),
    [
        ("shuffled", 2, 1, 1, 2),
        ("shuffled", 1, 2, 2, 0),
        ("filtered", 2, 1, 1, 1),
        ("filtered stream", 1, 2, 2, 1),
        ("first fit", 2, 0, 1, 2),
        ("mixed streams", 1, 1, 2, 0),
        ("a user's stream, filtered", 1, 1, 1, 0),
    ],
)
def test_worker_processes_change_neither_what_is_given_nor_the_state(
    kind: str, before: int, workers: int, after: int, others: int
) -> None:
    def make() -> Any:
        return ALL[kind](40)

    rows = whole(make())
    first = Hosts(make, 4, before, multiprocessing_options=processes(workers), remainder="keep")
    second = Hosts(make, 4, after, multiprocessing_options=processes(others), remainder="keep")
    alone = Hosts(make, 4, 1, remainder="keep")
    try:
        given = first.rows(limit=3)
        assert alone.rows(limit=3) == given
        state = first.saved()
        assert state == alone.saved()
        second.restore(state)
        assert given + second.rows() == rows
    finally:
        first.close()
        second.close()


def processes(count: int) -> grain.MultiprocessingOptions | None:
    return grain.MultiprocessingOptions(num_workers=count) if count else None


@pytest.mark.parametrize("kind", list(BY_INDEX))
def test_of_what_is_found_by_index_a_host_computes_only_its_part(kind: str) -> None:
    computed: list[int] = []

    def note(element: Any) -> Any:
        computed.append(element["x"])
        return element

    rows = whole(BY_INDEX[kind](24))
    hosts = Hosts(lambda: BY_INDEX[kind](24).map(note), 4, 4)
    next(hosts.iterators[1])
    # Nothing is computed to get to a place either.
    hosts.iterators[1].set_state({"global_next_index": 16})
    next(hosts.iterators[1])
    own = [row["x"] for row in (rows[1], *rows[17::4])]
    assert len(computed) >= 2
    assert computed == own[: len(computed)]


def test_a_state_of_what_is_found_by_index_is_the_references() -> None:
    hosts = Hosts(lambda: BY_INDEX["shuffled"](24), 4, 2)
    hosts.rows(limit=2)
    assert hosts.saved() == {"global_next_index": 8}


@pytest.mark.parametrize(
    "make",
    [
        lambda: numbers(10).shuffle(seed=1).repeat(),
        lambda: numbers(10).filter(is_kept).repeat(),
        lambda: stream(10).repeat(),
    ],
    ids=["index", "filtered", "stream"],
)
def test_data_without_end_resumes_with_other_hosts(make: Callable[[], Any]) -> None:
    two, three = Hosts(make, 6, 2), Hosts(make, 6, 3)
    two.rows(limit=7)
    three.restore(two.saved())
    assert three.rows(limit=5) == two.rows(limit=5) != []


def test_hosts_know_how_many_steps_there_are_where_that_can_be_known() -> None:
    for remainder, steps in [("drop", 2), ("keep", 3), ("pad", 3), ("wrap", 3)]:
        for make in (lambda: numbers(11), lambda: stream(11)):
            hosts = Hosts(make, 4, 2, remainder=remainder)
            assert [len(iterator) for iterator in hosts.iterators] == [steps, steps]
            assert len(list(hosts.steps())) == steps
    with pytest.raises(TypeError, match="len"):
        len(Hosts(lambda: numbers(11).filter(is_kept), 4, 1).iterators[0])


@pytest.mark.parametrize("make", [lambda: numbers(3), lambda: stream(3)], ids=["index", "stream"])
def test_hosts_without_a_row_of_the_last_step_get_an_empty_batch_of_the_same_kind(
    make: Callable[[], Any],
) -> None:
    ((full, _), (short, empty)) = Hosts(make, 2, 2, remainder="keep").steps()
    assert full["x"].shape == short["x"].shape == (1,)
    assert empty["x"].shape == (0,)
    assert empty["x"].dtype == full["x"].dtype
    (_, (padded, blank)) = Hosts(make, 2, 2, remainder="pad").steps()
    assert (padded["mask"].tolist(), blank["mask"].tolist()) == ([True], [False])
    assert blank["x"].tolist() == [0]
    (_, (_, wrapped)) = Hosts(make, 2, 2, remainder="wrap").steps()
    assert rows_of(wrapped) == whole(make())[:1]


def test_an_element_that_fails_is_gone_for_all_hosts_alike() -> None:
    def fails(element: Any) -> Any:
        if element["x"] == 6:
            raise ValueError("bad element")
        return element

    def make() -> Any:
        return numbers(12).to_iter_dataset(INLINE).map(fails).filter(lambda e: e["x"] != 2)

    hosts = Hosts(make, 4, 2, remainder="keep")
    given = hosts.rows(limit=1)
    state = hosts.saved()
    for _ in range(2):
        for iterator in hosts.iterators:
            with pytest.raises(ValueError, match="bad element"):
                next(iterator)
        # The place is still that before the step, and what was read of it is not lost.
        assert hosts.saved() == state
        assert given + hosts.rows() == [{"x": x} for x in range(1, 13) if x not in (2, 6)]
        hosts.restore(state)


def test_operations_behind_an_elastic_iterator_that_keep_nothing_back_resume_with_other_hosts() -> (
    None
):
    def doubled(hosts: Hosts) -> list[Any]:
        return [iter(it.map(lambda batch: {"x": batch["x"] * 2})) for it in hosts.iterators]

    def make() -> Any:
        return stream(16).filter(is_kept)

    rows = [{"x": row["x"] * 2} for row in whole(make())]
    before = doubled(Hosts(make, 4, 2))
    given = in_order([next(iterator) for iterator in before])
    state = ElasticIterator.merge_states([iterator.get_state() for iterator in before])
    (after,) = doubled(Hosts(make, 2, 1))
    after.set_state(state)
    assert given + [row for batch in after for row in rows_of(batch)] == rows[: len(rows) // 2 * 2]


@pytest.mark.parametrize(
    "make", [lambda: numbers(20), lambda: Counting(20)], ids=["index", "stream"]
)
def test_an_elastic_iterator_is_pickled_as_at_its_beginning(make: Callable[[], Any]) -> None:
    (iterator,) = Hosts(make, 4, 1).iterators
    first = rows_of(next(iterator))
    again = cloudpickle.loads(cloudpickle.dumps(iterator))
    assert rows_of(next(again)) == first
    assert again.get_state() == iterator.get_state()


@pytest.mark.parametrize("make", [lambda: numbers(20), lambda: stream(20)], ids=["index", "stream"])
def test_a_dropped_elastic_iterator_goes_at_once(make: Callable[[], Any]) -> None:
    (iterator,) = Hosts(make, 4, 1).iterators
    next(iterator)
    batches = weakref.ref(iter(iterator)._batches)
    gc.disable()
    try:
        del iterator
        assert batches() is None
    finally:
        gc.enable()
