"""Deterministic simulation of sessions: seeded schedules in virtual time, checked by the history checker.

One seed decides the pipeline, the number of workers, the buffer, the faults and when they strike, and what
the consumer does. `python -m tests.faults.simulation --seeds 10000` plays many; a failing seed is played
again with `--first SEED --seeds 1`, and belongs into the list of the tests.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

import grain
from grain._policy import use_policy
from grain.execution.build import build
from grain.execution.executor import WorkerDied
from grain.execution.plan import plan
from grain.execution.worker_session import WorkerSession

from .history import BrokenHistory, Checker, Stream, close, raw_state, record
from .pipelines import INLINE, PIPELINES, Lines, odd, plus_one
from .simulated_pool import POISON, Faults, SimulatedExecutor, VirtualClock

# Threads have a time of their own.
_THREADED = ("thread prefetch", "thread prefetch on top", "multithread prefetch")
_OWN = {
    "many rows": lambda: grain.MapDataset.range(300).map(plus_one).to_iter_dataset(INLINE),
    "many batches": lambda: (
        grain.MapDataset.range(300).shuffle(1).to_iter_dataset(INLINE).filter(odd).batch(5)
    ),
    "many functions": lambda: (
        grain.MapDataset.range(120).to_iter_dataset(INLINE).filter(odd).batch(2).map(np.sum)
    ),
    "long stream": lambda: Lines(0, 80).map(plus_one),
}
NAMES = sorted([*_OWN, *(name for name in PIPELINES if name not in _THREADED)])
# No schedule takes longer, in virtual seconds.
_HORIZON = 1e5
# Tickets that one interrupt may lose.
_MOST_LOST = 8


def make(name: str) -> grain.IterDataset:
    """Return the dataset of a name."""
    return _OWN[name]() if name in _OWN else PIPELINES[name](INLINE)


@dataclasses.dataclass
class Played:
    """What happened in a schedule.

    Attributes:
        name: The pipeline.
        events: Faults that were injected, and events of the session, with counts.
    """

    name: str
    events: Counter[str]


_streams: dict[str, Stream] = {}


def expected(name: str) -> Stream:
    """Return the stream of a pipeline without workers."""
    if name not in _streams:
        _streams[name] = record(make(name))
    return _streams[name]


@contextlib.contextmanager
def virtual_time(clock: VirtualClock, poison_losses: int) -> Iterator[None]:
    """Let all clocks of the process show virtual time; nothing is slow enough for a thread."""
    with contextlib.ExitStack() as patches:
        for name in ("perf_counter", "monotonic", "thread_time"):
            patches.enter_context(mock.patch.object(time, name, clock))
        patches.enter_context(
            use_policy(
                slow_element_seconds=1e9,
                slow_open_seconds=1e9,
                hedge_samples=4,
                hedge_seconds=0.05,
                clearly_slow_factor=1e9,
                poison_losses=poison_losses,
            )
        )
        warnings.simplefilter("ignore", RuntimeWarning)  # Lost workers are reported.
        yield


def play(seed: int) -> Played:
    """Play the schedule of a seed; raise an error if the stream, a state or the pool's contract is broken."""
    rng = random.Random(seed)
    name = rng.choice(NAMES)
    stream = expected(name)
    clock = VirtualClock()
    faults = Faults(
        loss=rng.choice((0, 0.02, 0.2)),
        straggler=rng.choice((0, 0.05)),
        twice=rng.choice((0, 0.2)),
        resize=rng.choice((0, 0.1)),
        interrupt=rng.choice((0, 0, 0.002, 0.01)),
        max_bytes=rng.choice((1, 100, 1 << 30)),
        block_seconds=rng.choice((0.001, 0.004, 0.05)),
    )
    executor = SimulatedExecutor(rng, clock, rng.randint(1, 4), faults)
    buffer_size = rng.choice((1, 2, 8))
    # Workers are lost so often that no task is to blame.
    with warnings.catch_warnings(), virtual_time(clock, poison_losses=1000):
        session = WorkerSession(executor, buffer_size, clock=clock)
        iterator = build(plan(make(name)), session)
        checker = Checker(stream, iterator)
        try:
            _consume(rng, checker, clock)
        finally:
            events = Counter(executor.happened)
            events.update(dataclasses.asdict(session.counts))
            executor.is_calm = True
            close(iterator)
            session.close()
        _check_pools(executor, events)
    return Played(name, events)


def _consume(rng: random.Random, checker: Checker, clock: VirtualClock) -> None:
    """Read to the end, with pauses, states and jumps in between."""
    length = len(checker.stream.elements)
    # A cache that was filled changes the states of earlier positions.
    jumps = 0 if "cache_filled" in checker.stream.end else rng.randint(0, 3)
    while clock.now < _HORIZON:
        choice = rng.random()
        try:
            if choice < 0.05 and jumps:
                jumps -= 1
                _jump(checker, rng.randint(0, length))
            elif choice < 0.1:
                clock.now += rng.expovariate(1)
            elif not checker.advance():
                checker.check_state()
                if not jumps:
                    return
                jumps -= 1
                _jump(checker, rng.randint(0, length))
            if choice > 0.7:
                checker.check_state()
        except KeyboardInterrupt:
            _uninterrupted(checker.check_state)
    raise BrokenHistory("the schedule does not end")


def _uninterrupted(function: Callable[[], Any]) -> Any:
    while True:
        try:
            return function()
        except KeyboardInterrupt:
            continue


def _jump(checker: Checker, position: int) -> None:
    like = _uninterrupted(checker.iterator.get_state)
    state = raw_state(checker.stream.states[position], like)
    _uninterrupted(lambda: checker.iterator.set_state(state))
    checker.position = position


def _check_pools(executor: SimulatedExecutor, events: Counter[str]) -> None:
    """Compare what was left in the pools with the interrupts.

    Each interrupt may lose one ticket, or make an interleave drop an iterator with the calls that it has in
    flight.
    """
    interrupts = sum(count for name, count in events.items() if name.startswith("interrupt in"))
    left = sum(pool.left for pool in executor.pools)
    if left > interrupts * _MOST_LOST:
        raise BrokenHistory(f"{left} results were neither taken nor discarded")
    if events["hedged"] > events["calls"]:
        raise BrokenHistory(f"{events['hedged']} hedges of {events['calls']} calls")


def play_poison(seed: int) -> str:
    """Play a schedule with a record that ends its workers; return the error, which names the record."""
    rng = random.Random(seed)
    length, clock = rng.randint(1, 200), VirtualClock()
    index = rng.randrange(length)

    def is_poison(task: object) -> bool:
        block = task[2]  # type: ignore[index]
        return bool(block.start <= index < block.start + block.size)

    faults = Faults(is_poison=is_poison)
    executor = SimulatedExecutor(rng, clock, rng.randint(1, 3), faults)
    dataset = grain.MapDataset.range(length).map(plus_one).to_iter_dataset(INLINE)
    taken = []
    with warnings.catch_warnings(), virtual_time(clock, poison_losses=2):
        session = WorkerSession(executor, 2, clock=clock)
        iterator = build(plan(dataset), session)
        try:
            taken += iterator
        except WorkerDied as error:
            if taken != list(range(1, index + 1)):
                raise BrokenHistory(f"{taken} before the record {index}") from error
            if executor.happened[POISON] > 4:
                raise BrokenHistory(f"{executor.happened[POISON]} workers were lost") from error
            if iterator.get_state() != {"next_index": index}:
                raise BrokenHistory(f"{iterator.get_state()} at the record {index}") from error
            if f"computed index {index}, made of" not in str(error):
                raise BrokenHistory(f"the record {index} is not named: {error}") from error
            return str(error)
        finally:
            close(iterator)
            session.close()
    raise BrokenHistory("the record did no harm")


def play_many(first: int, count: int) -> tuple[Counter[str], list[str]]:
    """Play consecutive seeds; return what happened and the failures."""
    events: Counter[str] = Counter()
    failures = []
    for seed in range(first, first + count):
        try:
            events.update(play(seed).events)
            if seed % 10 == 0:
                play_poison(seed)
                events["poison records named"] += 1
        except Exception as error:
            failures.append(f"seed {seed}: {type(error).__name__}: {error}")
        events["schedules"] += 1
    return events, failures


def main() -> int:
    """Play seeds on several processors; print counts and failures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    started = time.perf_counter()
    piece = 100
    starts = range(options.first, options.first + options.seeds, piece)
    end = options.first + options.seeds
    events: Counter[str] = Counter()
    failures: list[str] = []
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as processes:
        counts = [min(piece, end - start) for start in starts]
        for found, failed in processes.map(play_many, starts, counts):
            events += found
            failures += failed
    for name, count in sorted(events.items()):
        print(f"{count:>10,} {name}")
    print(f"{time.perf_counter() - started:.0f} seconds, {len(failures)} failures")
    print("\n".join(failures[:50]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
