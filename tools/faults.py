"""Try to break the library for a while, and write down what happened.

Runs the harness of `tests/faults` at length: every boundary interrupted, thousands of state machines,
worker deaths, limits of the machine, damaged files and garbage states. Each job is a process of its own, so
that a hang or a crash is an outcome like any other.

The report of each job is appended to `.faults/reports.jsonl` when it ends. A run that was stopped is
continued with the same seed; runs with other seeds add to it, as long as the code of the library is the same.
`tests/faults/results.json` has the sums, and `docs/reliability.md` is made of them.

    python tools/faults.py                      all of it
    python tools/faults.py --scale 0.01         a look, of which nothing is kept
    python tools/faults.py --only interrupts    one area; the others keep their results
    python tools/faults.py --soak FILE          add the results of `tools/soak.py --results FILE`
    python tools/faults.py --render             the page, from the reports and results that are there
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import datetime as dt
import hashlib
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
REPORTS = ROOT / ".faults/reports.jsonl"
JOB_SECONDS = 3600

# What a whole run does.
INTERRUPTS = 1_000_000
ROUNDS_WITH_WORKERS = 60
EXAMPLES = {"IteratorMachine": 7000, "HostsMachine": 3000}
SCHEDULED_ROUNDS = {"kill a worker": 650}
OTHER_ROUNDS = 100
DAMAGED_FILES = 300
GARBAGE_STATES = 5000
# Interrupts of a round, and the part of its boundaries that passes between two of them at most: few and far
# apart, or many and close together.
DENSITIES = ((12, 2), (48, 8), (96, 16))


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
        strikes, part = rng.choice(DENSITIES)
        gaps = [rng.randint(1, max(8, boundaries // part)) for _ in range(strikes)]
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
    done = 0

    class Counted(kind):  # type: ignore[misc, valid-type]
        def teardown(self) -> None:
            nonlocal done
            done += 1
            super().teardown()

    try:
        run_state_machine_as_test(seeded(seed)(Counted), settings=profile)
    except Exception as error:
        example = "\n".join(getattr(error, "__notes__", ()))
        bad.append(f"{machine}, seed {seed}: {type(error).__name__}: {error}\n{example}")
    # Examples that a filter ended early are played again, and are not counted.
    return {"examples": min(done, examples), "bad": bad}


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
            given = {"count": share, "seed": seed, "exhaust": mode == "inline" and scale >= 0.1}
            yield "interrupts", {"name": name, "mode": mode, **given}
        if name in pipelines.PIPELINES:
            count = max(4, int(scale * ROUNDS_WITH_WORKERS))
            given = {"count": count, "seed": seed, "exhaust": False}
            yield "interrupts", {"name": name, "mode": "workers", **given}
    for machine, examples in EXAMPLES.items():
        for part in range(10):
            count = max(3, int(scale * examples / 10))
            given = {"machine": machine, "examples": count, "seed": 1000 * seed + part}
            yield "machines", given
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


def code_of_library() -> str:
    """Return a short hash of the sources of all packages: what the reports are about."""
    files = sorted(ROOT.glob("packages/*/src/**/*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def read_reports() -> list[dict[str, Any]]:
    """Return the reports about the library as it is now."""
    if not REPORTS.exists():
        return []
    lines = map(json.loads, REPORTS.read_text().splitlines())
    code = code_of_library()
    return [report for report in lines if report["code"] == code]


def keep_report(report: dict[str, Any]) -> None:
    """Append a report to the file of reports."""
    REPORTS.parent.mkdir(exist_ok=True)
    with REPORTS.open("a") as file:
        file.write(json.dumps(report) + "\n")


def stamp() -> dict[str, str]:
    """Return what is the same for all reports of a run."""
    return {
        "code": code_of_library(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "version": grain.__version__,
    }


def run_all(scale: float, seed: int, only: set[str], processes: int) -> list[dict[str, Any]]:
    """Run the jobs that have no report yet, a few at a time; bad outcomes are shown as they come."""
    wanted = [job for job in jobs(scale, seed) if job[0] in only]
    keeps = scale >= 1
    if keeps:
        known = {json.dumps(report["job"]) for report in read_reports()}
        wanted = [job for job in wanted if json.dumps(list(job)) not in known]
    found = []
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        running = {pool.submit(run_job, *job): job for job in wanted}
        for number, done in enumerate(concurrent.futures.as_completed(running)):
            result = {**done.result(), **stamp(), "job": list(running[done])}
            found.append(result)
            if keeps:
                keep_report(result)
            words = {k: v for k, v in result.items() if isinstance(v, int | str)}
            print(f"{number + 1}/{len(running)}", words, flush=True)
            for line in result["bad"]:
                print("  BAD", line[:4000], flush=True)
    return found


# --- results and page ----------------------------------------------------------------------------


def summarize(area: str, reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Reduce the reports of one area to the rows of its table."""
    rows: dict[str, dict[str, Any]] = {}
    names: dict[str, set[str]] = {}
    key = {"interrupts": "mode", "machines": "machine", "schedules": "kind", "damage": "name"}
    for report in reports:
        label = str(report.get(key.get(area, "area")))
        row = rows.setdefault(label, {"bad": 0})
        for name, value in report.items():
            if isinstance(value, int) and name not in ("seed", "count", "exhaust"):
                row[name] = row.get(name, 0) + value
        row["bad"] += len(report["bad"])
        for outcome, count in report.get("outcomes", {}).items():
            name = "exact" if outcome == "exact" else "errors"
            row[name] = row.get(name, 0) + count
        if area == "interrupts":
            names.setdefault(label, set()).add(report["name"])
            row.setdefault("places", set()).update(report.get("sites", ()))
    for label, row in rows.items():
        if area == "interrupts":
            row["places"] = len(row["places"])
            row["pipelines"] = len(names[label])
    about = {name: reports[-1][name] for name in ("code", "date", "python", "version")}
    seeds = {report["seed"] // (1000 if area in ("machines", "garbage") else 1)
             for report in reports if "seed" in report}  # fmt: skip
    return {**about, "runs": max(1, len(seeds)), "rows": rows}


def table(heads: list[str], rows: list[list[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def overview(results: dict[str, Any]) -> str:
    """Return the table of all faults: how often each was injected, and what came of it."""
    area = {name: found.get("rows", {}) for name, found in results.items()}

    def total(name: str, field: str) -> int:
        return sum(row.get(field, 0) for row in area[name].values())

    rows: list[list[Any]] = []
    if "interrupts" in area:
        pipelines_tried = max(row["pipelines"] for row in area["interrupts"].values())
        fault = f"Ctrl-C, over {pipelines_tried} pipelines"
        rows.append(
            [fault, total("interrupts", "interrupts"), _outcome(total("interrupts", "bad"))]
        )
    for kind, row in area.get("schedules", {}).items():
        count = len(schedules.KINDS[kind][1])
        fault = f"{kind}, over {count} pipeline{'s' if count > 1 else ''}"
        said = _outcome(row["bad"])
        if row.get("errors") and not row["bad"]:
            exact, errors = row.get("exact", 0), row["errors"]
            said = f"{exact:,} rounds exact, {errors:,} ended by an error and resumed exactly"
        rows.append([fault, row["injected"], said])
    if "machines" in area:
        bad = total("machines", "bad")
        rows.append(
            ["random sequences of calls and faults", total("machines", "examples"), _outcome(bad)]
        )
    if "damage" in area:
        bad, wrong = total("damage", "bad"), total("damage", "wrong")
        said = f"{bad} bad; {wrong:,} gave other data, where no checksum can tell"
        rows.append(["damaged file", total("damage", "files"), said])
    if "garbage" in area:
        bad = total("garbage", "bad")
        said = "each refused, or read to an end" if not bad else f"{bad:,} bad"
        rows.append(["garbage given to `set_state`", total("garbage", "states"), said])
    if "golden" in area:
        bad = total("golden", "bad")
        rows.append(["state of an earlier release", total("golden", "states"), _outcome(bad)])
    if "soak" in results:
        soak = results["soak"]
        said = "; ".join(soak["bad"]) or "memory, descriptors, threads and processes stay flat"
        fault = f"lost worker, error or dropped iterator, for {soak['seconds'] // 60} minutes"
        rows.append([fault, sum(soak["faults"].values()), said])
    return table(["fault", "times injected", "outcome"], rows)


def _outcome(bad: int) -> str:
    return f"{bad:,} bad" if bad else "all streams and states exact, nothing left behind"


def page(results: dict[str, Any]) -> str:
    """Return the page about all results; an area without results has no section."""
    said = [HEAD, overview(results)]
    for name, section in _SECTIONS.items():
        if name in results:
            said.append(section(results[name]))
    said.append(
        "## When and where\n\n"
        "Runs with different seeds are added up only if the code of the library was the same; the column\n"
        "has a hash of it.\n\n"
        + table(
            ["area", "date", "runs", "Python", "version", "code"],
            [
                [name, r["date"], r["runs"], r["python"], r["version"], f"`{r['code']}`"]
                for name, r in sorted(results.items())
            ],
        )
    )
    return "\n\n".join(said) + "\n"


def _section(title: str, text: str, heads: list[str], rows: list[list[Any]]) -> str:
    return f"## {title}\n\n{text}\n\n{table(heads, rows)}"


def _interrupts(found: dict[str, Any]) -> str:
    heads = ["read by", "pipelines", "rounds", "interrupts", "places in the code", "closed", "bad"]
    fields = ["pipelines", "rounds", "interrupts", "places", "closed", "bad"]
    rows = [[_MODES[mode], *(row[f] for f in fields)] for mode, row in found["rows"].items()]
    return _section("Interrupts", INTERRUPTS_TEXT, heads, rows)


def _machines(found: dict[str, Any]) -> str:
    rows = [[_MACHINES[m], r["examples"], r["bad"]] for m, r in found["rows"].items()]
    return _section("State machines", MACHINES_TEXT, ["machine", "examples", "failures"], rows)


def _schedules(found: dict[str, Any]) -> str:
    exact, resumed = "stream exact", "error, then resumed exactly"
    heads = ["fault", "rounds", "times injected", exact, resumed, "bad"]
    rows = [
        [kind, r["rounds"], r["injected"], r.get("exact", 0), r.get("errors", 0), r["bad"]]
        for kind, r in found["rows"].items()
    ]
    return _section("Faults of the machine", SCHEDULES_TEXT, heads, rows)


def _damage(found: dict[str, Any]) -> str:
    heads = [
        "format",
        "checksums",
        "files",
        "error that names it",
        "unchanged",
        "other data",
        "bad",
    ]
    rows = [
        [
            name,
            "yes" if damage.FORMATS[name].checksums else "no",
            *(r[field] for field in ("files", "errors", "unchanged", "wrong", "bad")),
        ]
        for name, r in found["rows"].items()
    ]
    return _section("Damaged files", DAMAGE_TEXT, heads, rows)


def _garbage(found: dict[str, Any]) -> str:
    fields = ["states", "refused", "accepted", "bad"]
    rows = [[row[field] for field in fields] for row in found["rows"].values()]
    return _section("Garbage states", GARBAGE_TEXT, fields, rows)


def _golden(found: dict[str, Any]) -> str:
    fields = ["streams", "states", "bad"]
    rows = [[row[field] for field in fields] for row in found["rows"].values()]
    return _section("Golden streams", GOLDEN_TEXT, fields, rows)


def _soak(found: dict[str, Any]) -> str:
    faults = ", ".join(f"{n.replace('_', ' ')} {count:,}" for n, count in found["faults"].items())
    text = (
        f"{SOAK_TEXT}\n\n"
        f"It took {found['seconds'] // 60} minutes, with {found['rounds']:,} rounds. "
        f"Those with a fault: {faults}."
    )
    rows = []
    for name, (early, late) in found["resources"].items():
        sizes = [f"{v / 2**20:.1f} MB" if "memory" in name else v for v in (early, late)]
        rows.append([_RESOURCES[name], *sizes])
    return _section("Soak", text, ["resource", "after the warm-up", "at the end"], rows)


_SECTIONS = {
    "interrupts": _interrupts,
    "machines": _machines,
    "schedules": _schedules,
    "damage": _damage,
    "garbage": _garbage,
    "golden": _golden,
    "soak": _soak,
}
_MODES = {"inline": "the consumer's thread", "threads": "threads", "workers": "worker processes"}
_RESOURCES = {
    "own_memory": "memory of the program",
    "workers_memory": "memory of its workers",
    "handles": "descriptors of the program",
    "workers_handles": "descriptors of its workers",
    "threads": "threads",
    "processes": "processes",
}
_MACHINES = {"IteratorMachine": "one iterator", "HostsMachine": "the hosts of a job"}
HEAD = """\
# What was tried to break it

A data loader has one promise: each element once, in order, and a state from which the rest follows
exactly. This page lists what was done to break that promise, how often, and what came of it. It is
written by `nox -s faults`, from the results of its runs; a short form of every attack runs with the
ordinary tests (`tests/faults`).

One checker decides in all cases. A run without faults gives the expected elements and the state
after each of them; an iterator under attack has to give exactly these, and every state taken from
it has to be the one of its position. A round is bad if an element is lost, doubled or out of order,
if a state belongs to another position, if a call does not return, or if threads, processes or
descriptors are left behind."""
INTERRUPTS_TEXT = """\
`KeyboardInterrupt` is raised where a real Ctrl-C can strike: when a function starts, after a call
has returned, inside a call that blocks. Where elements are read in the consumer's thread, first
every such place of `iter`, `next`, `get_state`, `set_state` and `close` in turn, each in a round of
its own; then, for all ways of reading, up to 96 of them in one round, at random. After each
interrupt the program continues with the same iterator."""
MACHINES_TEXT = """\
Random pipelines and random sequences of calls: elements, states, earlier states, closing,
continuing with other threads and worker counts, killed workers, interrupts. For jobs of several
hosts: steps, and continuing with another number of hosts. The model is a list and a position."""
SCHEDULES_TEXT = """\
At seeded positions of pipelines over worker processes and threads. Where the library cannot
continue, it raises an error that says why; the state is then that of the last element. After the
fault, the state is compared after every element, and the rest is read once more from one of these
states."""
DAMAGE_TEXT = """\
Flipped bits, zeros, noise, and parts that are cut, missing or doubled. Bytes without a checksum, such as
the footer of a Parquet file, may give other data; bytes with one may not, and every error names the
file."""
GARBAGE_TEXT = """\
States with wrong types, missing fields, numbers far outside, and parts of other pipelines' states.
A state that is refused leaves the iterator where it was."""
GOLDEN_TEXT = """\
Every release writes down the elements and states of a table of pipelines. All of them are compared,
and resumed from, for ever."""
SOAK_TEXT = """\
One iterator over worker processes runs all the time; others are read, dropped, closed, restored, and
lose a worker, in turn. What the program holds is counted after each turn; the table has the medians
of a quarter of the counts after the warm-up, and of the last quarter."""


def main() -> int:
    """Return the exit code: 1 if anything was bad."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of a whole run")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the time")
    parser.add_argument("--only", action="append", choices=sorted(JOBS), help="areas; default: all")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="jobs at a time")
    parser.add_argument("--render", action="store_true", help="write the page only")
    parser.add_argument("--soak", type=pathlib.Path, help="add the results of a soak")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        area, arguments = json.loads(given.job)
        warnings.simplefilter("ignore")  # Fallbacks warn, and that is all they should do.
        print(json.dumps(JOBS[area](**arguments)))
        return 0
    bad = 0
    if not given.render and given.soak is None:
        print(f"seed {given.seed}", flush=True)
        only = set(given.only or JOBS)
        found = run_all(given.scale, given.seed, only, given.processes)
        bad = sum(len(report["bad"]) for report in found)
        print(f"{len(found)} jobs, {bad} bad rounds")
    keeps = given.render or given.soak is not None or given.scale >= 1
    reports = read_reports() if keeps else found
    # Not before the run: another one may have written its results meanwhile.
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if given.soak is not None:
        results["soak"] = {**stamp(), "runs": 1, **json.loads(given.soak.read_text())}
    for area in sorted({report["area"] for report in reports}):
        results[area] = summarize(area, [report for report in reports if report["area"] == area])
    if keeps:
        RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page(results))
    else:
        print(page(results))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
