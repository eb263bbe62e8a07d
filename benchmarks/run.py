"""Runs cases with all peers by turns, each peer in an environment and a process of its own."""

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
from benchmarks.results import Outcome

ROOT = pathlib.Path(__file__).parent.parent
PATIENCE = 60.0
"""Seconds after which a silent peer is given up."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How long each value is measured for, how often, and how long a peer may be silent.

    Worker processes take long to start, so that cases with them have a number of repetitions of their own.
    Where a case takes longer than `case_seconds`, it is repeated less, but `least_repetitions` times.
    """

    seconds: float
    repetitions: int
    worker_repetitions: int
    least_repetitions: int = 1
    case_seconds: float = math.inf
    patience: float = PATIENCE


class PeerProcess:
    """A process of `benchmarks.serve`, or of anything else that speaks its lines."""

    def __init__(self, command: Sequence[str], log: pathlib.Path) -> None:
        # Kept bytecode, or every start would compile a library anew and measure that.
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

    def answer(self, patience: float) -> dict[str, Any]:
        """The next line it says; an error in its name if it says none."""
        try:
            line = self._lines.get(timeout=patience)
        except queue.Empty:
            return {"error": f"no answer within {patience:.0f} s"}
        if not line:
            return {"error": f"the process ended with code {self._process.wait()}"}
        try:
            return dict(json.loads(line))
        except ValueError:
            return {"error": f"said {line[:80]!r}, expected a line of JSON"}

    def ask(self, **question: Any) -> None:
        """Says one line to it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()

    def end(self, patience: float = 5.0) -> None:
        """Ends it and whatever it has started."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        # What is left of its session, if anything is.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


Start = Callable[[str], PeerProcess]
"""Starts the process of a peer, by its name."""


class Pool:
    """The processes of all peers, each started when first asked and again after it failed."""

    def __init__(self, start: Start, patience: float) -> None:
        self._start = start
        self._patience = patience
        self._running: dict[str, PeerProcess] = {}
        self.versions: dict[str, dict[str, str]] = {}

    def ready(self, peers: Sequence[str]) -> dict[str, str]:
        """Starts who does not run, all at once; the errors of those who cannot, by name."""
        started = [peer for peer in peers if peer not in self._running]
        self._running |= {peer: self._start(peer) for peer in started}
        failed = {}
        for peer in started:
            said = self._running[peer].answer(self._patience)
            if "ready" in said:
                self.versions[peer] = said["ready"]
            else:
                failed[peer] = said.get("error", f"said {said}, expected that it is ready")
                self.end(peer)
        return failed

    def ask(self, peer: str, **question: Any) -> dict[str, Any]:
        """What a peer that is ready says to one question."""
        self._running[peer].ask(**question)
        said = self._running[peer].answer(self._patience)
        if not {"value", "lacks"} & set(said):
            # Whatever it has left behind must not disturb the next.
            self.end(peer)
        return said

    def end(self, *peers: str) -> None:
        """Ends the processes of these peers, or of all."""
        for peer in peers or list(self._running):
            self._running.pop(peer).end()


def run_case(case: Case, peers: Sequence[str], pool: Pool, settings: Settings) -> list[Outcome]:
    """Outcomes of one case, one for each peer.

    The peers take turns, so that whatever else the machine does meanwhile falls on all of them alike.
    """
    if case.measure is Measure.MEMORY:
        # Nothing that earlier cases have left in a process shall be counted.
        pool.end()
    failed = pool.ready(peers)
    lacks: dict[str, str] = {}
    values: dict[str, list[float]] = {peer: [] for peer in peers}
    began = time.monotonic()
    for turn in range(settings.worker_repetitions if case.workers else settings.repetitions):
        if turn >= settings.least_repetitions and time.monotonic() - began > settings.case_seconds:
            break
        for peer in peers:
            if peer in failed or peer in lacks:
                continue
            said = pool.ask(peer, case=case.name, seconds=settings.seconds)
            if "value" in said:
                values[peer].append(said["value"])
            elif "lacks" in said:
                lacks[peer] = said["lacks"]
            else:
                failed[peer] = said.get("error", f"said {said}, expected a value")
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
    """An error's text without the place of this checkout."""
    return text.replace(f"{ROOT}/", "").replace(str(pathlib.Path.home()), "~")


def run(
    cases: Sequence[Case],
    peers: Sequence[str],
    start: Start,
    settings: Settings,
    absent: Mapping[str, str],
    say: Callable[[str], None] = print,
) -> tuple[list[Outcome], dict[str, dict[str, str]]]:
    """All outcomes, case by case, and all versions.

    Args:
        cases: What is measured.
        peers: Who is measured, by name, this project first.
        start: Starts a peer's process.
        settings: How long and how often.
        absent: Peers that cannot run here, each with the reason.
        say: Told about the progress.
    """
    outcomes: list[Outcome] = []
    present = [peer for peer in peers if peer not in absent]
    began = time.monotonic()
    pool = Pool(start, settings.patience)
    try:
        for number, case in enumerate(cases, 1):
            found = {o.peer: o for o in run_case(case, present, pool, settings)}
            for peer, reason in absent.items():
                found[peer] = Outcome(case=case.name, peer=peer, failed=reason)
            outcomes += [found[peer] for peer in peers]
            passed = time.monotonic() - began
            say(f"[{number}/{len(cases)}, {passed:.0f} s] {case.name}: {brief(found)}")
    finally:
        pool.end()
    return outcomes, pool.versions


def brief(found: Mapping[str, Outcome]) -> str:
    """A line about a case for whoever waits."""
    parts = []
    for peer, outcome in found.items():
        if outcome.failed is not None:
            parts.append(f"{peer} FAILED ({outcome.failed})")
        elif outcome.values:
            parts.append(f"{peer} {sorted(outcome.values)[len(outcome.values) // 2]:.4g}")
    return ", ".join(parts)
