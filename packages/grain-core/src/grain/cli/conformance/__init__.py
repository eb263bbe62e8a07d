"""`grain conformance NAME`: check an installed plugin against its contract with its own cases."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from dataclasses import replace
from typing import Any

from grain._lazy import LazyModule
from grain.cli.command import Command, CommandError, UsageError, at_least
from grain.cli.output import counted, table
from grain.version import __version__

# Lazy: no other command needs loaders and datasets.
_testing = LazyModule("grain.testing")
_time_limit = LazyModule("grain.testing.time_limit")
_matrix = LazyModule("grain.cli.conformance.matrix")

_DEPENDENCIES = ("lowest", "latest")
_LEAST_GRACE_SECONDS = 5.0
_MOST_GRACE_SECONDS = 10.0
"""Seconds after the budget of a case in which a check that is out of time may still be reported as such."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("name", nargs="?", help="the name of the plugin in `grain plugins list`")
    parser.add_argument("--json", metavar="FILE", help="write the reports as JSON")
    parser.add_argument("--badge", metavar="FILE", help="write a badge as SVG")
    parser.add_argument(
        "--budget",
        type=at_least(0.001, float),
        metavar="SECONDS",
        help="the time limit of each case (default: the budget of the case, 300 s)",
    )
    parser.add_argument(
        "--matrix",
        metavar="FOLDER",
        help="check the plugin in this folder from wheels, on all of its Pythons, with the lowest and"
        " the latest dependencies",
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="VERSION",
        help="with --matrix: a Python, such as 3.12 (default: those of the project's classifiers)",
    )
    parser.add_argument(
        "--dependencies",
        action="append",
        choices=_DEPENDENCIES,
        help="with --matrix: only the lowest or only the latest dependencies",
    )
    parser.add_argument(
        "--core",
        metavar="WHEEL",
        help="with --matrix: the grain-core to use (default: the installed one)",
    )
    parser.add_argument(
        "--checks", action="store_true", help="list the checks and their contracts, and run none"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the plugin's cases, or the matrix; return 1 when a check fails or a cell is not run."""
    if arguments.checks:
        rows = [(check.area, check.name, check.contract) for check in _testing.CHECKS]
        print(table(("AREA", "CHECK", "CONTRACT"), rows))
        return 0
    if arguments.matrix:
        code: int = _matrix.run_matrix(
            arguments.matrix,
            arguments.python,
            arguments.dependencies or _DEPENDENCIES,
            arguments.core,
        )
        return code
    if not arguments.name:
        raise UsageError("conformance needs the NAME of a plugin; see `grain plugins list`.")
    cases = _testing.cases_of(arguments.name)
    if arguments.budget is not None:
        cases = [_with_budget(case, arguments.budget) for case in cases]
    reports = []
    for case in cases:
        grace = max(_LEAST_GRACE_SECONDS, min(case.check_timeout, _MOST_GRACE_SECONDS))
        with _time_limit.end_process_after(case.budget + grace):
            report = _testing.run(case)
        print(report.table(), end="\n\n", flush=True)
        reports.append(report)
    ok = all(report.ok for report in reports)
    if arguments.json:
        _write(arguments.json, json.dumps(_as_data(arguments.name, ok, reports), indent=2) + "\n")
    if arguments.badge:
        _write(arguments.badge, _testing.badge_svg(reports))
    # The first report is about the plugin's metadata.
    extent = f"metadata and {counted(len(reports) - 1, 'case')} checked"
    if ok:
        print(f"{arguments.name}: all contracts are kept, {extent}.")
        return 0
    outcomes = [result.outcome for report in reports for result in report.failures]
    not_run = outcomes.count(_testing.Outcome.NOT_RUN)
    failed = f"{counted(len(outcomes) - not_run, 'check')} failed"
    failed += f", {not_run} not run" if not_run else ""
    print(f"{arguments.name}: {failed}, {extent}. Start with:")
    for report in reports:
        if report.failures:
            print(_root_failures(report))
    return 1


def _root_failures(report: Any) -> str:
    """Return the failures of a report that no other explains, with the number of those that follow."""
    lines = []
    followers = Counter(report.cause(result) for result in report.failures)
    for root in report.root_failures:
        count = followers[root.check]
        more = f" ({counted(count, 'other failure')} may follow from it)" if count else ""
        lines.append(f"  {report.case.name}: {root.check}{more}\n    fix: {root.fix}")
    return "\n".join(lines)


def _with_budget(case: Any, seconds: float) -> Any:
    return replace(case, budget=seconds, check_timeout=min(seconds, case.check_timeout))


def _as_data(name: str, ok: bool, reports: list[Any]) -> dict[str, Any]:
    return {
        "core": __version__,
        "plugin": name,
        "ok": ok,
        "cases": [report.as_data() for report in reports],
    }


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error}.") from error


COMMAND = Command(
    name="conformance",
    summary="Check an installed plugin against its contract; exit with 1 if it is broken.",
    run=run,
    arguments=arguments,
)
