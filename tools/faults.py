"""Try to break the library for a while, and write down what happened.

Runs the harness of `tests/faults` at length: every boundary interrupted, thousands of state machines,
worker deaths, limits of the machine, damaged files and garbage states. Each job is a process of its own, so
that a hang or a crash is an outcome like any other. Results are kept in `tests/faults/results.json`, and
`docs/reliability.md` is made of them.

    python tools/faults.py                      all of it
    python tools/faults.py --scale 0.01         a look
    python tools/faults.py --only interrupts    one area; the others keep their results
    python tools/faults.py --render             the page, from the results that are there
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import datetime as dt
import json
import os
import pathlib
import platform
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.faults import (  # noqa: E402
    damage,
    garbage,
    golden,
    history,
    interrupts,
    machines,
    pipelines,
    schedules,
)

import grain  # noqa: E402

RESULTS = ROOT / "tests/faults/results.json"
PAGE = ROOT / "docs/reliability.md"
JOB_SECONDS = 3600

# What a whole run does.
INTERRUPTS = 1_000_000
ROUNDS_WITH_WORKERS = 60
EXAMPLES = {"IteratorMachine": 7000, "HostsMachine": 3000}
SCHEDULED_ROUNDS = {"kill a worker": 550}
OTHER_ROUNDS = 100
DAMAGED_FILES = 300
GARBAGE_STATES = 5000


# --- jobs: each runs in a process of its own, and returns plain numbers --------------------------


def interrupt(name: str, mode: str, count: int, seed: int, exhaust: bool) -> dict[str, Any]:
    """Interrupt every boundary of a pipeline once, then several of each round at random."""
    stream = history.record(pipelines.build(name, "inline"))
    tally, rng = interrupts.Tally(), random.Random(f"{name} {mode} {seed}")
    options: dict[str, Any] = {"label": f"{name}, {mode}", "prefetch": mode != "inline"}

    def make() -> Any:
        return pipelines.build(name, mode)

    boundaries = max(8, interrupts.boundaries(make, stream, tally, **options))
    if exhaust:
        interrupts.exhaust(make, stream, tally, **options)
    length = len(stream.elements)
    for _ in range(100 * count):
        if tally.interrupts >= count or len(tally.bad) > 20:
            break
        gaps = [rng.randint(1, max(8, boundaries // 2)) for _ in range(12)]
        jumps = tuple(rng.randint(0, length) for _ in range(rng.randrange(4)))
        interrupts.play(make, stream, gaps, tally, jumps=jumps, **options)
    return {
        "interrupts": tally.interrupts,
        "rounds": tally.rounds,
        "sites": sorted(tally.sites),
        "closed": tally.closed,
        "bad": tally.bad,
    }


def drive(machine: str, examples: int, seed: int) -> dict[str, Any]:
    """Run examples of a state machine."""
    from hypothesis import HealthCheck, Phase, settings
    from hypothesis import seed as seeded
    from hypothesis.stateful import run_state_machine_as_test

    profile = settings(
        max_examples=examples,
        stateful_step_count=20,
        deadline=None,
        database=None,
        phases=[Phase.generate],  # Shrinking an example with worker processes takes long.
        suppress_health_check=list(HealthCheck),
    )
    kind = getattr(machines, machine)
    bad: list[str] = []
    try:
        run_state_machine_as_test(seeded(seed)(kind), settings=profile)
    except Exception as error:
        example = "\n".join(getattr(error, "__notes__", ()))
        bad.append(f"{machine}, seed {seed}: {type(error).__name__}: {error}\n{example}")
    return {"examples": examples, "bad": bad}


def keep(release: str) -> dict[str, Any]:
    """Compare the streams of a release, and resume from each of its states."""
    bad, states = [], 0
    streams = golden.load(golden.FOLDER / release)
    for name, stream in streams.items():
        if history.record(pipelines.build(name, "inline")) != stream:
            bad.append(f"{release}, {name}: another stream")
        for position in range(len(stream.states)):
            checker = history.Checker(stream, iter(pipelines.build(name, "inline")))
            checker.jump(position)
            checker.finish()
            history.close(checker.iterator)
            states += 1
    return {"streams": len(streams), "states": states, "bad": bad}


JOBS = {
    "interrupts": interrupt,
    "machines": drive,
    "schedules": lambda **given: dataclasses.asdict(schedules.run(**given)),
    "damage": lambda **given: dataclasses.asdict(damage.run(**given)),
    "garbage": lambda **given: dataclasses.asdict(garbage.run(**given)),
    "golden": keep,
}


def jobs(scale: float, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the jobs of a run, as areas and arguments."""
    names = [*pipelines.PIPELINES, *pipelines.LOADERS]
    share = max(1, int(scale * INTERRUPTS / (2 * len(names))))
    for name in names:
        for mode in ("inline", "threads"):
            given = {"count": share, "seed": seed, "exhaust": scale >= 0.1}
            yield "interrupts", {"name": name, "mode": mode, **given}
        if name in pipelines.PIPELINES:
            count = max(4, int(scale * ROUNDS_WITH_WORKERS))
            given = {"count": count, "seed": seed, "exhaust": False}
            yield "interrupts", {"name": name, "mode": "workers", **given}
    for machine, examples in EXAMPLES.items():
        for part in range(10):
            given = {"examples": max(3, int(scale * examples / 10)), "seed": 1000 * seed + part}
            yield "machines", {"machine": machine, **given}
    for kind in schedules.KINDS:
        rounds = max(4, int(scale * SCHEDULED_ROUNDS.get(kind, OTHER_ROUNDS)))
        yield "schedules", {"kind": kind, "seed": seed, "count": rounds}
    for name in damage.FORMATS:
        count = max(10, int(scale * DAMAGED_FILES))
        yield "damage", {"name": name, "seed": seed, "count": count}
    for part in range(4):
        count = max(50, int(scale * GARBAGE_STATES / 4))
        yield "garbage", {"seed": 1000 * seed + part, "count": count}
    for release in golden.releases():
        yield "golden", {"release": release.name}


def run_job(area: str, given: dict[str, Any]) -> dict[str, Any]:
    """Run one job in a process; one that crashes or hangs is a bad outcome."""
    command = [sys.executable, __file__, "--job", json.dumps([area, given])]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=JOB_SECONDS, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return {**given, "area": area, "bad": [f"{area} {given}: no end in {JOB_SECONDS} seconds"]}
    if done.returncode:
        end = done.stderr[-1500:]
        return {**given, "area": area, "bad": [f"{area} {given}: exit {done.returncode}: {end}"]}
    return {**given, "area": area, **json.loads(done.stdout.splitlines()[-1])}


def run_all(scale: float, seed: int, only: set[str], processes: int) -> list[dict[str, Any]]:
    """Run the jobs, a few at a time; bad outcomes are shown as they come."""
    wanted = [job for job in jobs(scale, seed) if job[0] in only]
    found = []
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        running = [pool.submit(run_job, *job) for job in wanted]
        for number, job in enumerate(concurrent.futures.as_completed(running)):
            result = job.result()
            found.append(result)
            words = {k: v for k, v in result.items() if isinstance(v, int | str)}
            print(f"{number + 1}/{len(running)}", words, flush=True)
            for line in result["bad"]:
                print("  BAD", line[:4000], flush=True)
    return found


# --- results and page ----------------------------------------------------------------------------


def summarize(area: str, reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Reduce the reports of one area to the rows of its table."""
    rows: dict[str, dict[str, Any]] = {}
    key = {"interrupts": "mode", "machines": "machine", "schedules": "kind", "damage": "format"}
    for report in reports:
        row = rows.setdefault(str(report.get(key.get(area, "area"))), {"bad": 0})
        for name, value in report.items():
            if isinstance(value, int) and name not in ("seed", "count", "exhaust"):
                row[name] = row.get(name, 0) + value
        row["bad"] += len(report["bad"])
        for outcome, count in report.get("outcomes", {}).items():
            name = "exact" if outcome == "exact" else "errors"
            row[name] = row.get(name, 0) + count
        if area == "interrupts":
            row["pipelines"] = row.get("pipelines", 0) + 1
            row.setdefault("places", set()).update(report.get("sites", ()))
    for row in rows.values():
        if "places" in row:
            row["places"] = len(row["places"])
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "version": grain.__version__,
        "rows": rows,
    }


def table(heads: list[str], rows: list[list[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def page(results: dict[str, Any]) -> str:
    """Return the page about all results."""
    area = {name: results.get(name, {}).get("rows", {}) for name in JOBS}
    said = [
        HEAD,
        "## Interrupts\n\n" + INTERRUPTS_TEXT,
        table(
            ["read by", "pipelines", "interrupts", "places in the code", "closed", "bad rounds"],
            [
                [mode, r["pipelines"], r["interrupts"], r["places"], r["closed"], r["bad"]]
                for mode, r in area["interrupts"].items()
            ],
        ),
        "## State machines\n\n" + MACHINES_TEXT,
        table(
            ["machine", "examples", "failures"],
            [[_MACHINES[m], r["examples"], r["bad"]] for m, r in area["machines"].items()],
        ),
        "## Faults of the machine\n\n" + SCHEDULES_TEXT,
        table(
            [
                "fault",
                "rounds",
                "times injected",
                "stream exact",
                "error, then resumed exactly",
                "bad",
            ],
            [
                [kind, r["rounds"], r["injected"], r.get("exact", 0), r.get("errors", 0), r["bad"]]
                for kind, r in area["schedules"].items()
            ],
        ),
        "## Damaged files\n\n" + DAMAGE_TEXT,
        table(
            ["format", "files", "error that names the file", "unchanged", "other data", "bad"],
            [
                [name, r["files"], r["errors"], r["unchanged"], r["wrong"], r["bad"]]
                for name, r in area["damage"].items()
            ],
        ),
        "## Garbage states\n\n" + GARBAGE_TEXT,
        table(
            ["states", "refused", "accepted", "bad"],
            [
                [r["states"], r["refused"], r["accepted"], r["bad"]]
                for r in area["garbage"].values()
            ],
        ),
        "## Golden streams\n\n" + GOLDEN_TEXT,
        table(
            ["streams", "states", "bad"],
            [[r["streams"], r["states"], r["bad"]] for r in area["golden"].values()],
        ),
        "## When and where\n\n"
        + table(
            ["area", "date", "Python", "version"],
            [[name, r["date"], r["python"], r["version"]] for name, r in sorted(results.items())],
        ),
    ]
    return "\n\n".join(said) + "\n"


_MACHINES = {"IteratorMachine": "one iterator", "HostsMachine": "the hosts of a job"}
HEAD = """\
# What was tried to break it

A data loader has one promise: each element once, in order, and a state from which the rest follows
exactly. This page lists what was done to break that promise, how often, and what came of it. It is
written by `nox -s faults`, from the results of its last run; a short form of every attack runs with
the ordinary tests (`tests/faults`).

One checker decides in all cases. A run without faults gives the expected elements and the state
after each of them; an iterator under attack has to give exactly these, and every state taken from
it has to be the one of its position. A round is bad if an element is lost, doubled or out of order,
if a state belongs to another position, if a call does not return, or if threads, processes or
descriptors are left behind."""
INTERRUPTS_TEXT = """\
`KeyboardInterrupt` is raised where a real Ctrl-C can strike: when a function starts, after a call
has returned, inside a call that blocks. First every such place of `iter`, `next`, `get_state`,
`set_state` and `close` in turn, then many of them in one round. After each interrupt the program
continues with the same iterator."""
MACHINES_TEXT = """\
Random pipelines and random sequences of calls: elements, states, earlier states, closing,
continuing with other threads and worker counts, killed workers, interrupts. For jobs of several
hosts: steps, and continuing with another number of hosts. The model is a list and a position."""
SCHEDULES_TEXT = """\
At seeded positions of pipelines over worker processes and threads. Where the library cannot
continue, it raises an error that says why; the state is then that of the last element, and the rest
is read from it."""
DAMAGE_TEXT = """\
Flipped bits, zeros, noise, and parts that are cut, missing or doubled. Files without checksums may
give other data; files with checksums may not, and every error names the file."""
GARBAGE_TEXT = """\
States with wrong types, missing fields, numbers far outside, and parts of other pipelines' states.
A state that is refused leaves the iterator where it was."""
GOLDEN_TEXT = """\
Every release writes down the elements and states of a table of pipelines. All of them are compared,
and resumed from, for ever."""


def main() -> int:
    """Return the exit code: 1 if anything was bad."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of a whole run")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the time")
    parser.add_argument("--only", action="append", choices=sorted(JOBS), help="areas; default: all")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="jobs at a time")
    parser.add_argument("--render", action="store_true", help="write the page only")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        area, arguments = json.loads(given.job)
        warnings.simplefilter("ignore")  # Fallbacks warn, and that is all they should do.
        print(json.dumps(JOBS[area](**arguments)))
        return 0
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    bad = 0
    if not given.render:
        print(f"seed {given.seed}", flush=True)
        only = set(given.only or JOBS)
        found = run_all(given.scale, given.seed, only, given.processes)
        bad = sum(len(report["bad"]) for report in found)
        for area in sorted(only):
            reports = [report for report in found if report["area"] == area]
            results[area] = summarize(area, reports)
        if given.scale >= 1:
            RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        print(f"{len(found)} jobs, {bad} bad rounds")
    if given.render or given.scale >= 1:
        PAGE.write_text(page(results))
    else:
        print(page(results))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
