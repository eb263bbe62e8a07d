"""Keeps what the conformance matrix found: compares it with what was found before, and shows it.

Usage:
    python tools/conformance_results.py compare REPORT RECORD [--update]
    python tools/conformance_results.py page [--update]

`compare` runs in the environment that was checked. It takes a report of `grain conformance --json`,
and fails if something in it is broken or has another outcome than in the record; `--update` writes
the record anew. `page` fails if the page in the docs is not what the records say, or writes it.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent
RECORDS = ROOT / "tests/conformance_results"
PAGE = ROOT / "docs/conformance-results.md"
CORE = "grain-core"
# From the one that says least to the one that must not be missed.
MARKS = {
    "skipped": "-",
    "passed": "✓",
    "expected failure": "expected",
    "unexpected pass": "**mended**",
    "failed": "**failed**",
}
GOOD = {"passed", "skipped", "expected failure"}
INTRODUCTION = """\
# Conformance results

What the checks of the [conformance kit](conformance.md) say about each plugin, alone with the core in an
environment of its own, built as wheels: on every supported Python, with the lowest versions its
requirements allow and with the latest. `new-…` are the packages that `grain plugins new` writes.
Written by `nox -s conformance scaffold -- --update` from `tests/conformance_results/`.
"""

Record = dict[str, Any]


# --- one cell ----------------------------------------------------------------------------------


def record_of(report: dict[str, Any]) -> Record:
    """What is worth keeping of a report: outcomes, and the versions it was found with."""
    return {
        "plugin": report["plugin"],
        "versions": versions(report["plugin"]),
        "cases": {
            f"{case['case']} ({case['kind']})": {
                result["check"]: result["outcome"] for result in case["results"]
            }
            for case in report["cases"]
        },
    }


def versions(plugin: str) -> dict[str, str]:
    """The versions of a plugin, of the core, and of what both require, in this environment."""
    [point] = metadata.entry_points(group="grain.plugins", name=plugin)
    assert point.dist is not None
    found = {}
    for distribution in (metadata.distribution(CORE), point.dist):
        found[distribution.name] = distribution.version
        for line in distribution.requires or ():
            name = re.match(r"[\w.-]+", line)
            if name and "extra ==" not in line:
                found[name[0]] = metadata.version(name[0])
    return dict(sorted(found.items()))


def problems(report: dict[str, Any]) -> Iterator[str]:
    """What is broken, whatever was found before."""
    if not report["cases"]:
        yield "nothing was checked"
    for case in report["cases"]:
        for name in case["missing"]:
            yield f"{case['case']}: {name} was not run"
        for result in case["results"]:
            if result["outcome"] not in GOOD:
                yield f"{case['case']}: {result['check']}: {result['outcome']}: {result['reason']}"


def changes(before: Record, now: Record) -> Iterator[str]:
    """Each outcome that is another one; versions may change."""
    old, new = (
        {
            (case, check): outcome
            for case, checks in record["cases"].items()
            for check, outcome in checks.items()
        }
        for record in (before, now)
    )
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield f"{key[0]}: {key[1]}: {old.get(key, 'not there')} before, {new.get(key, 'not there')} now"


def compare(report_file: pathlib.Path, record_file: pathlib.Path, update: bool) -> int:
    """Prints what is wrong with a report; 1 when anything is."""
    report = json.loads(report_file.read_text(encoding="utf-8"))
    now, found = record_of(report), list(problems(report))
    if update:
        record_file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(now, indent=1, ensure_ascii=False) + "\n"
        record_file.write_text(text, encoding="utf-8")
    elif not record_file.exists():
        found.append(f"there is no record {record_file.name} yet: run again with `-- --update`")
    else:
        before = json.loads(record_file.read_text(encoding="utf-8"))
        differing = list(changes(before, now))
        found += differing
        if differing:
            found.append("if that is as it should be, run again with `-- --update`")
    title = f"{record_file.parent.name}, {record_file.stem}"
    for line in found:
        print(f"{title}: {line}")
    print(f"{title}: {counted(now) if not found else 'not in order'}")
    return 1 if found else 0


# --- all cells ---------------------------------------------------------------------------------


def read_records(folder: pathlib.Path = RECORDS) -> dict[str, dict[str, Record]]:
    """Every record, by plugin and by cell, such as `"parquet"` and `"3.11-lowest"`."""
    found: dict[str, dict[str, Record]] = {}
    for file in sorted(
        folder.glob("*/*.json"), key=lambda file: (file.parent.name, _order(file.stem))
    ):
        record = json.loads(file.read_text(encoding="utf-8"))
        found.setdefault(file.parent.name, {})[file.stem] = record
    return found


def page(records: dict[str, dict[str, Record]]) -> str:
    """The page in the docs."""
    cells = sorted({cell for found in records.values() for cell in found}, key=_order)
    summary = [
        [f"`{plugin}`", *(counted(found[cell]) if cell in found else "" for cell in cells)]
        for plugin, found in records.items()
    ]
    tried = [
        [f"`{plugin}`", ", ".join(_ranges(found.values()))] for plugin, found in records.items()
    ]
    plugins = list(records)
    outcomes = {plugin: worst_outcomes(records[plugin].values()) for plugin in plugins}
    checks = list(dict.fromkeys(check for plugin in plugins for check in outcomes[plugin]))
    by_check = [
        [f"`{check}`", *(MARKS.get(outcomes[plugin].get(check, ""), "") for plugin in plugins)]
        for check in checks
    ]
    return (
        "\n".join(
            [
                INTRODUCTION,
                "How many checks passed, over all cases of the plugin; those for capabilities that a case",
                "does not have are left out.\n",
                _table(["plugin", *(cell.replace("-", ", ") for cell in cells)], summary),
                "Tried with:\n",
                _table(["plugin", "versions"], tried),
                "The least good outcome of each check in any case and any cell. ✓ passed; - not declared by",
                "any case; expected: known to fail, for a reason that the case gives.\n",
                _table(["check", *(f"`{plugin}`" for plugin in plugins)], by_check),
            ]
        ).rstrip("\n")
        + "\n"
    )


def counted(record: Record) -> str:
    """How many checks ended how, in few words."""
    counts = Counter(outcome for checks in record["cases"].values() for outcome in checks.values())
    others = [f"{counts[each]} {each}" for each in MARKS if each not in ("passed", "skipped")]
    shown = [text for text in others if not text.startswith("0 ")]
    return ", ".join([f"{counts['passed']} passed", *shown])


def worst_outcomes(records: Iterable[Record]) -> dict[str, str]:
    """For each check, the outcome that most needs to be seen."""
    worst: dict[str, str] = {}
    order = list(MARKS)
    for record in records:
        for checks in record["cases"].values():
            for check, outcome in checks.items():
                worst[check] = max(outcome, worst.get(check, order[0]), key=order.index)
    return worst


def show(update: bool) -> int:
    """Writes the page, or says that it is out of date."""
    text = page(read_records())
    if update:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.relative_to(ROOT)} is out of date: run this again with --update.")
        return 1
    return 0


def _order(cell: str) -> tuple[Any, ...]:
    python, _, dependencies = cell.partition("-")
    return tuple(map(int, python.split("."))), dependencies != "lowest", dependencies


def _ranges(records: Iterable[Record]) -> Iterator[str]:
    seen: dict[str, set[str]] = {}
    for record in records:
        for name, version in record["versions"].items():
            seen.setdefault(name, set()).add(version)
    for name, found in sorted(seen.items()):
        ordered = sorted(found, key=lambda version: [int(n) for n in re.findall(r"\d+", version)])
        yield f"{name} {' … '.join(dict.fromkeys([ordered[0], ordered[-1]]))}"


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main(argv: list[str]) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("compare", "page"):
        command = commands.add_parser(name)
        command.add_argument("--update", action="store_true")
        if name == "compare":
            command.add_argument("report", type=pathlib.Path)
            command.add_argument("record", type=pathlib.Path)
    given = parser.parse_args(argv)
    if given.command == "compare":
        return compare(given.report, given.record, given.update)
    return show(given.update)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
