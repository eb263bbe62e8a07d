"""Tuning runs what it chooses from, keeps to its limits, and leaves the stream alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import grain
from grain.execution import measurement, tuning
from grain.execution.measurement import ReadMeasurement, Stopwatch
from grain.execution.tuning_report import TuningCandidate
from grain.experimental import (
    PerformanceConfig,
    ThreadPrefetchIterDataset,
    autotune,
    get_element_spec,
    pick_performance_config,
)

from ..helpers.pipelines import INLINE

FREE: dict[str, Any] = {"ram_budget_mb": 1024, "max_workers": 4, "max_buffer_size": None}
MEGABYTE = 1 << 20

Rate = Callable[[TuningCandidate], float]


def candidate_of(ds: Any) -> TuningCandidate:
    """Return the options of a dataset."""
    workers, ahead = 0, 1
    if type(ds).__name__ == "ProcessPrefetchIterDataset":
        workers, ahead = ds._options.num_workers, ds._options.per_worker_buffer_size
    while not hasattr(ds, "read_options"):
        if not ds._parents:
            return TuningCandidate(workers=workers, worker_buffer=ahead, threads=0, buffer=0)
        ds = ds._parents[0]
    options = ds.read_options
    return TuningCandidate(
        workers=workers,
        worker_buffer=ahead,
        threads=options.num_threads,
        buffer=options.prefetch_buffer_size,
    )


class Machine:
    """A made-up machine: how fast candidates are, what they take, and what time it is."""

    def __init__(self, rate: Rate, nbytes: int = 1000, worker_bytes: int = 0, whole: bool = False):
        self.rate = rate
        self.nbytes = nbytes
        self.worker_bytes = worker_bytes
        self.whole = whole
        self.now = 0.0
        self.asked: list[tuple[TuningCandidate, float, int]] = []

    def measure(self, ds: Any, *, seconds: float, samples: int) -> ReadMeasurement:
        candidate = candidate_of(ds)
        self.asked.append((candidate, seconds, samples))
        self.now += seconds
        return ReadMeasurement(
            elements=round(1000 * self.rate(candidate)),
            seconds=1000.0 if not self.whole else 0.01,
            nbytes=self.nbytes,
            worker_bytes=candidate.workers * self.worker_bytes,
            whole=self.whole,
        )

    def search(
        self,
        *,
        memory: int | None = None,
        workers: int = 8,
        buffer: int = 500,
        samples: int = 5,
        seconds: float = 100.0,
        ds: Any = None,
    ) -> tuning.TuningReport:
        if ds is None:
            ds = grain.MapDataset.range(10).to_iter_dataset()
        limits = tuning.Limits(
            memory=memory, workers=workers, buffer=buffer, samples=samples, seconds=seconds
        )
        return tuning.search(ds, limits, self.measure, lambda: self.now)


def chosen(report: tuning.TuningReport) -> TuningCandidate:
    assert report.chosen is not None
    return report.chosen


def test_workers_are_added_as_long_as_they_make_it_faster() -> None:
    machine = Machine(lambda c: 100.0 * min(4, max(1, c.workers)))
    report = machine.search()
    assert chosen(report).workers == 4
    assert [t.candidate.workers for t in report.trials if t.candidate.worker_buffer == 1] == [
        *[0, 0, 0],
        *[2, 4, 8],
        4,
    ]


@pytest.mark.parametrize(("most", "tried"), [(0, []), (1, [1]), (3, [2, 3]), (6, [2, 4, 6])])
def test_there_are_never_more_workers_than_allowed(most: int, tried: list[int]) -> None:
    machine = Machine(lambda c: 100.0 * (1 + c.workers))
    report = machine.search(workers=most)
    assert chosen(report).workers == most
    found = [c.workers for c, _, _ in machine.asked if c.workers]
    assert sorted(set(found)) == tried


def test_workers_that_bring_little_are_not_started() -> None:
    machine = Machine(lambda c: 100.0 + c.workers)
    report = machine.search()
    assert chosen(report).workers == 0
    assert [c.workers for c, _, _ in machine.asked] == [0, 0, 0, 2, 0]


def test_threads_are_taken_where_reading_waits() -> None:
    assert chosen(Machine(lambda c: 10.0 * max(1, c.threads)).search()).threads == 64
    assert chosen(Machine(lambda c: 10.0 * min(16, max(1, c.threads))).search()).threads == 16
    assert chosen(Machine(lambda c: 100.0 / (1 + c.threads)).search()).threads == 0


def test_threads_that_cost_nothing_are_kept_for_a_consumer_that_waits() -> None:
    assert chosen(Machine(lambda c: 100.0).search()).threads == 16


def test_what_reads_no_map_dataset_gets_no_threads() -> None:
    class Lines(grain.IterDataset):
        def __iter__(self) -> Any:
            raise AssertionError("The measurer reads.")

    machine = Machine(lambda c: 100.0 * (1 + c.workers))
    report = machine.search(ds=Lines(), workers=2)
    assert {t.candidate.threads for t in report.trials} == {0}
    assert chosen(report).workers == 2


@pytest.mark.parametrize("best", [1, 4, 16])
def test_workers_are_ahead_by_as_many_elements_as_pay(best: int) -> None:
    machine = Machine(lambda c: 100.0 * (1 + c.workers) * min(best, c.worker_buffer))
    assert chosen(machine.search(workers=2)).worker_buffer == best


def test_buffers_that_bring_nothing_are_made_smaller() -> None:
    assert chosen(Machine(lambda c: 100.0).search()).buffer == 32
    assert chosen(Machine(lambda c: 100.0 + c.buffer).search()).buffer == 500


@pytest.mark.parametrize("nbytes", [1, 100_000, MEGABYTE, 30 * MEGABYTE])
@pytest.mark.parametrize("workers", [0, 4])
def test_what_is_kept_ready_stays_below_the_budget(nbytes: int, workers: int) -> None:
    machine = Machine(lambda c: 100.0 * (1 + c.workers) + c.buffer, nbytes=nbytes)
    report = machine.search(memory=200 * MEGABYTE, workers=workers)
    assert chosen(report).kept() * nbytes <= 200 * MEGABYTE
    assert all(c.buffer <= 500 for c, _, _ in machine.asked)


def test_workers_whose_memory_is_over_the_budget_are_not_chosen() -> None:
    machine = Machine(lambda c: 100.0 * (1 + c.workers), worker_bytes=50 * MEGABYTE)
    report = machine.search(memory=120 * MEGABYTE)
    assert chosen(report).workers == 2
    refused = [t for t in report.trials if t.candidate.workers == 4]
    assert refused[0].verdict == "over the budget of 120 MB"
    assert chosen(machine.search(memory=None)).workers == 8


def test_memory_that_the_system_does_not_report_is_no_obstacle() -> None:
    class Silent(Machine):
        def measure(self, ds: Any, *, seconds: float, samples: int) -> ReadMeasurement:
            seen = super().measure(ds, seconds=seconds, samples=samples)
            unknown = None if candidate_of(ds).workers else 0
            return ReadMeasurement(
                elements=seen.elements,
                seconds=seen.seconds,
                nbytes=seen.nbytes,
                worker_bytes=unknown,
            )

    report = Silent(lambda c: 100.0 * (1 + c.workers)).search(memory=MEGABYTE, workers=4)
    assert chosen(report).workers == 4


def test_the_time_is_divided_and_kept() -> None:
    machine = Machine(lambda c: 100.0 * (1 + c.workers) * c.worker_buffer)
    machine.search(seconds=2.0)
    assert sum(seconds for _, seconds, _ in machine.asked) <= 2.0
    assert min(seconds for _, seconds, _ in machine.asked) > 0.0
    assert {samples for _, _, samples in machine.asked} == {5}


def test_candidates_without_time_are_reported() -> None:
    class Slow(Machine):
        def measure(self, ds: Any, *, seconds: float, samples: int) -> ReadMeasurement:
            self.now += 5.0
            return super().measure(ds, seconds=seconds, samples=samples)

    report = Slow(lambda c: 100.0 * (1 + c.threads)).search(seconds=8.0)
    assert [t.verdict for t in report.trials[:2]] == ["", "chosen"]
    assert {t.verdict for t in report.trials[2:]} == {"not tried: the time was up"}
    assert chosen(report).threads == 16


def test_a_candidate_that_fails_is_reported_and_not_chosen() -> None:
    class Picky(Machine):
        def measure(self, ds: Any, *, seconds: float, samples: int) -> ReadMeasurement:
            if candidate_of(ds).workers:
                raise ValueError("cannot be pickled\nand more")
            return super().measure(ds, seconds=seconds, samples=samples)

    report = Picky(lambda c: 100.0).search()
    assert chosen(report).workers == 0
    assert "failed: ValueError: cannot be pickled" in [t.verdict for t in report.trials]


def test_a_dataset_that_fails_by_itself_is_an_error() -> None:
    def fail(x: int) -> int:
        raise ValueError("bad element")

    ds = grain.MapDataset.range(5).map(fail).to_iter_dataset()
    with pytest.raises(ValueError, match="bad element"):
        pick_performance_config(ds, **FREE)


def test_a_dataset_that_is_over_at_once_is_measured_once() -> None:
    machine = Machine(lambda c: 0.1, whole=True)
    report = machine.search()
    assert len(report.trials) == 1
    assert chosen(report).workers == 0


def test_a_report_is_a_table() -> None:
    machine = Machine(lambda c: 100.0 * (1 + c.workers), worker_bytes=50 * MEGABYTE)
    report = machine.search(memory=220 * MEGABYTE, workers=8)
    assert repr(report) == str(report)
    assert str(report).splitlines() == [
        "workers  worker buffer  threads  buffer  elements/s     MB",
        "      0              -        0       0         100    0.0",
        "      0              -       16     500         100    0.5",
        "      0              -       64     500         100    0.5  not better",
        "      2              1       16     500         300  101.0",
        "      4              1       16     500         500  201.9",
        "      8              1       16     500         900  403.8  over the budget of 220 MB",
        "      4              1       16      32         500  200.1  chosen",
        "7 candidates in 7.0 s",
    ]


# Measuring


class Ticking:
    """A clock that a dataset moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def watched(clock: Ticking) -> Stopwatch:
    return Stopwatch(clock, lambda: frozenset(), lambda pids: 0)


class OneByOne(grain.IterDataset):
    """Gives elements one at a time, and moves a clock for each."""

    def __init__(self, clock: Ticking, count: int, seconds: float, start: float = 0.0):
        super().__init__()
        self.clock, self.count, self.seconds, self.start = clock, count, seconds, start

    def __iter__(self) -> grain.DatasetIterator:
        return OneByOneIterator(self)


class OneByOneIterator(grain.DatasetIterator):
    def __init__(self, ds: OneByOne):
        super().__init__()
        self.ds, self.place = ds, 0

    def __next__(self) -> np.ndarray:
        if self.place == self.ds.count:
            raise StopIteration
        self.ds.clock.now += self.ds.seconds + (0.0 if self.place else self.ds.start)
        self.place += 1
        return np.zeros(self.place)

    def get_state(self) -> int:
        return self.place

    def set_state(self, state: int) -> None:
        self.place = state


def test_the_start_is_not_counted() -> None:
    clock = Ticking()
    seen = watched(clock)(OneByOne(clock, 1000, 0.25, start=50.0), seconds=5.0, samples=3)
    assert (seen.elements, seen.seconds, seen.rate) == (20, 5.0, 4.0)
    assert seen.nbytes == 8 * 23
    assert not seen.whole


def test_few_elements_are_all_counted() -> None:
    for count in (1, 3):
        clock = Ticking()
        seen = watched(clock)(OneByOne(clock, count, 0.5), seconds=5.0, samples=3)
        assert (seen.elements, seen.seconds, seen.whole) == (count, 0.5 * count, True)
    seen = watched(clock)(OneByOne(clock, 4, 0.5), seconds=5.0, samples=3)
    assert (seen.elements, seen.seconds, seen.whole) == (1, 0.5, True)


def test_elements_that_come_rarely_are_waited_for_but_not_for_ever() -> None:
    clock = Ticking()
    seen = watched(clock)(OneByOne(clock, 1000, 2.0), seconds=5.0, samples=4)
    assert (seen.elements, seen.seconds) == (4, 8.0)
    seen = watched(clock)(OneByOne(clock, 1000, 20.0), seconds=5.0, samples=4)
    assert (seen.elements, seen.seconds) == (1, 20.0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_memory_of_workers_is_counted_for_every_pool_of_a_process() -> None:
    ds = grain.MapDataset.range(100).to_iter_dataset().mp_prefetch(num_workers=2)
    for _ in range(2):
        seen = measurement.Stopwatch()(ds, seconds=0.0, samples=3)
        assert seen.worker_bytes is not None
        assert seen.worker_bytes > MEGABYTE


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_processes_and_their_memory_are_found() -> None:
    before = measurement.descendant_processes()
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        new = measurement.descendant_processes() - before
        assert process.pid in new
        memory = measurement.memory_of(frozenset([process.pid]))
        assert memory is not None
        assert 100_000 < memory < 1 << 30
        process.communicate(b"\n")
    assert process.pid not in measurement.descendant_processes()
    assert measurement.memory_of(frozenset([process.pid])) in (0, None)


# The public functions


def slow_to_compute(x: int) -> np.ndarray:
    total = 0
    for number in range(20_000):
        total += number
    return np.full(100, x + total % 2)


def test_a_real_dataset_is_tuned_and_stays_what_it_is() -> None:
    ds = (
        grain.MapDataset.range(100_000)
        .shuffle(3)
        .map(slow_to_compute)
        .to_iter_dataset(INLINE)
        .filter(lambda x: x[0] % 3 != 0)
        .random_map(lambda x, rng: (x.sum(), rng.random()), seed=1)
        .batch(2)
    )
    tuned = autotune(ds, ram_budget_mb=1024, max_workers=2, time_budget_seconds=2.0)
    trials = tuned.report.trials
    assert {0, 2} <= {t.candidate.workers for t in trials}
    measured = [t.measured for t in trials if t.measured is not None]
    assert all(m.rate > 0 and m.nbytes >= 32 for m in measured)
    with_workers = [t for t in trials if t.candidate.workers and t.measured is not None]
    if sys.platform == "linux" and with_workers:
        assert all(t.memory is not None and t.memory > MEGABYTE for t in with_workers)
    plain = iter(ds)
    with iter(tuned) as other:
        for _ in range(5):
            for mine, theirs in zip(next(plain), next(other), strict=True):
                assert mine.tolist() == theirs.tolist()
            assert plain.get_state() == other.get_state()
    assert ds._parent._parent._parent.read_options == INLINE


def test_a_tuned_dataset_is_a_dataset_like_any_other(resumes: Callable[..., Any]) -> None:
    ds = grain.MapDataset.source(np.zeros((12, 3))).to_iter_dataset()
    tuned = autotune(ds, max_workers=0)
    assert len(tuned) == 12
    assert get_element_spec(tuned) == get_element_spec(ds)
    assert len(resumes(lambda: tuned.map(lambda x: x + 1).batch(5))) == 3
    again = autotune(tuned, max_workers=0)
    assert len(list(again)) == 12


def test_a_config_is_what_callers_of_it_expect() -> None:
    ds = grain.MapDataset.range(10).to_iter_dataset()
    config = pick_performance_config(ds, **(FREE | {"max_workers": 1}))
    assert type(config) is PerformanceConfig
    assert list(ds.mp_prefetch(config.multiprocessing_options)) == list(range(10))
    options = config.read_options
    assert list(grain.MapDataset.range(10).to_iter_dataset(options)) == list(range(10))
    config.read_options = grain.ReadOptions()
    assert config == PerformanceConfig(config.multiprocessing_options, grain.ReadOptions())


@pytest.mark.parametrize(
    ("kilobytes", "budget", "workers", "buffer", "expected"),
    [
        # Recorded from google/grain 0.2.18: workers, buffer.
        (1, 16, 4, None, (4, 1000)),
        (1, 16, 0, 10, (0, 10)),
        (100, 16, 4, None, (4, 167)),
        (100, 64, 4, None, (4, 671)),
        (1000, 16, 4, None, (4, 16)),
        (1000, 64, 4, 10, (4, 10)),
        (10000, 16, 4, None, (1, 1)),
        (10000, 64, 4, None, (4, 6)),
        (10000, 1024, 4, None, (4, 107)),
        (10000, 16, 0, 10, (0, 1)),
    ],
)
def test_options_are_picked_from_the_size_of_elements_and_budgets(
    kilobytes: int, budget: int, workers: int, buffer: int | None, expected: tuple[int, int]
) -> None:
    ds = grain.MapDataset.range(9).map(lambda x: np.zeros(kilobytes * 250, np.float32))
    config = pick_performance_config(
        ds.to_iter_dataset(), ram_budget_mb=budget, max_workers=workers, max_buffer_size=buffer
    )
    assert config.multiprocessing_options is not None
    assert config.read_options is not None
    found = config.multiprocessing_options.num_workers, config.read_options.prefetch_buffer_size
    assert found == expected
    assert config.read_options.num_threads == 16


def test_an_empty_dataset_gets_all_that_is_allowed() -> None:
    empty = grain.MapDataset.range(0).to_iter_dataset()
    config = pick_performance_config(empty, ram_budget_mb=1, max_workers=2, max_buffer_size=20)
    assert config == PerformanceConfig(
        grain.MultiprocessingOptions(num_workers=2), grain.ReadOptions(prefetch_buffer_size=20)
    )
    assert list(autotune(empty)) == []


def test_what_was_computed_ahead_before_is_tuned_as_a_whole() -> None:
    started: list[int] = []
    ds = grain.MapDataset.range(9).to_iter_dataset()
    ds = ThreadPrefetchIterDataset(ds, prefetch_buffer_size=20)
    ds = ds.mp_prefetch(
        grain.MultiprocessingOptions(num_workers=3), lambda index, count: started.append(index)
    )
    some = TuningCandidate(workers=2, worker_buffer=4, threads=3, buffer=7)
    tuned = tuning.run_with(ds, some)
    assert candidate_of(tuned) == some
    assert type(tuned._parent).__name__ == "PrefetchIterDataset"
    assert tuned.worker_init_fn is ds.worker_init_fn


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"ram_budget_mb": 0}, ValueError),
        ({"ram_budget_mb": "1"}, TypeError),
        ({"max_workers": -1}, ValueError),
        ({"max_buffer_size": 0}, ValueError),
        ({"samples_to_check": 0}, ValueError),
        ({"max_workers": "4"}, TypeError),
    ],
)
def test_wrong_limits_are_errors(wrong: dict[str, Any], error: type[Exception]) -> None:
    ds = grain.MapDataset.range(10).to_iter_dataset()
    with pytest.raises(error, match=next(iter(wrong))):
        pick_performance_config(ds, **(FREE | wrong))
    with pytest.raises(error, match=next(iter(wrong))):
        autotune(ds, **wrong)


def test_a_time_budget_must_be_positive() -> None:
    ds = grain.MapDataset.range(10).to_iter_dataset()
    with pytest.raises(ValueError, match="time_budget_seconds must be positive, got 0"):
        autotune(ds, time_budget_seconds=0)


def test_only_datasets_are_tuned() -> None:
    with pytest.raises(TypeError, match="dataset"):
        pick_performance_config([1, 2], **FREE)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="to_iter_dataset"):
        autotune(grain.MapDataset.range(3))  # type: ignore[arg-type]


def test_the_number_of_processors_is_known() -> None:
    assert 1 <= measurement.processors() <= (os.cpu_count() or 1)
