"""`grain peek URI`: show the first elements of a source, with types, shapes and short values."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import Any

from grain.cli import source_reader
from grain.cli.command import Command, CommandError, at_least
from grain.cli.describe import Leaf, leaves_of
from grain.cli.output import counted, print_json, printable, table
from grain.cli.source_reader import SourceReader

_WIDTH_IN_PIPES = 120


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    source_reader.add_arguments(parser)
    parser.add_argument(
        "-n",
        "--count",
        type=at_least(0),
        default=5,
        metavar="N",
        help="the number of elements (default: 5)",
    )
    parser.add_argument(
        "--start",
        type=int,
        default=0,
        metavar="INDEX",
        help="the index of the first; negative counts from the end (default: 0)",
    )
    parser.add_argument("--raw", action="store_true", help="raw records, not decoded")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the elements; an empty source is not an error."""
    reader = source_reader.open_reader(
        arguments.uri, arguments.options, arguments.columns, raw=arguments.raw
    )
    try:
        start = _start(reader, arguments.start)
        numbered = enumerate(reader.elements(start, arguments.count), start)
        if arguments.json:
            print_json(
                {
                    "uri": reader.uri,
                    "source": type(reader.source).__name__,
                    "length": reader.length,
                    "elements": [
                        {"index": index, "leaves": [leaf.as_data() for leaf in leaves_of(element)]}
                        for index, element in numbered
                    ],
                }
            )
            return 0
        print(f"{printable(reader.uri)}: {_extent(reader)}, {type(reader.source).__name__}")
        width = _width()
        for index, element in numbered:
            print(f"\n[{index}]")
            print(_as_table(element, width), flush=True)
    finally:
        reader.close()
    return 0


def _start(reader: SourceReader, start: int) -> int:
    length = reader.length
    if length is None:
        if start < 0:
            raise CommandError(
                f"{reader.uri} has no known length: --start {start} must not be negative."
            )
        return start
    if start < 0:
        return max(0, length + start)
    if start >= length and start > 0:
        raise CommandError(f"--start {start} is out of range: {reader.uri} has {_extent(reader)}.")
    return start


def _extent(reader: SourceReader) -> str:
    if reader.length is None:
        return "elements in sequence"
    return counted(reader.length, "element")


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
    # The element itself has no path column.
    return (f"  {path}", *rest) if path else (f"  {rest[0]}", *rest[1:])


COMMAND = Command(
    name="peek",
    summary="Show the first elements of a source: types, shapes and short values.",
    run=run,
    arguments=arguments,
)
