"""Measure how often the conformance checks catch faulty subjects, and how often good ones pass.

Usage:
    python tools/detection.py run [--runs 100] [--only TEXT] [--jobs 1]
    python tools/detection.py page [--check]

`run` runs the check meant for each faulty subject of `tests/hostile`, and all checks of each good
subject, several times each. It adds the counts to the record
`tests/hostile/detection.json`, from which `page` writes the page in the docs. A subject that has
enough runs in the record is not run again unless `--again` is given.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import importlib
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent
RECORD = ROOT / "tests/hostile/detection.json"
PAGE = ROOT / "docs/conformance-detection.md"
RUNS = 100
GROUP = 12
GOOD = "good: "
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


def subjects() -> dict[str, Any]:
    """Return the faulty subjects by name, and the cases of the good ones."""
    sys.path.insert(0, str(ROOT))
    from tests.hostile.good_cases import good_cases
    from tests.hostile.table import HOSTILE

    faulty = {hostile.case.name: hostile for hostile in (*HOSTILE, *broken_executors())}
    return {**faulty, **{f"{GOOD}{case.name}": case for case in good_cases()}}


def broken_executors() -> list[Any]:
    """Return the broken executors, which the tests of the core contain."""
    from tests.hostile.table import Hostile

    from grain.testing import Case

    # Not a valid name for an import statement.
    tests = importlib.import_module("packages.grain-core.tests.testing.test_executor_checks")
    return [
        Hostile(
            Case(
                name=f"executor:{kind.__name__}",
                kind="executor",
                make=functools.partial(tests.broken.Opens, kind),
                check_timeout=30.0,
            ),
            check,
        )
        for kind, check in tests.BROKEN.items()
    ]


def run_faulty(hostile: Any, runs: int) -> Entry:
    """Run the check that must catch a subject."""
    from grain.testing import CHECKS, Subject, check_one

    [check] = [check for check in CHECKS if check.name == hostile.by]
    outcomes = [check_one(check, Subject(hostile.case)).ok for _ in range(runs)]
    return {
        "kind": hostile.case.kind.value,
        "check": hostile.by,
        "runs": runs,
        "caught": outcomes.count(False),
    }


def run_good(case: Any, runs: int) -> Entry:
    """Run all checks of a good subject."""
    from grain.testing import run

    reports = [run(case) for _ in range(runs)]
    for report in reports:
        if not report.ok:
            print(report.table(), file=sys.stderr)
    checks = {r.check for r in reports[0].results if r.outcome.value == "passed"}
    passed = sum(report.ok for report in reports)
    return {"kind": case.kind.value, "checks": len(checks), "runs": runs, "passed": passed}


def run_here(names: list[str], runs: int) -> None:
    """Run subjects in this process, and print an entry for each as JSON."""
    with contextlib.suppress(ImportError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # faulty subjects leak files
    known = subjects()
    for name in names:
        run = run_good if name.startswith(GOOD) else run_faulty
        print(json.dumps([name, run(known[name], runs)]), flush=True)


def run_in_process(names: list[str], runs: int, keep: Callable[[str, Entry], None]) -> None:
    """Run subjects in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "here", *names, "--runs", str(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("["):
                keep(*json.loads(line))
    if process.returncode:
        raise SystemExit(f"{', '.join(names)}: the process ended with {process.returncode}")


def groups(names: list[str], known: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the subjects of each process: good ones, and those that leave files or threads, alone."""
    good = [name for name in names if name.startswith(GOOD)]
    faulty = [name for name in names if name not in good]
    leaking = [name for name in faulty if "leak" in known[name].by or "close" in known[name].by]
    others = [name for name in faulty if name not in leaking]
    yield from (others[start : start + GROUP] for start in range(0, len(others), GROUP))
    yield from ([name] for name in (*leaking, *good))


def run_all(runs: int, only: str, jobs: int, again: bool) -> int:
    """Run subjects and add them to the record; return 1 when one of them was missed."""
    record = read_record()
    known = subjects()
    record = {name: record[name] for name in known if name in record}
    wanted = [
        name
        for name in known
        if only.lower() in name.lower() and (again or record.get(name, {}).get("runs", 0) < runs)
    ]

    def keep(name: str, entry: Entry) -> None:
        record[name] = entry
        print(name, entry, flush=True)
        ordered = {name: record[name] for name in known if name in record}
        RECORD.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda names: run_in_process(names, runs, keep), groups(wanted, known)))
    missed = list(shortfalls(record))
    for line in missed:
        print(line)
    return 1 if missed else 0


def read_record() -> dict[str, Entry]:
    """Return the record."""
    found: dict[str, Entry] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
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
        f"{len(faulty)} of the faulty subjects have been measured:\n",
        "| kind | fault | check | caught |",
        "| --- | --- | --- | --- |",
    ]
    for name, entry in sorted(faulty.items(), key=lambda item: item[1]["kind"]):
        rate = f"{entry['caught']} of {entry['runs']}"
        lines.append(f"| {entry['kind']} | {fault(name)} | `{entry['check']}` | {rate} |")
    lines += [
        f"\n{len(good)} of the correct subjects have been measured, each with all checks of its kind:\n",
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
    for command in ("run", "here"):
        given = commands.add_parser(command)
        given.add_argument("--runs", type=int, default=RUNS)
        if command == "here":
            given.add_argument("names", nargs="+")
        else:
            given.add_argument("--only", default="")
            given.add_argument("--jobs", type=int, default=1)
            given.add_argument("--again", action="store_true")
    commands.add_parser("page").add_argument("--check", action="store_true")
    arguments = parser.parse_args(argv)
    if arguments.command == "here":
        run_here(arguments.names, arguments.runs)
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
