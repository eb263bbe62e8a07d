"""Differential fuzzing: random programs in this project and in the reference, and every difference.

    python -m tests.parity.fuzz --reference PYTHON --seconds 600 --seed 1

Both sides are processes that observe programs; see `programs.py`. Deliberate differences are listed in
`program_differences.py` with the row of docs/differences.md that describes them.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
from typing import Any

from . import program_results
from .program_differences import Found, expected_row, first_difference, first_different_element
from .program_results import worker_count
from .programs import Program, programs_of
from .wrong_call_differences import differences
from .wrong_calls import observe_wrong_calls

# Seconds, on a machine that does other work as well.
_PATIENCE = 20.0
_PATIENCE_WITH_WORKERS = 120.0
_READY = "ready\n"

# In the place of a program: all wrong calls.
WRONG_CALLS: Program = {"calls": "wrong"}

ROOT = pathlib.Path(__file__).parents[2]


class Side:
    """A process that observes programs with one installed grain; a program that hangs ends it."""

    def __init__(self, python: str):
        self._python = python
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [self._python, "-m", "parity.fuzz", "--serve"],
            cwd=ROOT / "tests",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        # Imports take long on a machine that does other work.
        if process.stdout.readline() != _READY:
            raise RuntimeError(f"{self._python} cannot import the programs; run it with --serve.")
        return process

    def send(self, program: Program, **request: Any) -> None:
        """Send a request."""
        self._process = self._process or self._start()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"program": program, **request}) + "\n")
        self._process.stdin.flush()

    def receive(self, program: Program, *, slow: bool = False) -> Any:
        """Return the answer to the last request; None if there is none after some time."""
        assert self._process is not None
        assert self._process.stdout is not None
        slow = slow or program == WRONG_CALLS or worker_count(program) > 0
        patience = _PATIENCE_WITH_WORKERS if slow else _PATIENCE
        ready, _, _ = select.select([self._process.stdout], [], [], patience)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self.close()
            return None
        return json.loads(line)

    def close(self) -> None:
        """End the process and its workers, which would keep its pipes open."""
        if self._process is not None:
            # Not reaped yet, so the group still has its number.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


def _parse_flags() -> None:
    """Parse the flags of absl, without which the reference starts no workers."""
    try:
        flags = importlib.import_module("absl.flags")
    except ModuleNotFoundError:
        return
    flags.FLAGS(sys.argv[:1])


def serve() -> None:
    """Answer requests, one per line, until the input ends."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # What a library prints is no answer.
    _parse_flags()
    answers.write(_READY)
    answers.flush()
    for line in sys.stdin:
        request = json.loads(line)
        if request["program"] == WRONG_CALLS:
            answer: Any = dict(observe_wrong_calls())
        elif "states" in request:
            answer = program_results.resume_program(request["program"], request["states"])
        else:
            answer = program_results.observe_program(request["program"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class Comparison:
    """Counts of compared programs, and the processes that observe them."""

    def __init__(self, reference: str):
        self._here, self._there = Side(sys.executable), Side(reference)
        self.counts: collections.Counter[str] = collections.Counter()
        self.rows: collections.Counter[str] = collections.Counter()

    def close(self) -> None:
        """End both processes."""
        self._here.close()
        self._there.close()

    def compare(self, program: Program) -> str | None:
        """Return the first difference of a program that is not deliberate."""
        self.counts["programs"] += 1
        self.counts["with workers"] += worker_count(program) > 0
        for side in (self._here, self._there):
            side.send(program)
        here, there = self._here.receive(program), self._there.receive(program)
        if there is None:
            # An endless loop there: a repeat of an iter dataset without elements.
            self.counts["without an answer there"] += 1
            return None
        if here is None:
            self._here.send(program)
            here = self._here.receive(program, slow=True)
        if here is None:
            return "no answer here"
        found = first_difference(program, there, here)
        if found is None and "elements" in there and not worker_count(program):
            found = self._exchange(program, there, here)
        return self._unexpected(found)

    def compare_wrong_calls(self) -> list[str]:
        """Return a line for each wrong call whose result differs and should not."""
        for side in (self._here, self._there):
            side.send(WRONG_CALLS)
        here, there = self._here.receive(WRONG_CALLS), self._there.receive(WRONG_CALLS)
        self.counts["calls"] = len(there or {})
        return sorted(differences(there, here)) if here and there else ["wrong calls: no answer"]

    def _unexpected(self, found: Found | None) -> str | None:
        if found is None:
            return None
        row = expected_row(found)
        if row is None:
            return str(found)
        self.rows[row] += 1
        return None

    def _exchange(self, program: Program, there: Any, here: Any) -> Found | None:
        """Restore the states of each side on the other, through JSON."""
        elements = there["elements"]
        if elements and program_results.is_failure(elements[-1]):
            return None
        self.counts["resumed both ways"] += 1
        self._here.send(program, states=there["states"])
        self._there.send(program, states=here["states"])
        answers = {"here": self._here.receive(program), "there": self._there.receive(program)}
        for where, answer in answers.items():
            for position, resumed in (answer or {}).items():
                wanted = elements[int(position) :]
                place = f"resumed {where} from {position}"
                pair = (wanted, resumed) if where == "here" else (resumed, wanted)
                found = first_different_element(program, place, *pair)
                if found is not None:
                    return found
        return None


def fuzz(reference: str, seconds: float, seed: int, workers: float) -> int:
    """Compare random programs for some time; print and count the differences."""
    comparison = Comparison(reference)
    started, found = time.monotonic(), 0
    try:
        problems = comparison.compare_wrong_calls()
        for line in problems:
            print(line, flush=True)
        found += len(problems)
        for program in programs_of(seed, workers):
            if time.monotonic() - started > seconds:
                break
            problem = comparison.compare(program)
            if problem:
                found += 1
                print(json.dumps(program), problem, sep="\n    ", flush=True)
    finally:
        comparison.close()
        for row, count in comparison.rows.most_common():
            print(f"{count:7} deliberate: {row}")
        counts = ", ".join(f"{count} {name}" for name, count in comparison.counts.items())
        print(f"{counts}, {found} differences (seed {seed})", flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", action="store_true", help="observe programs from the input")
    parser.add_argument("--reference", help="a Python that has google/grain installed")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--workers", type=float, default=0.02, help="share of programs with workers"
    )
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
    else:
        sys.exit(
            1
            if fuzz(arguments.reference, arguments.seconds, arguments.seed, arguments.workers)
            else 0
        )
