"""Differential fuzzing: random programs in this project and in the reference, and every difference.

    python -m tests.parity.fuzz --reference PYTHON --seconds 600 --seed 1

Both sides are processes that observe programs; see `programs.py`. Differences that are deliberate are listed
in `EXPECTED` with the row of docs/differences.md that describes them.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import programs
from .encoding import difference

# Seconds, on a machine that does other work as well.
_PATIENCE = 20.0

ROOT = pathlib.Path(__file__).parents[2]


def steps_of(program: programs.Program) -> list[list[Any]]:
    """Return all steps of a program, those of map datasets first."""
    return [*program["steps"], *program.get("iter", {}).get("steps", [])]


def _kinds(program: programs.Program) -> list[str]:
    return [step[0] for step in steps_of(program)]


def _nones(program: programs.Program) -> bool:
    """Return whether elements of the program may be None."""
    made = any(step[:2] == ["map", "none"] for step in steps_of(program))
    kinds = _kinds(program)
    return made or "filter" in kinds or "flat_map" in kinds


def _batches(program: programs.Program) -> bool:
    kinds = _kinds(program)
    return "batch" in kinds or "rebatch" in kinds


# Deliberate differences: the row of docs/differences.md, and whether a program may show it.
EXPECTED: list[tuple[str, Callable[[programs.Program, dict[str, Any], dict[str, Any]], bool]]] = []


def expected(row: str) -> Callable[[Any], Any]:
    """Register the condition of a deliberate difference."""

    def register(condition: Any) -> Any:
        EXPECTED.append((row, condition))
        return condition

    return register


def _fails(observed: dict[str, Any]) -> bool:
    return "build" in observed or "iter" in observed or '["error"' in json.dumps(observed)


@expected("errors: a type or a place that says more")
def _both_fail(program: Any, here: dict[str, Any], there: dict[str, Any]) -> bool:
    """Both fail; what comes before a failure in the stream is compared by `compare_observed`."""
    return ("build" in here or "iter" in here) and _fails(there)


@expected("None among numbers or texts in a batch; numbers and dictionaries in one batch")
def _none_in_a_batch(program: Any, here: dict[str, Any], there: dict[str, Any]) -> bool:
    return _nones(program) and _batches(program)


@expected("None among numbers or texts in a batch; numbers and dictionaries in one batch")
def _different_structures_in_a_batch(program: Any, here: Any, there: Any) -> bool:
    joins = {"mix", "concatenate", "interleave"} & set(_kinds(program))
    return bool(joins) and _batches(program) and (_fails(here) or _fails(there))


@expected("`repeat` of an interleave of more datasets than its cycle length")
def _repeated_interleave(program: Any, here: Any, there: Any) -> bool:
    kinds = _kinds(program)
    return "interleave" in kinds and "repeat" in kinds[kinds.index("interleave") :]


@expected("reading an empty dataset")
def _empty(program: Any, here: dict[str, Any], there: dict[str, Any]) -> bool:
    return here.get("length") == 0 or there.get("length") == 0


@expected("random maps and window shuffles in late epochs of a slice of an endless dataset")
def _far_window(program: Any, here: dict[str, Any], there: dict[str, Any]) -> bool:
    kinds = set(_kinds(program))
    return "repeat" in kinds and bool(kinds & {"window_shuffle", "random_map"}) and not _fails(here)


@expected("a rebatch of batches with different structures, of different lengths, or empty")
def _uneven_rebatch(program: Any, here: dict[str, Any], there: dict[str, Any]) -> bool:
    kinds = _kinds(program)
    return "rebatch" in kinds and _fails(there)


class Side:
    """A process that observes programs with one installed grain; a program that hangs ends it."""

    def __init__(self, python: str):
        self._python = python
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self._python, "-m", "parity.fuzz", "--serve"],
            cwd=ROOT / "tests",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, **request: Any) -> Any:
        """Return the answer to a request; None if there is none after some time."""
        self._process = self._process or self._start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], _PATIENCE)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self.close()
            return None
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def serve() -> None:
    """Answer requests, one per line, until the input ends."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # What a library prints is no answer.
    for line in sys.stdin:
        request = json.loads(line)
        if "states" in request:
            answer: Any = programs.resume_program(request["program"], request["states"])
        else:
            answer = programs.observe_program(request["program"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def compare_observed(program: Any, here: Any, there: Any) -> str | None:
    """Return the first difference between two observations that is not deliberate."""
    found = _first_difference(here, there)
    if found is None or any(condition(program, here, there) for _, condition in EXPECTED):
        return None
    return found


def _first_difference(here: Any, there: Any) -> str | None:
    # States are restored on the other side instead: after the end of a parent their positions may differ.
    for name in ("build", "length", "single", "iter", "elements"):
        found = difference(there.get(name), here.get(name), name)
        if found:
            return str(found)
    return None


def programs_of(seed: int) -> Iterator[programs.Program]:
    """Return an endless stream of random programs."""
    rng = random.Random(seed)
    while True:
        yield programs.random_program(rng)


def _ends_in_failure(elements: list[Any]) -> bool:
    last = elements[-1] if elements else None
    return isinstance(last, list) and last[:1] == ["error"] and len(last) == 2


def _exchange(program: Any, here: Side, there: Side, mine: Any, theirs: Any) -> str | None:
    """Restore the states of each side on the other, through JSON; return the first difference."""
    sides = [("here", here, theirs["states"])]
    if not {"concat", "rebatch"} & set(_kinds(program)):
        # Some states of the reference do not survive JSON; see `record.LOST_IN_JSON`.
        sides.append(("there", there, mine["states"]))
    for where, side, states in sides:
        answer = side.ask(program=program, states=states)
        for position, elements in (answer or {}).items():
            wanted = theirs["elements"][int(position) :]
            found = difference(wanted, elements, f"resumed {where} from {position}")
            if found:
                return str(found)
    return None


def fuzz(reference: str, seconds: float, seed: int) -> int:
    """Compare random programs for some time; print and count the differences."""
    here, there = Side(sys.executable), Side(reference)
    started, count, resumed, hangs, differences = time.monotonic(), 0, 0, 0, 0
    try:
        for program in programs_of(seed):
            if time.monotonic() - started > seconds:
                break
            count += 1
            mine, theirs = here.ask(program=program), there.ask(program=program)
            problem = None
            if mine is None or theirs is None:
                hangs += theirs is None
                problem = "no answer here" if mine is None and theirs is not None else None
            else:
                problem = compare_observed(program, mine, theirs)
                same = mine.get("elements") == theirs.get("elements") and "elements" in mine
                if problem is None and same and not _ends_in_failure(mine["elements"]):
                    resumed += 1
                    problem = _exchange(program, here, there, mine, theirs)
            if problem:
                differences += 1
                print(json.dumps(program), problem, sep="\n    ", flush=True)
    finally:
        here.close()
        there.close()
    print(
        f"{count} programs, {resumed} resumed both ways, {hangs} without an answer there, "
        f"{differences} differences (seed {seed})"
    )
    return differences


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", action="store_true", help="observe programs from the input")
    parser.add_argument("--reference", help="a Python that has google/grain installed")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
    else:
        sys.exit(1 if fuzz(arguments.reference, arguments.seconds, arguments.seed) else 0)
