"""`grain doctor`: what is installed, what the machine gives, and what is wrong with either."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from dataclasses import asdict

from grain.cli.command import Command
from grain.cli.doctor.finding import Finding, Level
from grain.cli.output import print_json, table
from grain.cli.progress import Progress
from grain.version import __version__

# Modules with a function `findings()`, loaded when they are run: other commands do not need them.
CHECKS = {
    "what is installed": "grain.cli.doctor.software",
    "the machine": "grain.cli.doctor.machine",
    "the environment": "grain.cli.doctor.environment",
    "a worker process": "grain.cli.doctor.workers",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Looks at everything; 1 when something is wrong."""
    findings = list(_examined())
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
                advice = f"\n  to do: {each.advice}" if each.advice else ""
                print(f"\n{level.value}: {each.name}: {each.detail}{advice}")
    noun = "problem" if len(problems) == 1 else "problems"
    print(f"\n{len(problems)} {noun}." if problems else "\nAll is well.")
    return 1 if problems else 0


def _examined() -> Iterator[Finding]:
    with Progress("looking at") as progress:
        for subject, module in CHECKS.items():
            progress.say(subject)
            yield from importlib.import_module(module).findings()


COMMAND = Command(
    name="doctor",
    summary="Look at the installation and the machine; exit with 1 if something is wrong.",
    run=run,
    arguments=arguments,
)
