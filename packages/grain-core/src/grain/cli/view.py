"""`grain view`: the page of a pipeline, as a file, as text, or live while a script runs."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING

from grain._lazy import LazyModule
from grain.cli.command import Command, CommandError, UsageError, at_least
from grain.cli.output import printable, stdout_to_stderr
from grain.cli.pipeline_target import HELP, PipelineTarget, load_pipeline, parse_target
from grain.cli.source_reader import reason

# Lazy: no other command needs a browser or a page.
if TYPE_CHECKING:
    import webbrowser

    from grain.cli import live_view
    from grain.observe.page import presentation
    from grain.observe.page.pipeline_page import PipelinePage
else:
    live_view = LazyModule("grain.cli.live_view")
    webbrowser = LazyModule("webbrowser")
    presentation = LazyModule("grain.observe.page.presentation")

_WIDTH_IN_PIPES = 120


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "pipeline", metavar="PIPELINE", help=f"{HELP}; or statistics saved as JSON: stats.json"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the page to this file")
    parser.add_argument("--text", action="store_true", help="print the page as text instead")
    parser.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        help="open the page in a browser (default: if there is no -o, and a screen)",
    )
    parser.add_argument(
        "--samples",
        type=at_least(0),
        default=3,
        metavar="N",
        help="the number of elements to show of each node (default: 3)",
    )
    parser.add_argument(
        "--seconds",
        type=at_least(0.01, float),
        default=3.0,
        metavar="S",
        help="how long to measure the pipeline at most (default: 3)",
    )
    parser.add_argument(
        "--measure",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether to run the pipeline to measure it",
    )

    parser.add_argument(
        "--live",
        action="store_true",
        help="run the script, or read the dataset, and serve the page on this machine meanwhile",
    )
    parser.add_argument(
        "--port", type=at_least(0), metavar="N", help="with --live, the port (default: a free one)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="with --live, serve the page until Ctrl-C"
    )
    parser.epilog = (
        "With --live, arguments of the script follow --: grain view --live train.py -- --lr 0.1"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write, open or print the page."""
    if arguments.text and (arguments.output or arguments.open):
        raise UsageError("--text prints the page: leave out -o and --open.")
    if arguments.pipeline.endswith(".json"):
        return _run_on_statistics(arguments)
    target = view_target(arguments.pipeline)
    if arguments.live:
        if arguments.text:
            raise UsageError("--live serves a page: leave out --text.")
        arguments.port = arguments.port or 0
        return live_view.run_live(target, arguments)
    for name in ("port", "keep", "program_arguments"):
        if getattr(arguments, name):
            shown = f"--{name}" if name != "program_arguments" else "Arguments of a script"
            raise UsageError(f"{shown} can be given with --live only.")
    dataset = load_pipeline(target)
    with stdout_to_stderr():  # Functions of the user may print.
        page = presentation.visualize(
            dataset,
            samples=arguments.samples,
            measure=arguments.measure,
            max_seconds=arguments.seconds,
            title=target.text,
        )
    return _show(page, arguments)


def _run_on_statistics(arguments: argparse.Namespace) -> int:
    """Show statistics that a program has saved with `stats.to_json()`."""
    if arguments.live:
        raise UsageError(f"--live runs a script, but {arguments.pipeline} has saved statistics.")
    try:
        text = pathlib.Path(arguments.pipeline).read_text(encoding="utf-8")
        page = presentation.page_of_json(text)
    except (OSError, ValueError) as error:
        raise CommandError(f"{arguments.pipeline} cannot be read: {reason(error)}") from error
    return _show(page, arguments)


def _show(page: PipelinePage, arguments: argparse.Namespace) -> int:
    """Print, write or open a page."""
    if arguments.text:
        print(printable(page.as_text(width=_width())))
        return 0
    path = pathlib.Path(arguments.output or default_path(arguments.pipeline))
    try:
        page.write(path)
    except OSError as error:
        raise CommandError(f"The page cannot be written: {error}") from error
    print(printable(str(path)))
    wants_browser = arguments.open
    if wants_browser is None:
        wants_browser = arguments.output is None and has_screen()
    if wants_browser and not webbrowser.open(path.absolute().as_uri()):
        raise CommandError(f"No browser could be started. Open {path} by hand.")
    return 0


def view_target(text: str) -> PipelineTarget:
    """Return the pipeline that an argument names; a module may be given without attribute."""
    target = parse_target(text)
    if target is not None:
        return target
    if re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", text) and not os.path.exists(text):
        return PipelineTarget(text, text, None)
    raise UsageError(f"{text} is not a pipeline: expected {HELP}. For data, use `grain peek`.")


def default_path(text: str) -> str:
    """Return a path in a new folder for temporary files, which other users cannot read."""
    name = re.sub(r"\W+", "-", text).strip("-")[-80:] or "pipeline"
    return os.path.join(tempfile.mkdtemp(prefix="grain-view-"), f"{name}.html")


def has_screen() -> bool:
    """Return whether a browser with a window can be expected."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH_IN_PIPES


COMMAND = Command(
    name="view",
    summary="Show a pipeline: graph, timings, bottleneck and elements, as a page or as text.",
    run=run,
    arguments=arguments,
    takes_program_arguments=True,
)
