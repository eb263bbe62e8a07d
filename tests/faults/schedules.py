"""Fault schedules: seeded faults against pipelines over workers and threads, in a process of their own.

    python -m tests.faults.schedules KIND SEED COUNT

prints one line of JSON: the outcome of each round. Limits of a process cannot be lifted again, which is
why each kind of fault gets a process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grain

from .history import Checker, Stream, close, record
from .interrupts import children, held, no_hang, wait_for_release
from .pipelines import INLINE, PIPELINES, THREADS

ROOT = Path(__file__).parents[2]
# Shapes that workers treat differently: fused, ordered, streams, shared memory, offloaded functions.
WITH_WORKERS = [
    "shuffled map batches",
    "filter and batch",
    "draws after a filter",
    "mixture",
    "first fit",
    "user iterator",
    "interleave streams",
    "rebatch",
    "pictures",
    "busy function above a filter",
]
WITH_THREADS = ["range", "filter and batch", "thread prefetch on top", "multithread prefetch"]
TIMEOUT = 120.0


@dataclasses.dataclass
class Report:
    """Outcomes of one kind of fault.

    Attributes:
        injected: how many faults were injected.
        outcomes: "exact" for a stream without a gap; otherwise the error, after which the state
            resumed exactly.
        bad: rounds that hung, leaked, lost or doubled.
    """

    kind: str
    rounds: int = 0
    injected: int = 0
    outcomes: dict[str, int] = dataclasses.field(default_factory=dict)
    bad: list[str] = dataclasses.field(default_factory=list)

    def came_out(self, outcome: str) -> None:
        """Count an outcome."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1


class Round:
    """One iterator, read to its end while a fault is injected at a seeded position."""

    def __init__(self, name: str, rng: random.Random, report: Report):
        self.name, self.rng, self.report = name, rng, report
        self.stream = _stream(name)
        self.at = rng.randrange(len(self.stream.elements) + 1)
        self.position: int | None = None
        self.state: Any = None

    def dataset(self) -> Any:
        """Build the pipeline over workers."""
        options = grain.MultiprocessingOptions(num_workers=self.rng.choice([1, 2, 2, 3]))
        return PIPELINES[self.name](INLINE).mp_prefetch(options)

    def injected(self, count: int = 1) -> None:
        """Count a fault."""
        self.report.injected += count

    def read(self, dataset: Any, fault: Callable[[], None]) -> None:
        """Read on; whether to the end or to an error, the state is that of the last element."""
        checker: Checker | None = None
        try:
            checker = Checker(self.stream, iter(dataset))
            while True:
                if checker.position == self.at:
                    self.at = -1
                    fault()
                if not checker.advance():
                    break
                if self.at == -1:
                    self._take_state(checker)
        except (RuntimeError, OSError, MemoryError) as error:
            outcome = _kind_of_error(error)
        else:
            outcome = "exact"
        if checker is None:
            self.report.came_out(outcome)
            return
        self.report.came_out(outcome)
        if self.position is None:
            self.position = checker.position
        # Where nothing can be opened, the state of datasets that were never opened is an error too.
        with contextlib.suppress(OSError):
            checker.check_state()
        close(checker.iterator)

    def _take_state(self, checker: Checker) -> None:
        """Compare a state after the fault; now and then, keep it for `resume`."""
        checker.check_state()
        if self.position is None or self.rng.random() < 0.3:
            self.position, self.state = checker.position, checker.iterator.get_state()

    def resume(self) -> None:
        """Read the rest from a state that was taken after the fault, without faults."""
        if self.position is not None:
            resumed = Checker(self.stream, iter(PIPELINES[self.name](INLINE)))
            if self.state is None:
                resumed.jump(self.position)
            else:
                resumed.iterator.set_state(self.state)
                resumed.position = self.position
            resumed.finish()
            close(resumed.iterator)


def _kind_of_error(error: BaseException) -> str:
    """Return an error's first words, without numbers; an empty message explains nothing."""
    text = " ".join(str(error).split())
    if not text:
        raise error
    words = ["N" if any(c.isdigit() for c in word) else word for word in text.split()[:9]]
    return f"{type(error).__name__}: {' '.join(words)}"


_streams: dict[str, Stream] = {}


def _stream(name: str) -> Stream:
    if name not in _streams:
        _streams[name] = record(PIPELINES[name](INLINE))
    return _streams[name]


# --- kinds of faults -----------------------------------------------------------------------------


def kill(current: Round) -> None:
    """Kill a worker, before or after the first element."""
    before = children()

    def strike() -> None:
        workers = sorted(children() - before)
        if workers:
            os.kill(current.rng.choice(workers), signal.SIGKILL)
            current.injected()

    current.read(current.dataset(), strike)


def stop_and_continue(current: Round) -> None:
    """Stop a worker, and continue it a little later."""
    before = children()
    timers: list[threading.Timer] = []

    def strike() -> None:
        workers = sorted(children() - before)
        if workers:
            worker = current.rng.choice(workers)
            os.kill(worker, signal.SIGSTOP)
            current.injected()
            timers.append(threading.Timer(current.rng.random() / 5, _continue, [worker]))
            timers[-1].start()

    current.read(current.dataset(), strike)
    for timer in timers:
        timer.join()


def _continue(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def small_files(current: Round) -> None:
    """Let no file grow, as on a full disk; shared memory is a file too, so it is tiny as well."""
    size = current.rng.choice([0, 4096, 20_000])
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    current.injected()
    try:
        current.read(current.dataset(), lambda: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, before)


def full_disk_at_checkpoint(current: Round) -> None:
    """Save a checkpoint where nothing fits; the one before it stays whole."""
    with tempfile.TemporaryDirectory() as folder:
        iterator = iter(PIPELINES[current.name](INLINE))
        checker = Checker(current.stream, iterator)
        handler = grain.checkpoint.CheckpointHandler()
        handler.save(Path(folder), iterator)
        checker.advance()
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (current.rng.choice([0, 3]), hard))
        current.injected()
        try:
            handler.save(Path(folder), iterator)
        except OSError as error:
            current.report.came_out(_kind_of_error(error))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            signal.signal(signal.SIGXFSZ, ignored)
        restored = Checker(current.stream, iter(PIPELINES[current.name](INLINE)))
        handler.restore(Path(folder), restored.iterator)
        restored.finish()


def few_descriptors(current: Round) -> None:
    """Allow few open descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4 + current.rng.randrange(24), hard))
    current.injected()
    try:
        current.read(current.dataset(), lambda: None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def few_threads(current: Round) -> None:
    """Let the system refuse threads, from a seeded one on."""
    current.stream = _stream(current.name)
    with _refused_threads(current.rng.randrange(3), current.injected):
        current.read(PIPELINES[current.name](THREADS), lambda: None)


@contextlib.contextmanager
def _refused_threads(allowed: int, count: Callable[[], None]) -> Iterator[None]:
    import _thread

    started = 0
    names = [
        (module, name)
        for module in (threading, _thread)
        for name in ("_start_new_thread", "_start_joinable_thread", "start_new_thread")
        if hasattr(module, name)
    ]
    originals = [(module, name, getattr(module, name)) for module, name in names]

    def refusing(original: Callable[..., Any]) -> Callable[..., Any]:
        def start(*arguments: Any, **options: Any) -> Any:
            nonlocal started
            started += 1
            if started > allowed:
                count()
                raise RuntimeError("can't start new thread")
            return original(*arguments, **options)

        return start

    for module, name, original in originals:
        setattr(module, name, refusing(original))
    try:
        yield
    finally:
        for module, name, original in originals:
            setattr(module, name, original)


def transient_error(current: Round) -> None:
    """Let a function below a batch fail once, in a worker or here."""
    with tempfile.TemporaryDirectory() as folder:
        _fail_once(current, Path(folder) / "failed")


def _fail_once(current: Round, flag: Path) -> None:
    """Read a stream with an element that fails unless a file exists, which it creates first."""
    position = current.rng.randrange(24)
    stream = _streams.setdefault(
        "transient", record(grain.MapDataset.range(24).to_iter_dataset(INLINE).batch(5))
    )

    def fails_once(x: int) -> int:
        if x == position and not flag.exists():
            flag.touch()
            raise OSError("a transient error")
        return x

    dataset = grain.MapDataset.range(24).map(fails_once).to_iter_dataset(INLINE).batch(5)
    workers = current.rng.choice([0, 2])
    checker = Checker(
        stream, iter(dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers)))
    )
    try:
        checker.finish()
    except OSError as error:
        current.injected()
        current.report.came_out(_kind_of_error(error))
    checker.check_state()
    state = checker.iterator.get_state()
    close(checker.iterator)
    resumed = Checker(stream, iter(dataset), checker.position)
    resumed.iterator.set_state(state)
    resumed.finish()


KINDS: dict[str, tuple[Callable[[Round], None], list[str]]] = {
    "kill a worker": (kill, WITH_WORKERS),
    "stop and continue a worker": (stop_and_continue, WITH_WORKERS),
    "full disk, tiny shared memory": (small_files, WITH_WORKERS),
    "full disk at a checkpoint": (full_disk_at_checkpoint, WITH_WORKERS),
    "few descriptors": (few_descriptors, WITH_WORKERS),
    "no more threads": (few_threads, WITH_THREADS),
    "transient error below a batch": (transient_error, ["range"]),
}


def run(kind: str, seed: int, count: int) -> Report:
    """Run seeded rounds of one kind, over its pipelines in turn."""
    inject, names = KINDS[kind]
    report, rng = Report(kind), random.Random(seed)
    warnings.simplefilter("ignore")  # Fallbacks warn, and that is all they should do.
    for number in range(count):
        name = names[number % len(names)]
        round_seed = rng.randrange(2**31)
        current = Round(name, random.Random(round_seed), report)
        before = held()
        try:
            with no_hang():
                inject(current)
                current.resume()
            more = wait_for_release(before)
            if more:
                raise AssertionError(f"leak: {more}")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            report.bad.append(f"{kind}, {name}, seed {round_seed}: {type(error).__name__}: {error}")
        report.rounds += 1
    return report


def run_apart(kind: str, seed: int, count: int, timeout: float = TIMEOUT) -> Report:
    """Run rounds in a process of their own."""
    command = [sys.executable, "-m", "tests.faults.schedules", kind, str(seed), str(count)]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=ROOT)
    if done.returncode:
        report = Report(kind, count)
        spent = time.monotonic() - started
        report.bad.append(f"{kind}: exit code {done.returncode} after {spent:.0f} s: {done.stderr}")
        return report
    return Report(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(dataclasses.asdict(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
