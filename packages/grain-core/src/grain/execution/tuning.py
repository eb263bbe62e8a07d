"""Autotuning: choice of workers, threads and buffers by measuring candidates."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import time
from collections.abc import Callable
from typing import Any, TypeVar

from grain import tree
from grain._policy import DEFAULT_POLICY, current_policy
from grain.dataset.base import IterDataset, MapDataset, TransparentIterDataset
from grain.dataset.prefetch import ProcessPrefetchIterDataset
from grain.dataset.to_iter import PrefetchIterDataset
from grain.execution.measurement import (
    Clock,
    Measurer,
    ReadMeasurement,
    Stopwatch,
    processors,
)
from grain.execution.thread_prefetch import ThreadPrefetchIterDataset
from grain.execution.tuning_report import Trial, TuningCandidate, TuningReport
from grain.options import MultiprocessingOptions, ReadOptions, checked_int

T = TypeVar("T")


@dataclasses.dataclass
class PerformanceConfig:
    """Options for reading a dataset.

    Attributes:
        multiprocessing_options: Options for `IterDataset.mp_prefetch`.
        read_options: Options for `MapDataset.to_iter_dataset`.
    """

    multiprocessing_options: MultiprocessingOptions | None = None
    read_options: ReadOptions | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of tuning.

    Attributes:
        memory: Most bytes of worker processes and elements kept ready; None is no limit.
        workers: Most worker processes.
        buffer: Most elements that each process keeps ready.
        samples: Elements with which each candidate warms up.
        seconds: Approximate time of all measurements.
    """

    memory: int | None
    workers: int
    buffer: int
    samples: int
    seconds: float


def pick_performance_config(
    ds: IterDataset[Any],
    *,
    ram_budget_mb: int | None,
    max_workers: int | None,
    max_buffer_size: int | None,
    samples_to_check: int = 5,
) -> PerformanceConfig:
    """Return options for a dataset, from the size of its elements and budgets; nothing is timed.

    As many elements are kept ready as fit into the memory, up to `max_buffer_size`; no more workers are
    started than elements fit. `autotune` measures instead.

    Args:
        ds: The dataset; it is not changed.
        ram_budget_mb: Memory for elements kept ready, in megabytes; None is no limit.
        max_workers: Most worker processes; None is one per processor.
        max_buffer_size: Most elements that each process keeps ready; None is 1000.
        samples_to_check: Elements whose size is taken.

    >>> import grain
    >>> config = pick_performance_config(
    ...     grain.MapDataset.range(100).to_iter_dataset(),
    ...     ram_budget_mb=64,
    ...     max_workers=4,
    ...     max_buffer_size=50,
    ... )
    >>> config.multiprocessing_options.num_workers, config.read_options.prefetch_buffer_size
    (4, 50)
    """
    if not isinstance(ds, (IterDataset, MapDataset)):
        raise TypeError(f"ds must be a dataset, got {ds!r} of type {type(ds).__name__}.")
    policy = current_policy()
    limits = _limits(
        ram_budget_mb,
        max_workers,
        policy.picked_buffer if max_buffer_size is None else max_buffer_size,
        samples_to_check,
        policy.tuning_seconds,
    )
    with contextlib.closing(iter(ds)) as iterator:
        sizes = [tree.nbytes(element) for element in itertools.islice(iterator, limits.samples)]
    fitting = limits.buffer
    workers = limits.workers
    if limits.memory is not None and sizes:
        fitting = int(limits.memory / max(1.0, sum(sizes) / len(sizes)))
        workers = min(workers, fitting)
    return PerformanceConfig(
        MultiprocessingOptions(num_workers=workers),
        ReadOptions(prefetch_buffer_size=max(1, min(fitting, limits.buffer))),
    )


def autotune(
    ds: IterDataset[T],
    *,
    ram_budget_mb: int | None = 1024,
    max_workers: int | None = None,
    max_buffer_size: int | None = None,
    samples_to_check: int = 5,
    time_budget_seconds: float = DEFAULT_POLICY.tuning_seconds,
) -> TunedIterDataset[T]:
    """Return the dataset with the options that measured best, and the measurements as its `report`.

    Elements, their order and states do not change.

    Args:
        ds: The dataset; it is not changed.
        ram_budget_mb: Memory for worker processes and elements kept ready, in megabytes; None is no limit.
        max_workers: Most worker processes; None is one per processor.
        max_buffer_size: Most elements that each process keeps ready; None is the default of
            `grain.ReadOptions`.
        samples_to_check: Elements with which each trial warms up before it is timed.
        time_budget_seconds: Approximate time of all measurements.

    >>> import grain
    >>> tuned = autotune(grain.MapDataset.range(4).to_iter_dataset().batch(2))
    >>> list(tuned)
    [array([0, 1]), array([2, 3])]
    >>> tuned.report.chosen.workers
    0
    """
    if not isinstance(ds, IterDataset):
        raise TypeError(
            f"autotune needs a grain.IterDataset, got {type(ds).__name__}; call "
            "`to_iter_dataset()` first."
        )
    limits = _limits(
        ram_budget_mb, max_workers, max_buffer_size, samples_to_check, time_budget_seconds
    )
    report = search(ds, limits)
    tuned = ds if report.chosen is None else run_with(ds, report.chosen)
    return TunedIterDataset(tuned, report)


class TunedIterDataset(TransparentIterDataset[T]):
    """A dataset with the options that `autotune` has chosen.

    Attributes:
        report: The measurements; printed as a table.
    """

    def __init__(self, parent: IterDataset[T], report: TuningReport):
        super().__init__(parent)
        self.report = report

    def __str__(self) -> str:
        return f"TunedIterDataset({self.report.chosen})"


def _limits(
    ram_budget_mb: Any, max_workers: Any, max_buffer_size: Any, samples: Any, seconds: Any
) -> Limits:
    if ram_budget_mb is not None:
        _check_positive("ram_budget_mb", ram_budget_mb, "positive or None")
    _check_positive("time_budget_seconds", seconds, "positive")
    workers, buffer = processors(), ReadOptions().prefetch_buffer_size
    if max_workers is not None:
        workers = checked_int("max_workers", max_workers, least=0)
    if max_buffer_size is not None:
        buffer = checked_int("max_buffer_size", max_buffer_size, least=1)
    return Limits(
        memory=None if ram_budget_mb is None else int(ram_budget_mb * 2**20),
        workers=workers,
        buffer=buffer,
        samples=checked_int("samples_to_check", samples, least=1),
        seconds=seconds,
    )


def _check_positive(name: str, value: Any, wanted: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(
            f"{name} must be a number, {wanted}, got {value!r} of type {type(value).__name__}."
        )
    if not value > 0:
        raise ValueError(f"{name} must be {wanted}, got {value}.")


def search(
    ds: IterDataset[Any],
    limits: Limits,
    measure: Measurer | None = None,
    clock: Clock = time.perf_counter,
) -> TuningReport:
    """Measure candidates one after the other, each one step from the best so far."""
    found = _Search(ds, limits, measure or Stopwatch(), clock)
    found.run()
    return TuningReport(
        trials=tuple(found.trials),
        chosen=None if found.best is None else found.best.candidate,
        seconds=clock() - found.started,
    )


class _Search:
    """State of a search: the trials, and the best of them."""

    def __init__(self, ds: IterDataset[Any], limits: Limits, measure: Measurer, clock: Clock):
        self._ds = ds
        self._limits = limits
        self._measure = measure
        self._clock = clock
        self.started = clock()
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self._nbytes = 1
        self._policy = current_policy()
        # Most trials, to divide the time among them.
        buffers = len(self._policy.tuning_worker_buffers)
        self._planned = 4 + buffers + limits.workers.bit_length()

    def run(self) -> None:
        policy = self._policy
        inline = TuningCandidate(workers=0, worker_buffer=1, threads=0, buffer=0)
        alone = self._try(inline, must_work=True)
        if alone is None or not alone.elements:
            return
        self._judge(alone, 0.0)
        if alone.whole and alone.seconds < policy.tuning_start_seconds:
            return
        if _reads_map_dataset(self._ds):
            # Threads start only where they pay off, also when the consumer waits for something else.
            usual = ReadOptions().num_threads
            self._step(policy.tuning_loss, threads=usual, buffer=self._affordable(0))
            most = policy.tuning_threads
            self._step(policy.tuning_gain, threads=most, buffer=self._affordable(0))
        self._add_workers()
        self._shrink_buffer()

    def _add_workers(self) -> None:
        workers = min(2, self._limits.workers)
        while workers:
            buffer = self._affordable(workers) if self._best().buffer else 0
            if not self._step(self._policy.tuning_gain, workers=workers, buffer=buffer):
                return
            if workers == self._limits.workers:
                break
            workers = min(2 * workers, self._limits.workers)
        gain = self._policy.tuning_gain
        for size in self._policy.tuning_worker_buffers:
            if not self._best().workers or not self._step(gain, worker_buffer=size):
                return

    def _shrink_buffer(self) -> None:
        small = max(1, 2 * self._best().threads)
        if small < self._best().buffer:
            self._step(self._policy.tuning_loss, buffer=small)

    def _best(self) -> TuningCandidate:
        assert self.best is not None
        return self.best.candidate

    def _step(self, gain: float, **changes: int) -> bool:
        """Try the best candidate with changes; return whether the result replaces it."""
        measured = self._try(dataclasses.replace(self._best(), **changes))
        return measured is not None and self._judge(measured, gain)

    def _judge(self, measured: ReadMeasurement, gain: float) -> bool:
        """Compare the last trial with the best one."""
        trial, best, allowed = self.trials[-1], self.best, self._limits.memory
        verdict = ""
        if best is not None:
            assert best.measured is not None
            if trial.memory is not None and allowed is not None and trial.memory > allowed:
                verdict = f"over the budget of {allowed / 2**20:.0f} MB"
            elif measured.rate <= gain * best.measured.rate:
                verdict = "not better"
        self.trials[-1] = dataclasses.replace(trial, verdict=verdict or "chosen")
        if verdict:
            return False
        if best is not None:
            self.trials[self.trials.index(best)] = dataclasses.replace(best, verdict="")
        self.best = self.trials[-1]
        return True

    def _affordable(self, workers: int) -> int:
        """Return how many elements each process may keep ready."""
        if self._limits.memory is None:
            return self._limits.buffer
        share = self._limits.memory // self._nbytes // max(1, workers)
        return max(1, min(self._limits.buffer, share))

    def _try(self, candidate: TuningCandidate, must_work: bool = False) -> ReadMeasurement | None:
        """Measure a candidate, if there is time."""
        left = self._limits.seconds - (self._clock() - self.started)
        if left <= 0 and self.trials:
            self.trials.append(Trial(candidate=candidate, verdict="not tried: the time was up"))
            return None
        trials = max(1, self._planned - len(self.trials))
        seconds = min(self._policy.tuning_trial_seconds, left / trials)
        tried = run_with(self._ds, candidate)
        try:
            measured = self._measure(tried, seconds=seconds, samples=self._limits.samples)
        except Exception as error:
            if must_work:  # The dataset itself fails.
                raise
            reason = f"failed: {type(error).__name__}: {error}"
            self.trials.append(Trial(candidate=candidate, verdict=reason.splitlines()[0]))
            return None
        self._nbytes = max(self._nbytes, measured.nbytes)
        memory = None
        if measured.worker_bytes is not None:
            memory = measured.worker_bytes + candidate.kept() * self._nbytes
        self.trials.append(Trial(candidate=candidate, measured=measured, memory=memory))
        return measured


def run_with(ds: IterDataset[T], candidate: TuningCandidate) -> IterDataset[T]:
    """Return a dataset with the options of a candidate."""
    read: IterDataset[T] = read_with(ds, candidate.read_options)
    return read.mp_prefetch(candidate.multiprocessing_options, _worker_init_fn(ds))


def read_with(ds: Any, options: ReadOptions) -> Any:
    """Return a copy of a dataset with other read options and without prefetch operations."""
    if isinstance(ds, (ProcessPrefetchIterDataset, ThreadPrefetchIterDataset, TunedIterDataset)):
        return read_with(ds.parents[0], options)
    if isinstance(ds, PrefetchIterDataset):
        return PrefetchIterDataset(ds.parents[0], options, ds.allow_nones)
    changed = copy.copy(ds)
    changed._parents = tuple(
        read_with(parent, options) if isinstance(parent, IterDataset) else parent
        for parent in ds.parents
    )
    return changed


def _worker_init_fn(ds: Any) -> Callable[[int, int], None] | None:
    """Return the `worker_init_fn` of an `mp_prefetch` in the dataset, if there is one."""
    if isinstance(ds, ProcessPrefetchIterDataset) and ds.worker_init_fn is not None:
        return ds.worker_init_fn
    found = (_worker_init_fn(parent) for parent in ds.parents)
    return next((function for function in found if function is not None), None)


def _reads_map_dataset(ds: Any) -> bool:
    return isinstance(ds, PrefetchIterDataset) or any(map(_reads_map_dataset, ds.parents))
