"""Run the programs of the wide table on this project and on google/grain, in turn.

    python -m benchmarks.wide --python grain=PATH --python google-grain=PATH [--publish]

`nox -s wide` creates the environments and runs this command.
"""

from __future__ import annotations

import argparse
import fnmatch
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import machine, publishing
from benchmarks.command import ROOT, names
from benchmarks.run import PeerProcess, Pool
from benchmarks.wide import report
from benchmarks.wide.report import WideResult

LIBRARIES = {"ours": "grain", "theirs": "google-grain"}
ANSWER_TIMEOUT = 90.0


def selected(patterns: Sequence[str] | None, programs: Sequence[dict[str, str]]) -> list[Any]:
    """Return the programs whose names match one of some patterns; all of them without patterns."""
    return [
        program
        for program in programs
        if patterns is None or any(fnmatch.fnmatch(program["name"], p) for p in patterns)
    ]


def compare(pool: Pool, program: dict[str, str], seconds: float, repetitions: int) -> WideResult:
    """Measure one program, both libraries in turn."""
    values: dict[str, list[float]] = {"ours": [], "theirs": [], "limit": []}
    failed: dict[str, str] = {}
    for _ in range(repetitions):
        for side, library in LIBRARIES.items():
            if side in failed:
                continue
            failed |= dict.fromkeys((side,), why) if (why := _start(pool, library)) else {}
            if side in failed:
                continue
            answer = pool.ask(library, case=program["name"], seconds=seconds)
            if "value" not in answer:
                failed[side] = str(answer.get("error", answer))
                continue
            values[side].append(answer["value"])
            if side == "ours" and answer["limit"] is not None:
                values["limit"].append(answer["limit"])
    found = {side: tuple(measured) for side, measured in values.items()}
    return WideResult(**program, **found, failed=failed)


def _start(pool: Pool, library: str) -> str | None:
    """Start the process of a library unless it runs; return the error if it fails."""
    return pool.ready([library]).get(library)


def main(command_line: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if this project failed at any program."""
    parser = argparse.ArgumentParser(prog="nox -s wide --", description=__doc__.split("\n")[0])
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH")
    parser.add_argument("--programs", type=names, metavar="A,B*", help="only these programs")
    parser.add_argument("--seconds", type=float, default=0.2, help="of each measurement")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument(
        "--publish", action="store_true", help="write the page of the documentation"
    )
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/bench")
    arguments = parser.parse_args(command_line)
    pythons = dict(pair.split("=", 1) for pair in arguments.python)
    logs = arguments.output / "logs"
    logs.mkdir(parents=True, exist_ok=True)

    def start(library: str) -> PeerProcess:
        command = [pythons[library], "-m", "benchmarks.wide.measure"]
        return PeerProcess(command, logs / f"wide-{library}.txt")

    described = machine.describe()
    started = time.monotonic()
    pool = Pool(start, timeout=ANSWER_TIMEOUT)
    found = []
    try:
        error = _start(pool, "grain")
        if error is not None:
            raise SystemExit(f"This project could not be started: {error}.")
        listed = pool.ask("grain", list=True)["value"]
        for program in selected(arguments.programs, listed):
            result = compare(pool, program, arguments.seconds, arguments.repetitions)
            found.append(result)
            print(report.row(result), *result.failed.items(), flush=True)
    finally:
        pool.end()
    text = report.to_json(found, arguments.repetitions, described)
    (arguments.output / "wide.json").write_text(text)
    print(f"{report.summary(found)} Took {time.monotonic() - started:.0f} s.")
    if arguments.publish:
        report.RESULTS.write_text(text)
        publishing.publish_page()
    return int(any("ours" in result.failed for result in found))


if __name__ == "__main__":
    sys.exit(main())
