"""Subcommands: name, summary, arguments, and a function that returns the exit code."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


class CommandError(Exception):
    """An error reported to the user in one line, without a traceback."""

    exit_code = 1


class UsageError(CommandError):
    """Wrong arguments of a command."""

    exit_code = 2


def at_least(minimum: float, kind: Callable[[str], float] = int) -> Callable[[str], float]:
    """Return an argparse type for numbers not below a minimum."""

    def number(text: str) -> float:
        value = kind(text)
        if not value >= minimum:
            raise argparse.ArgumentTypeError(f"expected {minimum} or more, got {text}")
        return value

    return number


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the default of commands without arguments."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A subcommand or a group of subcommands.

    Attributes:
        name: The name on the command line.
        summary: One line for the help of the parent command.
        run: Runs the command and returns the exit code; None for a group.
        arguments: Adds the command's arguments to its parser.
        children: The commands of a group.
        takes_program_arguments: Whether `--` ends the arguments of the command; those after it are its
            attribute `program_arguments`.
    """

    name: str
    summary: str
    run: Callable[[argparse.Namespace], int] | None = None
    arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments
    children: tuple[Command, ...] = ()
    takes_program_arguments: bool = False

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add this command and its children to a parser."""
        self.arguments(parser)
        parser.set_defaults(run=self.run or _show_help(parser))
        if self.children:
            group = parser.add_subparsers(title="commands", metavar="COMMAND")
            for child in self.children:
                child.add_to(
                    group.add_parser(child.name, help=child.summary, description=child.summary)
                )


def _show_help(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    def run(arguments: argparse.Namespace) -> int:
        parser.print_help()
        return 2

    return run
