"""`grain doctor`: inspect the installation and the machine, and report problems."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict

from grain._lazy import LazyModule
from grain.cli.command import Command
from grain.cli.doctor.finding import Finding, Level
from grain.cli.output import counted, print_json, printable, table
from grain.cli.progress import Progress
from grain.version import __version__

# Modules with a function `findings()`; lazy, since no other command needs them.
CHECKS = {
    "the installation": LazyModule("grain.cli.doctor.software"),
    "the machine": LazyModule("grain.cli.doctor.machine"),
    "the environment": LazyModule("grain.cli.doctor.environment"),
    "a worker process": LazyModule("grain.cli.doctor.workers"),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run all checks; return 1 when there is a problem."""
    findings = list(all_findings())
    problems = [each for each in findings if each.level is Level.PROBLEM]
    if arguments.json:
        print_json(
            {
                "core": __version__,
                "ok": not problems,
                "findings": [asdict(each) for each in findings],
            }
        )
        return 1 if problems else 0
    rows = [(each.name, each.level.value, each.detail) for each in findings]
    print(table(("CHECKED", "STATUS", "FOUND"), rows))
    for level in (Level.NOTE, Level.PROBLEM):
        for each in findings:
            if each.level is level:
                advice = f"\n  fix: {each.advice}" if each.advice else ""
                print(printable(f"\n{level.value}: {each.name}: {each.detail}{advice}"))
    print(f"\n{counted(len(problems), 'problem')}." if problems else "\nNo problems found.")
    return 1 if problems else 0


def all_findings() -> Iterator[Finding]:
    """Yield the findings of all checks."""
    with Progress("checking") as progress:
        for subject, module in CHECKS.items():
            progress.say(subject)
            yield from module.findings()


COMMAND = Command(
    name="doctor",
    summary="Inspect the installation and the machine; exit with 1 on problems.",
    run=run,
    arguments=arguments,
)
