"""`grain view --live`: run a script, or read a dataset, with a page that is kept up to date."""

from __future__ import annotations

import argparse
import collections
import pathlib
import runpy
import sys
import threading
from typing import Any

from grain.cli.command import CommandError, UsageError
from grain.cli.output import printable
from grain.cli.pipeline_target import PipelineTarget, load_pipeline
from grain.observe.page.live import MOST_PIPELINES, live_pages
from grain.observe.page.live_server import LiveServer
from grain.observe.page.pipeline_page import PipelinePage
from grain.observe.switch import add_request, on_start
from grain.options import ObservationOptions


def run_live(target: PipelineTarget, arguments: argparse.Namespace) -> int:
    """Serve the page while the script runs, and return the exit code of the script."""
    if arguments.program_arguments and (target.attribute is not None or not target.is_script):
        raise UsageError(f"Only a script takes arguments, but {target.text} is not one.")
    recorders: collections.deque[Any] = collections.deque(maxlen=MOST_PIPELINES)
    # Of the whole process: a script may read its data in any thread.
    add_request(lambda dataset: ObservationOptions(name=target.text, trace=True))
    on_start(recorders.append)
    try:
        server = LiveServer(lambda: live_pages(list(recorders)), port=arguments.port)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from error
    with server:
        print(f"grain: live page: {server.url}", file=sys.stderr, flush=True)
        try:
            if target.is_script and target.attribute is None:
                code = _run_script(target.place, arguments.program_arguments)
            else:
                code = _read(load_pipeline(target))
        finally:
            server.end()
            _report(list(recorders), arguments.output)
        if arguments.keep:
            print("grain: ended; Ctrl-C closes the page", file=sys.stderr, flush=True)
            threading.Event().wait()
    return code


def _run_script(path: str, given: list[str]) -> int:
    if not pathlib.Path(path).is_file():
        raise CommandError(f"{path} is not a file.")
    before = sys.argv
    sys.argv = [path, *given]
    try:
        # As Python does: the folder of the script is the first that is searched for modules.
        sys.path.insert(0, str(pathlib.Path(path).absolute().parent))
        runpy.run_path(path, run_name="__main__")
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    finally:
        sys.argv = before
    return 0


def _read(dataset: Any) -> int:
    """Read a dataset to its end."""
    iterator = iter(dataset)
    try:
        for _ in iterator:
            pass
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()
    return 0


def _report(recorders: list[Any], output: str | None) -> None:
    """Print the verdict of the last pipeline, and write its page."""
    pages = live_pages(recorders)
    if not pages or pages[-1].statistics is None:
        print("grain: no pipeline was iterated", file=sys.stderr, flush=True)
        return
    print(f"grain: {printable(str(pages[-1].statistics.verdict))}", file=sys.stderr, flush=True)
    if output is not None:
        PipelinePage(pages[-1]).write(output)
