"""Measure how often the conformance checks catch faulty subjects, and how often good ones pass.

Usage:
    python tools/detection.py run [--runs 100] [--only TEXT] [--jobs 1]
    python tools/detection.py page [--check]

`run` runs the check meant for each faulty subject of `tests/hostile`, and all checks of each good
subject, until each has the given number of runs in the record `tests/hostile/detection.json`, from
which `page` writes the page in the docs. The record is written after every few runs, so that `run`
continues where it was stopped, and several of them may share the record. `--again` starts from
nothing.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import fcntl
import functools
import gc
import importlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent
RECORD = ROOT / "tests/hostile/detection.json"
PAGE = ROOT / "docs/conformance-detection.md"
RUNS = 100
GROUP = 12
STEP = 10
GOOD = "good: "
SUMMED = ("runs", "caught", "passed")
# A race is found by preempting calls at every step of Python code, which leaves those inside of
# extension modules to chance.
LEAST_CAUGHT = {"check_concurrent_reads": 0.99}
INTRODUCTION = """\
# Detection rates

How often the [conformance checks](conformance.md) catch subjects with one fault each, and how often
correct subjects pass, on one machine under load. Each run makes the subject again. Written by
`nox -s detection` from `tests/hostile/detection.json`; the subjects are in `tests/hostile`.
"""

Entry = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Faulty:
    """A subject with one fault, and the name of the check that must catch it."""

    case: Any
    by: str


@functools.cache
def subjects() -> dict[str, Any]:
    """Return the faulty subjects by name, and the cases of the good ones."""
    sys.path.insert(0, str(ROOT))
    from tests.hostile.good_cases import good_cases
    from tests.hostile.table import HOSTILE

    faulty = {hostile.case.name: hostile for hostile in HOSTILE}
    good = {f"{GOOD}{case.name}": case for case in good_cases()}
    # The executors are in the tests of the core, whose path is not valid in an import statement.
    tests = importlib.import_module("packages.grain-core.tests.testing.test_executor_checks")
    for kind, check in tests.BROKEN:
        name = f"executor:{kind.__name__}"
        if name in faulty:
            name += f", {check.removeprefix('check_')}"
        faulty[name] = Faulty(case=tests.broken_case(kind), by=check)
    good |= {f"{GOOD}executor {case.name}": case for case in tests.GOOD}
    return {**faulty, **good}


def run_once(subject: Any) -> Entry:
    """Run the check that must catch a faulty subject, or all checks of a good one."""
    from grain.testing import CHECKS, Subject, check_one, run

    if not is_good(subject):
        [check] = [check for check in CHECKS if check.name == subject.by]
        caught = not check_one(check, Subject(subject.case)).ok
        return {
            "kind": subject.case.kind.value,
            "check": subject.by,
            "runs": 1,
            "caught": int(caught),
        }
    report = run(subject)
    if not report.ok:
        print(report.table(), file=sys.stderr, flush=True)
    checks = sum(result.outcome.value == "passed" for result in report.results)
    return {"kind": subject.kind.value, "checks": checks, "runs": 1, "passed": int(report.ok)}


def is_good(subject: Any) -> bool:
    """Return whether a subject is the case of a good one."""
    return not hasattr(subject, "by")


def add(first: Entry | None, second: Entry) -> Entry:
    """Return the sum of the runs of two entries of the same subject.

    Example:
        >>> one = {"kind": "map-source", "check": "check_repr", "runs": 1, "caught": 1}
        >>> add(one, {**one, "caught": 0})
        {'kind': 'map-source', 'check': 'check_repr', 'runs': 2, 'caught': 1}
    """
    if first is None or first.get("check") != second.get("check"):
        return second
    sums = {key: first[key] + second[key] for key in SUMMED if key in second}
    return {**second, **sums}


def run_here(wanted: dict[str, int]) -> None:
    """Run subjects in this process, as often as wanted; print entries as JSON."""
    with contextlib.suppress(ImportError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # faulty subjects leak files
    known = subjects()
    gc.collect()
    gc.freeze()  # checks of leaks collect garbage often
    for name, runs in wanted.items():
        for start in range(0, runs, STEP):
            entry = None
            for _ in range(start, min(start + STEP, runs)):
                entry = add(entry, run_once(known[name]))
            print(json.dumps([name, entry]), flush=True)


def run_in_process(wanted: dict[str, int]) -> None:
    """Run subjects in a process of its own, and add their entries to the record."""

    def add_entry(name: str, entry: Entry) -> None:
        with changed_record() as record:
            record[name] = add(record.get(name), entry)
        print(name, record[name], flush=True)

    command = [sys.executable, "-W", "ignore", __file__, "here", json.dumps(wanted)]
    # Processes that start do not wait for the threads of BLAS, which no subject uses.
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("["):
                add_entry(*json.loads(line))
    if process.returncode:
        raise SystemExit(f"{', '.join(wanted)}: the process ended with {process.returncode}")


@contextlib.contextmanager
def changed_record() -> Iterator[dict[str, Entry]]:
    """Yield the record to be changed, and write it, while no other process does so."""
    with open(RECORD, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        record = read_record()
        yield record
        ordered = {name: record[name] for name in subjects() if name in record}
        file.truncate(0)
        file.write(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")


def groups(known: dict[str, Any], only: str) -> Iterator[list[str]]:
    """Yield the subjects of each process: good ones, and those that leave files or threads, alone."""
    names = [name for name in known if only.lower() in name.lower()]
    alone = [
        name
        for name in names
        if is_good(known[name])
        or known[name].case.kind.value == "executor"
        or re.search("leak|close", known[name].by)
    ]
    others = [name for name in names if name not in alone]
    yield from (others[start : start + GROUP] for start in range(0, len(others), GROUP))
    yield from ([name] for name in alone)


def run_all(runs: int, only: str, jobs: int, again: bool) -> int:
    """Run subjects and add them to the record; return 1 when one of them was missed."""

    def run_group(names: list[str]) -> None:
        record = read_record()
        missing = {name: runs - record.get(name, {}).get("runs", 0) for name in names}
        wanted = {name: count for name, count in missing.items() if count > 0}
        if wanted:
            run_in_process(wanted)

    chosen = list(groups(subjects(), only))
    if again:
        with changed_record() as record:
            for name in itertools.chain(*chosen):
                record.pop(name, None)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run_group, chosen))
    missed = list(shortfalls(read_record()))
    for line in missed:
        print(line)
    return 1 if missed else 0


def read_record() -> dict[str, Entry]:
    """Return the record."""
    text = RECORD.read_text(encoding="utf-8") if RECORD.exists() else ""
    found: dict[str, Entry] = json.loads(text) if text else {}
    return found


def shortfalls(record: dict[str, Entry]) -> Iterator[str]:
    """Yield subjects that were caught, or passed, less often than they must be."""
    for name, entry in record.items():
        count = entry.get("caught", entry.get("passed"))
        least = LEAST_CAUGHT.get(entry.get("check", ""), 1) * entry["runs"]
        if count < least:
            yield f"{name}: {count} of {entry['runs']} runs, expected {least:g} or more"


def page(record: dict[str, Entry]) -> str:
    """Return the text of the page."""
    faulty = {name: entry for name, entry in record.items() if "caught" in entry}
    good = {name: entry for name, entry in record.items() if "passed" in entry}
    lines = [
        INTRODUCTION,
        f"The {len(faulty)} faulty subjects, each with the check that must catch it:\n",
        "| kind | fault | check | caught |",
        "| --- | --- | --- | --- |",
    ]
    for name, entry in sorted(faulty.items(), key=lambda item: item[1]["kind"]):
        rate = f"{entry['caught']} of {entry['runs']}"
        lines.append(f"| {entry['kind']} | {fault(name)} | `{entry['check']}` | {rate} |")
    lines += [
        f"\nThe {len(good)} correct subjects, each with all checks of its kind:\n",
        "| kind | subject | checks | passed |",
        "| --- | --- | --- | --- |",
    ]
    for name, entry in good.items():
        title = name.removeprefix(GOOD)
        rate = f"{entry['passed']} of {entry['runs']}"
        lines.append(f"| {entry['kind']} | {title} | {entry['checks']} | {rate} |")
    return "\n".join(lines) + "\n"


def fault(name: str) -> str:
    """Return the name of a subject as words.

    Example:
        >>> fault("SharesAPosition"), fault("writing:counts_nothing")
        ('shares a position', 'counts nothing')
    """
    words = re.sub(
        r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name.partition(":")[2] or name
    )
    return words.replace("_", " ").lower()


def main(argv: list[str]) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    given = commands.add_parser("run")
    given.add_argument("--runs", type=int, default=RUNS)
    given.add_argument("--only", default="")
    given.add_argument("--jobs", type=int, default=1)
    given.add_argument("--again", action="store_true")
    commands.add_parser("here").add_argument("wanted", type=json.loads)
    commands.add_parser("page").add_argument("--check", action="store_true")
    arguments = parser.parse_args(argv)
    if arguments.command == "here":
        run_here(arguments.wanted)
        return 0
    if arguments.command == "run":
        return run_all(arguments.runs, arguments.only, arguments.jobs, arguments.again)
    text = page(read_record())
    if not arguments.check:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        print(f"{PAGE.relative_to(ROOT)} is out of date: run `nox -s detection`.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
