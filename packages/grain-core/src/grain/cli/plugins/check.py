"""`grain plugins check`: import the targets of every plugin, and report problems with fixes."""

from __future__ import annotations

import argparse

from grain.cli.command import Command
from grain.cli.output import counted, print_json, printable, stdout_to_stderr, table
from grain.cli.plugins.rendering import HEADER, as_data, eager_note, row
from grain.plugins import default_manager
from grain.plugins.import_conflicts import import_conflicts
from grain.plugins.metadata import installed_distributions
from grain.version import __version__


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Check all plugins; return 1 for failed, incompatible or duplicate plugins, or a foreign `grain`."""
    manager = default_manager()
    with stdout_to_stderr():
        plugins = manager.load_all()
    notes = [note for note in map(eager_note, plugins) if note]
    problems = import_conflicts(installed_distributions()) + manager.problems()
    if arguments.json:
        print_json(
            {
                "core": __version__,
                "ok": not problems,
                "problems": problems,
                "notes": notes,
                "plugins": [as_data(plugin) for plugin in plugins],
            }
        )
        return 1 if problems else 0
    if plugins:
        print(table(HEADER, [row(plugin) for plugin in plugins]))
    for note in notes:
        print(printable(f"note: {note}"))
    for problem in problems:
        print(printable(f"problem: {problem}"))
    print(f"{counted(len(plugins), 'plugin')}, {counted(len(problems), 'problem')}.")
    return 1 if problems else 0


COMMAND = Command(
    name="check",
    summary="Import the targets of every plugin; exit with 1 on problems.",
    run=run,
    arguments=arguments,
)
