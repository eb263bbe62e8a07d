"""The `grain` command; `COMMANDS` lists the subcommands, one module each.

Exit codes: 0 for success, 1 when the command failed or found a problem, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from grain.cli import bench, conformance, convert, doctor, peek, plugins, view
from grain.cli.command import Command, CommandError
from grain.cli.output import printable
from grain.plugins import PluginError
from grain.version import __version__

__all__ = ["COMMANDS", "main"]

COMMANDS: tuple[Command, ...] = (
    peek.COMMAND,
    view.COMMAND,
    bench.COMMAND,
    convert.COMMAND,
    plugins.COMMAND,
    conformance.COMMAND,
    doctor.COMMAND,
)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors contain no terminal control sequences of the arguments."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, such as `["plugins", "list", "--json"]`, and return its exit code."""
    parser = _Parser(
        prog="grain",
        description="Inspect, convert and benchmark data and pipelines, and check plugins.",
    )
    parser.add_argument("--version", action="version", version=f"grain-core {__version__}")
    for stream in (sys.stdout, sys.stderr):
        # Data may contain characters that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    root = Command(name="grain", summary="", children=COMMANDS)
    root.add_to(parser)
    given, program_arguments = _split(list(sys.argv[1:] if argv is None else argv))
    arguments, further = parser.parse_known_args(given)
    arguments.program_arguments = program_arguments
    if further:
        advice = ". Quote a pattern, or the shell expands it to file names."
        found = all(os.path.exists(argument) for argument in further)
        parser.error(f"unrecognized arguments: {' '.join(further)}{advice if found else ''}")
    try:
        code = arguments.run(arguments)
        sys.stdout.flush()
    except (CommandError, PluginError) as error:
        print(f"grain: {printable(str(error))}", file=sys.stderr)
        return error.exit_code if isinstance(error, CommandError) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The consumer closed the pipe, as `head` does; without this the flush at exit fails again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return int(code)


def _split(given: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of the command, and those of a program that it runs, which follow `--`."""
    name = next((argument for argument in given if not argument.startswith("-")), None)
    if "--" not in given or not any(c.name == name and c.takes_program_arguments for c in COMMANDS):
        return given, []
    position = given.index("--")
    return given[:position], given[position + 1 :]
