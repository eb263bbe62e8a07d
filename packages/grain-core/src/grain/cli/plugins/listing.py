"""`grain plugins list`: list plugins and their status without importing their dependencies."""

from __future__ import annotations

import argparse

from grain.cli.command import Command
from grain.cli.output import print_json, printable, stdout_to_stderr, table
from grain.cli.plugins.rendering import HEADER, as_data, eager_note, known_as_data, row
from grain.plugins import default_manager
from grain.plugins.install_commands import install_command
from grain.version import __version__


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """List plugins; a faulty plugin is an entry of the list, not an error of the command."""
    manager = default_manager()
    with stdout_to_stderr():
        plugins, missing = manager.plugins(), manager.not_installed()
    if arguments.json:
        print_json(
            {
                "core": __version__,
                "plugins": [as_data(plugin) for plugin in plugins],
                "not_installed": [known_as_data(known) for known in missing],
            }
        )
        return 0
    if plugins:
        print(table(HEADER, [row(plugin) for plugin in plugins]))
    else:
        print("No plugins are installed.")
    for note in filter(None, map(eager_note, plugins)):
        print(printable(f"note: {note}"))
    if missing:
        print("\nNot installed:")
        rows = [
            (f"  {known.name}", ", ".join(known.public_names), install_command(known))
            for known in missing
        ]
        print(table(("  NAME", "PROVIDES", "INSTALL WITH"), rows))
    return 0


COMMAND = Command(
    name="list",
    summary="List the installed plugins and their status, without importing their dependencies.",
    run=run,
    arguments=arguments,
)
