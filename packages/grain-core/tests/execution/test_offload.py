"""Functions above what depends on order: slow ones are computed by all workers, quick ones here."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.properties.pipelines import Recipe
from tests.properties.strategies import iter_recipes

import grain
from grain._policy import use_policy
from grain.execution import offload

from ..helpers.pipelines import step, steps, with_workers
from .executors import InlineTasks, iterate_inline
from .meeting import Meeting, assert_spread
from .pipelines import FAILING, PIPELINES, OwnIterDataset, heavy, odd, rows

X = grain.experimental


def pid_of(x: Any) -> int:
    return os.getpid()


@pytest.mark.parametrize("kind", ["filter and batch", "packing", "own iterator", "draws"])
def test_a_heavy_function_above_what_depends_on_order_is_computed_by_all_workers(
    kind: str, meet: Meeting
) -> None:
    documents = grain.MapDataset.source([{"x": np.ones(3)} for _ in range(80)]).to_iter_dataset()
    below: grain.IterDataset = {
        "filter and batch": lambda: rows(160).filter(odd).batch(2),
        "packing": lambda: X.FirstFitPackIterDataset(
            documents, length_struct={"x": 4}, num_packing_bins=2
        ),
        "own iterator": lambda: OwnIterDataset(rows(80)),
        "draws": lambda: rows(160).filter(odd).random_map(lambda x, rng: x, seed=1),
    }[kind]()
    pids = list(with_workers(below.map(meet), 2))
    # The first few are tried here; when that takes long, workers are asked.
    here = pids.count(os.getpid())
    assert here <= 8
    assert_spread([pid for pid in pids if pid != os.getpid()], 2)


def test_a_light_function_above_what_depends_on_order_is_computed_here() -> None:
    ds = rows(2000).filter(odd).batch(2).map(pid_of)
    assert set(with_workers(ds, 2)) == {os.getpid()}


@pytest.mark.parametrize("kind", ["random_map", "map_with_index"])
def test_a_heavy_function_that_counts_elements_is_computed_by_all_workers(
    kind: str, meet: Meeting
) -> None:
    ds = rows(160).filter(odd).batch(2)
    if kind == "random_map":
        ds = ds.random_map(lambda x, rng: (meet(x), int(x[0]), float(rng.random())), seed=3)
    else:
        ds = ds.map_with_index(lambda index, x: (meet(x), int(x[0]), index))
    seen = list(with_workers(ds, 2))
    pids = [pid for pid, *_ in seen]
    assert pids.count(os.getpid()) <= 8
    assert_spread([pid for pid in pids if pid != os.getpid()], 2)
    assert [rest for _, *rest in seen] == [rest for _, *rest in ds]


class Clock:
    """Stands in for the module `time` in the offload iterator."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Timed:
    """A function that takes given seconds of a clock; returns whether a worker has computed it."""

    def __init__(self, clock: Clock, executor: InlineTasks, seconds: Callable[[int], float]):
        self.clock, self.executor, self.seconds = clock, executor, seconds

    def __call__(self, x: Any) -> bool:
        self.clock.now += self.seconds(int(x[0]))
        return self.executor.computing


@pytest.fixture
def offloaded(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[bool]]:
    """Return where the elements of a function of known cost are computed, in order."""

    def run(count: int, seconds: Callable[[int], float]) -> list[bool]:
        clock, executor = Clock(), InlineTasks()
        monkeypatch.setattr(offload, "time", clock)
        ds = rows(2 * count).batch(2).filter(lambda x: True)
        return list(iterate_inline(ds.map(Timed(clock, executor, seconds)), executor))

    return run


def test_a_function_is_sent_when_it_takes_longer_than_sending(offloaded: Any) -> None:
    """The costs of the policy: 100 us per message and 10 us per element."""
    assert offloaded(500, lambda x: 300e-6)[-400:] == [True] * 400
    assert not any(offloaded(500, lambda x: 5e-6))


def test_a_function_that_became_quick_is_computed_here_again(offloaded: Any) -> None:
    found = offloaded(1000, lambda x: 0.002 if x < 400 else 1e-6)
    assert found[:200].count(False) <= 8
    assert found[-400:] == [False] * 400


def test_a_heavy_function_keeps_few_elements_waiting() -> None:
    """Slow elements are sent one by one, however many elements the parent returns at once."""
    executor = InlineTasks()
    ds = rows(4000).filter(odd).batch(2)
    with use_policy(message_seconds=0, element_seconds=0, byte_seconds=0):
        iterator = iterate_inline(ds.map(heavy), executor)
    for _ in range(20):
        next(iterator)
        assert executor.in_flight <= 8


def test_an_element_that_cannot_be_sent_is_computed_here() -> None:
    def lock(x: int) -> Any:
        heavy(x)
        return threading.Lock() if x % 3 == 0 else x

    ds = OwnIterDataset(rows(12)).map(lock)
    kinds = [type(element) for element in with_workers(ds, 2)]
    assert kinds == [type(element) for element in ds]
    # And what the function is applied to.
    ds = OwnIterDataset(rows(12)).map(lambda x: threading.Lock()).filter(bool).map(heavy)
    assert len(list(with_workers(ds, 2))) == 12


@pytest.fixture
def all_sent(change_policy: Callable[..., Any]) -> None:
    """Every function above an ordered operation is computed by workers, from its second chunk on."""
    change_policy(offload_evidence=1, message_seconds=0, element_seconds=0, byte_seconds=0)


def _journeys(build: Callable[[], grain.IterDataset], count: int) -> None:
    """To the end, and from every state to the end, with workers as without."""
    with iter(build()) as alone:
        expected = [("start", None, alone.get_state()), *steps(alone)]
    with iter(with_workers(build(), count)) as iterator:
        assert steps(iterator) == expected[1:]
        for place, (_, _, state) in enumerate(expected[:-1]):
            if place % 3 == count % 3:
                iterator.set_state(state)
                assert step(iterator) == expected[place + 1]
        iterator.set_state(expected[0][2])
        assert steps(iterator) == expected[1:]


COUNTING: dict[str, Callable[[], grain.IterDataset]] = {
    "draws of batches": lambda: (
        rows(60).filter(odd).batch(2).random_map(lambda x, rng: x + rng.integers(9), seed=1)
    ),
    "indices above draws": lambda: (
        OwnIterDataset(rows(20))
        .random_map(lambda x, rng: x + rng.integers(9), seed=1)
        .map(lambda x: x + 1)
        .map_with_index(lambda index, x: (index, x))
    ),
}

FAILING_COUNTING: dict[str, Callable[[], grain.IterDataset]] = {
    "the first": lambda: (
        rows(40)
        .filter(odd)
        .map_with_index(lambda index, x: 1 // (x - 13) or (index, x))
        .random_map(lambda x, rng: (x, int(rng.integers(99))), seed=2)
    ),
    "the second": lambda: (
        rows(40)
        .filter(odd)
        .random_map(lambda x, rng: (x, int(rng.integers(99))), seed=2)
        .map_with_index(lambda index, x: 1 // (x[0] - 13) or (index, x))
        .map(lambda x: x)
    ),
    "neither": lambda: (
        rows(40)
        .filter(odd)
        .random_map(lambda x, rng: (x, int(rng.integers(99))), seed=2)
        .map(lambda x: 1 // (x[0] - 13) or x)
        .map_with_index(lambda index, x: (index, x))
    ),
}


@pytest.mark.usefixtures("all_sent")
@pytest.mark.parametrize("name", COUNTING)
def test_functions_that_count_give_the_same_with_workers(name: str) -> None:
    for count in (1, 2, 3):
        _journeys(COUNTING[name], count)


@pytest.mark.usefixtures("all_sent")
@pytest.mark.parametrize("name", FAILING_COUNTING)
def test_functions_that_count_and_fail_give_the_same_with_workers(name: str) -> None:
    assert any(seen[0] == "error" for seen in steps(iter(FAILING_COUNTING[name]())))
    for count in (1, 2, 3):
        _journeys(FAILING_COUNTING[name], count)


@pytest.mark.filterwarnings("ignore:Transformation")
@pytest.mark.usefixtures("all_sent")
@pytest.mark.parametrize("name", [*PIPELINES, *FAILING])
def test_any_pipeline_gives_the_same_when_all_functions_are_sent(name: str) -> None:
    build = (PIPELINES | FAILING)[name]
    with iter(with_workers(build(), 2)) as iterator:
        assert steps(iterator) == steps(iter(build()))


@pytest.mark.filterwarnings("ignore:Transformation")
@pytest.mark.usefixtures("all_sent")
@settings(
    max_examples=200 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 8,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(plan=iter_recipes())
def test_any_drawn_pipeline_gives_the_same_when_all_functions_are_sent(plan: Recipe) -> None:
    with iter(with_workers(plan.build(), 2)) as iterator:
        assert steps(iterator) == steps(iter(plan.build()))


def test_the_next_index_above_functions_that_count_is_known_and_can_be_set() -> None:
    ds = X.WithOptionsIterDataset(rows(60), X.DatasetOptions()).random_map(
        lambda x, rng: (x, int(rng.integers(99))), seed=1
    )
    expected = list(ds)
    with iter(with_workers(ds, 2)) as iterator:
        for index in (0, 7, 30):
            X.set_next_index(iterator, index)
            assert X.get_next_index(iterator) == index
            assert next(iterator) == expected[index]
            assert X.get_next_index(iterator) == index + 1


def test_a_function_that_changes_what_it_is_given_sees_each_element_once() -> None:
    """Those behind an error have been given to the functions below the one that failed."""

    def add_one(batch: Any) -> Any:
        batch += 1
        return batch

    def check(batch: Any) -> Any:
        if batch[0] % 7 == 3:
            raise ValueError(batch[0])
        return batch

    def refuse(batch: Any) -> Any:
        if batch[0] % 11 == 5:
            batch += 100
            raise KeyError(batch[0])
        return batch

    ds = rows(400).filter(lambda x: x % 3).batch(2).map(refuse).map(add_one).map(check)
    expected = steps(iter(ds))
    assert {seen[1][0] for seen in expected if seen[0] == "error"} == {"ValueError", "KeyError"}
    for count in (1, 2):
        with iter(with_workers(ds, count)) as iterator:
            assert steps(iterator) == expected


def test_an_exit_in_a_function_comes_each_time_with_workers_as_without() -> None:
    def leave_at_sixty(batch: Any) -> int:
        heavy(batch)
        if batch[0] == 60:
            raise SystemExit("sixty")
        return int(batch[0])

    def run(dataset: grain.IterDataset) -> list[Any]:
        seen = []
        with iter(dataset) as iterator:
            for _ in range(64):
                try:
                    seen.append((next(iterator), iterator.get_state()))
                except SystemExit as error:
                    seen.append((str(error), iterator.get_state()))
        return seen

    ds = rows(80).filter(lambda x: True).batch(1).map(leave_at_sixty)
    assert run(with_workers(ds, 2)) == run(ds)


def test_an_interrupt_while_what_cannot_be_sent_is_computed_here_loses_nothing() -> None:
    armed = [True]
    host = os.getpid()

    def lock(batch: Any) -> Any:
        heavy(batch)
        if os.getpid() == host and batch[0] >= 30 and armed[0]:
            armed[0] = False
            raise KeyboardInterrupt
        return int(batch[0]), threading.Lock() if batch[0] >= 20 else None

    ds = rows(50).filter(lambda x: True).batch(1).map(lock)
    found = []
    with iter(with_workers(ds, 2)) as iterator:
        while True:
            try:
                found.append(next(iterator)[0])
            except KeyboardInterrupt:
                pass
            except StopIteration:
                break
    assert not armed[0]
    assert found == list(range(50))


class NeedsThree(Exception):
    """An error that cannot be made again of its `args`."""

    def __init__(self, first: Any, second: Any, third: Any):
        super().__init__(first)


def test_an_error_that_cannot_be_sent_is_the_functions_own() -> None:
    def fail(batch: Any) -> Any:
        heavy(batch)
        if batch[0] == 30:
            raise NeedsThree(1, 2, 3)
        return batch

    ds = rows(40).filter(lambda x: True).batch(1).map(fail)
    with iter(with_workers(ds, 2)) as iterator:
        for _ in range(30):
            next(iterator)
        with pytest.raises(NeedsThree):
            next(iterator)
        assert next(iterator)[0] == 31


def test_an_exit_below_a_heavy_function_comes_with_workers_as_without() -> None:
    def leave_at_forty(elements: list[Any]) -> Any:
        if 40 in elements:
            raise SystemExit("forty")
        return np.array(elements)

    ds = rows(60).filter(lambda x: True).batch(1, batch_fn=leave_at_forty).map(heavy)
    for dataset in (ds, with_workers(ds, 2)):
        with iter(dataset) as iterator:
            found: list[int] = []
            for _ in range(2):
                with pytest.raises(SystemExit, match="forty"):
                    found.extend(int(batch[0]) for batch in iterator)
            # It may come early, while elements are sent ahead, but it comes and nothing is passed over.
            assert found == list(range(len(found)))
            assert iterator.get_state() == {"next_index": len(found)}
