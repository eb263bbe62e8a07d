"""The `grain` command; `COMMANDS` lists the subcommands, one module each.

Exit codes: 0 for success, 1 when the command failed or found a problem, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from grain.cli import bench, conformance, convert, doctor, peek, plugins
from grain.cli.command import Command, CommandError
from grain.cli.output import printable
from grain.plugins import PluginError
from grain.version import __version__

__all__ = ["COMMANDS", "main"]

COMMANDS: tuple[Command, ...] = (
    peek.COMMAND,
    bench.COMMAND,
    convert.COMMAND,
    plugins.COMMAND,
    conformance.COMMAND,
    doctor.COMMAND,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, such as `["plugins", "list", "--json"]`, and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="grain", description="Inspect, convert and benchmark data sources, and check plugins."
    )
    parser.add_argument("--version", action="version", version=f"grain-core {__version__}")
    for stream in (sys.stdout, sys.stderr):
        # Data may contain characters that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    root = Command(name="grain", summary="", children=COMMANDS)
    root.add_to(parser)
    arguments, further = parser.parse_known_args(argv)
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
