"""The `grain` command. Each subcommand is a file of its own, and is named in `COMMANDS` here.

Exit codes: 0 when all is well, 1 when the command found something wrong, 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from grain.cli import bench, conformance, convert, doctor, peek, plugins
from grain.cli.command import Command, CommandError
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
    """Runs the command line, such as `["plugins", "list", "--json"]`, and gives its exit code."""
    parser = argparse.ArgumentParser(
        prog="grain", description="Look at, check and use what grain has installed."
    )
    parser.add_argument("--version", action="version", version=f"grain-core {__version__}")
    for stream in (sys.stdout, sys.stderr):
        # Data may hold what the terminal's encoding does not; that is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    root = Command(name="grain", summary="", children=COMMANDS)
    root.add_to(parser)
    arguments, further = parser.parse_known_args(argv)
    if further:
        advice = ". Put a pattern in quotes, or the shell replaces it by the files it finds."
        found = all(os.path.exists(argument) for argument in further)
        parser.error(f"unrecognized arguments: {' '.join(further)}{advice if found else ''}")
    try:
        code = arguments.run(arguments)
        sys.stdout.flush()
    except (CommandError, PluginError) as error:
        print(f"grain: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away, as `head` does. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return int(code)
