"""`grain peek`: show elements of a source or of a node of a pipeline: types, shapes, short values."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from grain._lazy import LazyModule
from grain.cli import source_reader
from grain.cli.command import Command, CommandError, UsageError, at_least
from grain.cli.describe import Leaf, leaves_of
from grain.cli.output import counted, print_json, printable, table
from grain.cli.pipeline_target import PipelineTarget, load_pipeline, parse_target
from grain.cli.source_reader import SourceReader

# Lazy: most commands look at data.
if TYPE_CHECKING:
    from grain.cli import pipeline_reader
else:
    pipeline_reader = LazyModule("grain.cli.pipeline_reader")

_WIDTH_IN_PIPES = 120
# Paths are not cut to fewer characters.
_LEAST_PATH = 12


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    source_reader.add_arguments(
        parser, more=", or a pipeline: train.py:dataset, package.module:make_dataset"
    )
    parser.add_argument(
        "--node",
        metavar="NODE",
        help="of a pipeline, the node to show: its number, operation or function (default: the last)",
    )
    parser.add_argument(
        "--step",
        type=int,
        metavar="STEP",
        help="of a pipeline, the first element to show (default: 0)",
    )
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
    target = parse_target(arguments.uri)
    if target is not None:
        return _run_on_pipeline(target, arguments)
    for option in ("node", "step"):
        if getattr(arguments, option) is not None:
            raise UsageError(
                f"--{option} is for pipelines, such as train.py:dataset, but {arguments.uri} is data."
                " Give --start for an index of data."
            )
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


def _run_on_pipeline(target: PipelineTarget, arguments: argparse.Namespace) -> int:
    """Print the elements of a node."""
    for option, flag in (("options", "-o"), ("columns", "--columns"), ("raw", "--raw")):
        if getattr(arguments, option):
            raise UsageError(f"{flag} is for data, but {target.text} is a pipeline.")
    if arguments.start and arguments.step is not None:
        raise UsageError("--start and --step are the same for a pipeline: give one of them.")
    reader = pipeline_reader.pipeline_reader(target.text, load_pipeline(target), arguments.node)
    step = arguments.step if arguments.step is not None else arguments.start
    numbered = reader.elements(step, arguments.count)
    if arguments.json:
        print_json(_as_data(reader, numbered))
        return 0
    name = f"node {reader.node.id}, {reader.node.name}"
    print(printable(f"{target.text}: {name}: {reader.extent}"))
    width = _width()
    for number, element in numbered:
        print(f"\n[{number}]")
        if element is None:
            print("  dropped by a filter")
        else:
            print(_as_table(element, width), flush=True)
    return 0


def _as_data(
    reader: pipeline_reader.PipelineReader, numbered: Iterator[tuple[int, Any]]
) -> dict[str, Any]:
    return {
        "pipeline": reader.text,
        "nodes": [{"id": node.id, "name": node.name} for node in reader.nodes],
        "node": reader.node.id,
        "length": reader.node.length,
        "elements": [
            {
                "step": number,
                "dropped": element is None,
                "leaves": [leaf.as_data() for leaf in leaves_of(element)],
            }
            for number, element in numbered
        ],
    }


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
    if max(map(len, text.splitlines())) > width:  # A long key leaves room for types and values.
        most = max(_LEAST_PATH, width // 3)
        rows = [(_shortened(row[0], most), *row[1:]) if len(row) > 2 else row for row in rows]
        text = table(rows[0], rows[1:])
    return "\n".join(
        line if len(line) <= width else f"{line[: width - 1]}…" for line in text.splitlines()
    )


def _shortened(path: str, most: int) -> str:
    """Return a path of at most `most` characters, without its middle if it is longer."""
    if len(path) <= most:
        return path
    end = most // 3
    return f"{path[: most - end - 1]}…{path[-end:]}"


def _indented(leaf: Leaf) -> tuple[str, ...]:
    path, *rest = leaf.row()
    # The element itself has no path column.
    return (f"  {path}", *rest) if path else (f"  {rest[0]}", *rest[1:])


COMMAND = Command(
    name="peek",
    summary="Show elements of a source or a pipeline: types, shapes and short values.",
    run=run,
    arguments=arguments,
)
