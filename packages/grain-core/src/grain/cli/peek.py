"""`grain peek URI`: the first elements of a source, with types, shapes and short values."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import Any

from grain.cli import source_reader
from grain.cli.command import Command, CommandError, at_least
from grain.cli.describe import Leaf, leaves_of
from grain.cli.output import print_json, table
from grain.cli.source_reader import SourceReader

_WIDTH_IN_PIPES = 120


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    source_reader.add_arguments(parser)
    parser.add_argument(
        "-n",
        "--count",
        type=at_least(0),
        default=5,
        metavar="N",
        help="how many elements (default: 5)",
    )
    parser.add_argument(
        "--start",
        type=int,
        default=0,
        metavar="INDEX",
        help="the first of them; negative counts from the end (default: 0)",
    )
    parser.add_argument(
        "--raw", action="store_true", help="records as they are in the file, not decoded"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Shows the elements; none at all is no failure."""
    opened = source_reader.open_reader(
        arguments.uri, arguments.options, arguments.columns, raw=arguments.raw
    )
    try:
        start = _start(opened, arguments.start)
        numbered = enumerate(opened.elements(start, arguments.count), start)
        if arguments.json:
            print_json(
                {
                    "uri": opened.uri,
                    "source": type(opened.source).__name__,
                    "length": opened.length,
                    "elements": [
                        {"index": index, "leaves": [leaf.as_data() for leaf in leaves_of(element)]}
                        for index, element in numbered
                    ],
                }
            )
            return 0
        print(f"{opened.uri}: {_extent(opened)}, {type(opened.source).__name__}")
        width = _width()
        for index, element in numbered:
            print(f"\n[{index}]")
            print(_as_table(element, width), flush=True)
    finally:
        opened.close()
    return 0


def _start(opened: SourceReader, start: int) -> int:
    length = opened.length
    if length is None:
        if start < 0:
            raise CommandError(f"{opened.uri} has no known length: --start cannot be {start}.")
        return start
    if start < 0:
        return max(0, length + start)
    if start >= length and start > 0:
        raise CommandError(f"--start {start} is beyond the {length} elements of {opened.uri}.")
    return start


def _extent(opened: SourceReader) -> str:
    if opened.length is None:
        return "elements in their order"
    return f"{opened.length:,} element{'' if opened.length == 1 else 's'}"


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH_IN_PIPES


def _as_table(element: Any, width: int) -> str:
    rows = [_indented(leaf) for leaf in leaves_of(element)]
    text = table(rows[0], rows[1:])
    return "\n".join(
        line if len(line) <= width else f"{line[: width - 1]}…" for line in text.splitlines()
    )


def _indented(leaf: Leaf) -> tuple[str, ...]:
    path, *rest = leaf.row()
    # Without a name there is no column of names.
    return (f"  {path}", *rest) if path else (f"  {rest[0]}", *rest[1:])


COMMAND = Command(
    name="peek",
    summary="Show the first elements of a source: types, shapes and short values.",
    run=run,
    arguments=arguments,
)
