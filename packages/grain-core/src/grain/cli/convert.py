"""`grain convert SRC DST`: the elements of a source, written as a file of another format.

The file is written under a temporary name beside its place and appears there when it is whole.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from grain.cli import source_reader
from grain.cli.command import Command, CommandError, at_least
from grain.cli.output import kept_clean, print_json
from grain.cli.progress import Progress
from grain.plugins import UnknownNameError, default_manager

# What else formats' own libraries raise, for instance when the disk is full.
_WRITER_MISTAKES = (*source_reader.MISTAKES, TypeError, RuntimeError)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    source_reader.add_arguments(parser, "src")
    parser.add_argument(
        "dst", metavar="DST", help="the file to write; its suffix or scheme says the format"
    )
    parser.add_argument(
        "-w",
        "--write-option",
        dest="write_options",
        action="append",
        default=[],
        type=source_reader.key_and_value,
        metavar="KEY=VALUE",
        help="an option of the writer, such as row_group_size=1000",
    )
    parser.add_argument(
        "--start", type=at_least(0), default=0, metavar="INDEX", help="the first element to write"
    )
    parser.add_argument(
        "-n", "--count", type=at_least(0), metavar="N", help="how many elements (default: all)"
    )
    parser.add_argument("--force", action="store_true", help="replace DST if it is there")
    parser.add_argument(
        "--raw", action="store_true", help="records as they are in the file, not decoded"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Converts, and says what was written."""
    try:
        with kept_clean():
            write, path = default_manager().writer(arguments.dst)
    except UnknownNameError as error:
        raise CommandError(f"{arguments.dst} cannot be written: {error}") from error
    _check_place(arguments.dst, path, force=arguments.force)
    opened = source_reader.open_reader(
        arguments.src, arguments.options, arguments.columns, raw=arguments.raw
    )
    started = time.monotonic()
    try:
        elements = opened.elements(arguments.start, arguments.count)
        total = arguments.count
        if opened.length is not None:
            rest = max(0, opened.length - arguments.start)
            total = rest if total is None else min(rest, total)
        with _unfinished(path) as unfinished, Progress("converting", total) as progress:
            try:
                taken = _Counted(elements, progress)
                written = write(unfinished, iter(taken), **dict(arguments.write_options))
                taken.expect_all_in(written)
                _reach_the_disk(unfinished)
            except _WRITER_MISTAKES as error:
                raise CommandError(
                    f"{arguments.dst} cannot be written: {source_reader.reason(error)}"
                ) from error
            _check_place(arguments.dst, path, force=arguments.force)
            os.replace(unfinished, path)
    finally:
        opened.close()
    seconds, size = time.monotonic() - started, os.path.getsize(path)
    if arguments.json:
        print_json({"path": path, "elements": written, "bytes": size, "seconds": round(seconds, 3)})
    else:
        print(f"{path}: {written:,} elements, {size:,} bytes, {seconds:.1f} s")
    return 0


def _check_place(given: str, path: str, *, force: bool) -> None:
    """Refuses a place where nothing can or may be written, before anything is read."""
    if "://" in path:
        raise CommandError(f"{given}: only local files are written; copy it there afterwards.")
    if not path or os.path.isdir(path):
        raise CommandError(f"{given} is a directory; name the file to write in it.")
    if glob.has_magic(path) and not os.path.exists(path):
        raise CommandError(f"{given} is a pattern; name one file to write.")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise CommandError(f"{given} cannot be written: there is no directory {folder}.")
    if os.path.lexists(path) and not force:
        raise CommandError(f"{path} is there already; --force replaces it.")


@contextlib.contextmanager
def _unfinished(path: str) -> Iterator[str]:
    """A temporary name beside a path; whatever is left there or beginning so is removed at the end.

    Also when the process is asked to end, which otherwise would run no more code.
    """
    folder, name = os.path.split(os.path.abspath(path))
    unfinished = os.path.join(folder, f".{name}.{uuid.uuid4().hex[:12]}.part")
    with _ended_by_exception():
        try:
            yield unfinished
        finally:
            for left in glob.glob(f"{glob.escape(unfinished)}*", include_hidden=True):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(left)


@contextlib.contextmanager
def _ended_by_exception() -> Iterator[None]:
    """Makes the signals that ask a process to end into exceptions that unwind it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return

    def end(number: int, frame: Any) -> None:
        sys.exit(128 + number)

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), end) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler or signal.SIG_DFL)


def _reach_the_disk(path: str) -> None:
    """Waits until a file is on its disk; some file systems say only now that they are full."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


class _Counted:
    """Elements on their way to a writer, which may not stop early, or say other than it did."""

    def __init__(self, elements: Iterable[Any], progress: Progress) -> None:
        self._elements = elements
        self._progress = progress
        self._count = 0
        self._ended = False

    def __iter__(self) -> Iterator[Any]:
        for element in self._elements:
            self._count += 1
            yield element
            self._progress.advance()
        self._ended = True

    def expect_all_in(self, written: object) -> None:
        """Raises where a writer that raised nothing cannot have written all elements."""
        if not self._ended:
            raise ValueError(
                f"its writer stopped after {self._count} elements, without an error. Nothing was kept;"
                " tell the writer's author."
            )
        if written != self._count:
            raise ValueError(
                f"its writer got {self._count} elements and says that it wrote {written!r}. Nothing"
                " was kept; tell the writer's author."
            )


COMMAND = Command(
    name="convert",
    summary="Write the elements of a source as a file of another format.",
    run=run,
    arguments=arguments,
)
