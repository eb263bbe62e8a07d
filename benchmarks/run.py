"""Interleaved runs of cases with all peers, each peer in a separate environment and process."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.cases import Case, Measure
from benchmarks.command import ROOT
from benchmarks.results import Outcome

ANSWER_TIMEOUT = 60.0
"""Seconds after which a peer that does not answer has failed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How long each value is measured for, how often, and how long an answer may take.

    Worker processes take long to start, so cases with workers have a separate number of repetitions. A
    case that takes longer than `case_seconds` is repeated less, but at least `least_repetitions` times.
    """

    seconds: float
    repetitions: int
    worker_repetitions: int
    least_repetitions: int = 1
    case_seconds: float = math.inf
    timeout: float = ANSWER_TIMEOUT


class PeerProcess:
    """A process of `benchmarks.serve`, or another program with the same protocol."""

    def __init__(self, command: Sequence[str], log: pathlib.Path) -> None:
        # With bytecode files: otherwise every start would measure the compiler.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def answer(self, timeout: float) -> dict[str, Any]:
        """Return its next line, or an error if there is none in time."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            return {"error": f"no answer within {timeout:.0f} s"}
        if not line:
            return {"error": f"the process ended with code {self._process.wait()}"}
        try:
            return dict(json.loads(line))
        except ValueError:
            return {"error": f"answered {line[:80]!r}, expected a line of JSON"}

    def send(self, **request: Any) -> None:
        """Write one request."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def end(self, timeout: float = 5.0) -> None:
        """End it and all processes of its session."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


Start = Callable[[str], PeerProcess]
"""Starts the process of a peer, by name."""


class Pool:
    """The processes of all peers, each started on first use and again after a failure."""

    def __init__(self, start: Start, timeout: float) -> None:
        self._start = start
        self._timeout = timeout
        self._running: dict[str, PeerProcess] = {}
        self.versions: dict[str, dict[str, str]] = {}

    def ready(self, peers: Sequence[str]) -> dict[str, str]:
        """Start peers that do not run, concurrently; return the errors of those that fail, by name."""
        started = [peer for peer in peers if peer not in self._running]
        self._running |= {peer: self._start(peer) for peer in started}
        failed = {}
        for peer in started:
            answer = self._running[peer].answer(self._timeout)
            if "ready" in answer:
                self.versions[peer] = answer["ready"]
            else:
                failed[peer] = answer.get("error", f"answered {answer}, expected that it is ready")
                self.end(peer)
        return failed

    def ask(self, peer: str, **request: Any) -> dict[str, Any]:
        """Send a request to a peer that is ready, and return its answer."""
        self._running[peer].send(**request)
        answer = self._running[peer].answer(self._timeout)
        if not {"value", "cost", "lacks"} & set(answer):
            # Its remains must not disturb the next measurement.
            self.end(peer)
        return answer

    def end(self, *peers: str) -> None:
        """End the processes of these peers, or of all."""
        for peer in peers or list(self._running):
            self._running.pop(peer).end()


def run_case(case: Case, peers: Sequence[str], pool: Pool, settings: Settings) -> list[Outcome]:
    """Return the outcomes of one case, one for each peer.

    The repetitions of the peers are interleaved, so that other load of the machine affects all of them.
    """
    if case.measure is Measure.MEMORY:
        # Memory that earlier cases left in a process must not be counted.
        pool.end()
    failed = pool.ready(peers)
    lacks: dict[str, str] = {}
    values: dict[str, list[float]] = {peer: [] for peer in peers}
    started = time.monotonic()
    for repetition in range(settings.worker_repetitions if case.workers else settings.repetitions):
        late = time.monotonic() - started > settings.case_seconds
        if late and repetition >= settings.least_repetitions:
            break
        for peer in peers:
            if peer in failed or peer in lacks:
                continue
            answer = pool.ask(peer, case=case.name, seconds=settings.seconds)
            if "value" in answer:
                values[peer].append(answer["value"])
            elif "lacks" in answer:
                lacks[peer] = answer["lacks"]
            else:
                failed[peer] = answer.get("error", f"answered {answer}, expected a value")
    return [
        Outcome(
            case=case.name,
            peer=peer,
            values=() if peer in failed else tuple(values[peer]),
            failed=without_paths(failed[peer]) if peer in failed else None,
            lacks=lacks.get(peer),
        )
        for peer in peers
    ]


def without_paths(text: str) -> str:
    """Return an error's text without the path of this checkout."""
    return text.replace(f"{ROOT}/", "").replace(str(pathlib.Path.home()), "~")


def run(
    cases: Sequence[Case],
    peers: Sequence[str],
    start: Start,
    settings: Settings,
    absent: Mapping[str, str],
    report: Callable[[str], None] = print,
) -> tuple[list[Outcome], dict[str, dict[str, str]]]:
    """Return all outcomes, case by case, and all versions.

    Args:
        cases: What is measured.
        peers: The names of the peers, this project first.
        start: Starts a peer's process.
        settings: How long and how often.
        absent: Peers that cannot run here, each with the reason.
        report: Receives a line of progress for each case.
    """
    outcomes: list[Outcome] = []
    present = [peer for peer in peers if peer not in absent]
    started = time.monotonic()
    pool = Pool(start, settings.timeout)
    try:
        for number, case in enumerate(cases, 1):
            found = {o.peer: o for o in run_case(case, present, pool, settings)}
            for peer, reason in absent.items():
                found[peer] = Outcome(case=case.name, peer=peer, failed=reason)
            outcomes += [found[peer] for peer in peers]
            passed = time.monotonic() - started
            report(f"[{number}/{len(cases)}, {passed:.0f} s] {case.name}: {brief(found)}")
    finally:
        pool.end()
    return outcomes, pool.versions


def brief(found: Mapping[str, Outcome]) -> str:
    """Return a line of progress about a case."""
    texts = []
    for peer, outcome in found.items():
        if outcome.failed is not None:
            texts.append(f"{peer} FAILED ({outcome.failed})")
        elif outcome.values:
            texts.append(f"{peer} {sorted(outcome.values)[len(outcome.values) // 2]:.4g}")
    return ", ".join(texts)
