"""Compare results of the conformance matrix with committed records, and render them as a page.

Usage:
    python tools/conformance_results.py compare REPORT RECORD [--update]
    python tools/conformance_results.py page [--update]

`compare` runs in the checked environment. It reads a report of `grain conformance --json` and fails
for a broken contract or an outcome that differs from the record; `--update` writes the record.
`page` fails if the page in the docs is out of date; `--update` writes it.
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
# From the least to the most important outcome.
MARKS = {
    "skipped": "-",
    "passed": "✓",
    "expected failure": "expected",
    "unexpected pass": "**unexpected pass**",
    "not run": "**not run**",
    "failed": "**failed**",
}
GOOD = {"passed", "skipped", "expected failure"}
INTRODUCTION = """\
# Conformance results

Outcomes of the [conformance checks](conformance.md) for each plugin, installed as a wheel with the core in a
separate environment: on every supported Python, with the lowest and with the latest versions that its
requirements allow. `new-…` are the packages that `grain plugins new` creates.
Written by `nox -s conformance scaffold -- --update` from `tests/conformance_results/`.
"""

Record = dict[str, Any]


# --- one cell ----------------------------------------------------------------------------------


def record_of(report: dict[str, Any]) -> Record:
    """Return the record of a report: outcomes and versions."""
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
    """Return the installed versions of a plugin, of the core, and of their requirements."""
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
    """Yield broken contracts, independent of the record."""
    if not report["cases"]:
        yield "the report has no cases"
    for case in report["cases"]:
        for name in case["missing"]:
            yield f"{case['case']}: {name} has no result"
        for result in case["results"]:
            if result["outcome"] not in GOOD:
                yield f"{case['case']}: {result['check']}: {result['outcome']}: {result['reason']}"


def changes(before: Record, now: Record) -> Iterator[str]:
    """Yield each changed outcome; versions may change."""
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
            yield f"{key[0]}: {key[1]}: {old.get(key, 'missing')} before, {new.get(key, 'missing')} now"


def compare(report_file: pathlib.Path, record_file: pathlib.Path, update: bool) -> int:
    """Print the problems of a report and its differences from the record; return 1 for any."""
    report = json.loads(report_file.read_text(encoding="utf-8"))
    now, found = record_of(report), list(problems(report))
    if update:
        record_file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(now, indent=1, ensure_ascii=False) + "\n"
        record_file.write_text(text, encoding="utf-8")
    elif not record_file.exists():
        found.append(f"the record {record_file.name} does not exist: run again with `-- --update`")
    else:
        before = json.loads(record_file.read_text(encoding="utf-8"))
        differing = list(changes(before, now))
        found += differing
        if differing:
            found.append("if the change is intended, run again with `-- --update`")
    title = f"{record_file.parent.name}, {record_file.stem}"
    for line in found:
        print(f"{title}: {line}")
    print(f"{title}: {counted(now) if not found else 'failed'}")
    return 1 if found else 0


# --- all cells ---------------------------------------------------------------------------------


def read_records(folder: pathlib.Path = RECORDS) -> dict[str, dict[str, Record]]:
    """Return all records by plugin and cell, such as `"parquet"` and `"3.11-lowest"`."""
    found: dict[str, dict[str, Record]] = {}
    for file in sorted(
        folder.glob("*/*.json"), key=lambda file: (file.parent.name, _order(file.stem))
    ):
        record = json.loads(file.read_text(encoding="utf-8"))
        found.setdefault(file.parent.name, {})[file.stem] = record
    return found


def page(records: dict[str, dict[str, Record]]) -> str:
    """Return the text of the page in the docs."""
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
                "The number of passed checks over all cases of the plugin, without skipped checks.\n",
                _table(["plugin", *(cell.replace("-", ", ") for cell in cells)], summary),
                "Versions:\n",
                _table(["plugin", "versions"], tried),
                "The worst outcome of each check over all cases and cells. ✓ passed; - skipped in",
                "every case; expected: known to fail, for a reason that the case states.\n",
                _table(["check", *(f"`{plugin}`" for plugin in plugins)], by_check),
            ]
        ).rstrip("\n")
        + "\n"
    )


def counted(record: Record) -> str:
    """Return the number of checks per outcome, in words."""
    counts = Counter(outcome for checks in record["cases"].values() for outcome in checks.values())
    others = [f"{counts[each]} {each}" for each in MARKS if each not in ("passed", "skipped")]
    shown = [text for text in others if not text.startswith("0 ")]
    return ", ".join([f"{counts['passed']} passed", *shown])


def worst_outcomes(records: Iterable[Record]) -> dict[str, str]:
    """Return the worst outcome of each check."""
    worst: dict[str, str] = {}
    order = list(MARKS)
    for record in records:
        for checks in record["cases"].values():
            for check, outcome in checks.items():
                worst[check] = max(outcome, worst.get(check, order[0]), key=order.index)
    return worst


def show(update: bool) -> int:
    """Write the page, or report that it is out of date."""
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
    """Run the command line."""
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
