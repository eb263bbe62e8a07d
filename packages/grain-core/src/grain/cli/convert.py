"""`grain convert SRC DST`: write the elements of a source as a file of another format.

The file is written under a temporary name in the target folder and renamed when it is complete.
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
from grain.cli.output import print_json, printable, stdout_to_stderr
from grain.cli.progress import Progress
from grain.plugins import UnknownNameError, default_manager

# Libraries of file formats also raise these, for instance when the disk is full.
_WRITER_ERRORS = (*source_reader.INPUT_ERRORS, TypeError, RuntimeError)

# What to do about files that no installed plugin writes, by suffix.
_ADVICE = {
    (".pq", ".parq"): " For Parquet of another suffix write `parquet://` before an absolute path.",
    (".jsonl", ".ndjson"): " The plugin in examples/grain-jsonl writes JSON lines.",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    source_reader.add_arguments(parser, "src")
    parser.add_argument(
        "dst", metavar="DST", help="the file to write; its suffix or scheme selects the format"
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
        "--start",
        type=at_least(0),
        default=0,
        metavar="INDEX",
        help="the index of the first element",
    )
    parser.add_argument(
        "-n", "--count", type=at_least(0), metavar="N", help="the number of elements (default: all)"
    )
    parser.add_argument("--force", action="store_true", help="replace an existing DST")
    parser.add_argument("--raw", action="store_true", help="raw records, not decoded")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Convert and print a summary."""
    try:
        with stdout_to_stderr():
            write, path = default_manager().writer(arguments.dst)
    except UnknownNameError as error:
        name = arguments.dst.lower()
        advice = next((text for ends, text in _ADVICE.items() if name.endswith(ends)), "")
        raise CommandError(f"{arguments.dst} cannot be written: {error}{advice}") from error
    source_reader.check_options(arguments.dst, "-w", write, dict(arguments.write_options))
    _check_target(arguments.dst, path, force=arguments.force)
    reader = source_reader.open_reader(
        arguments.src, arguments.options, arguments.columns, raw=arguments.raw
    )
    started = time.monotonic()
    try:
        elements = reader.elements(arguments.start, arguments.count)
        total = arguments.count
        if reader.length is not None:
            rest = max(0, reader.length - arguments.start)
            total = rest if total is None else min(rest, total)
        with _temporary_name(path) as temporary, Progress("converting", total) as progress:
            try:
                counted = _CountedElements(elements, progress)
                written = write(temporary, iter(counted), **dict(arguments.write_options))
                counted.verify(written)
                _sync(temporary)
            except _WRITER_ERRORS as error:
                raise CommandError(
                    f"{arguments.dst} cannot be written: {source_reader.reason(error)}"
                ) from error
            _check_target(arguments.dst, path, force=arguments.force)
            os.replace(temporary, path)
    finally:
        reader.close()
    seconds, size = time.monotonic() - started, os.path.getsize(path)
    if arguments.json:
        print_json({"path": path, "elements": written, "bytes": size, "seconds": round(seconds, 3)})
    else:
        print(f"{printable(path)}: {written:,} elements, {size:,} bytes, {seconds:.1f} s")
    return 0


def _check_target(given: str, path: str, *, force: bool) -> None:
    """Raise before anything is read when the target cannot or must not be written."""
    if "://" in path:
        raise CommandError(f"{given} is a remote path: write a local file and copy it afterwards.")
    if not path or os.path.isdir(path):
        raise CommandError(f"{given} is a directory: give the path of a file.")
    if glob.has_magic(path) and not os.path.exists(path):
        raise CommandError(f"{given} is a pattern: give the path of one file.")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise CommandError(
            f"{given} cannot be written: the directory {folder} does not exist; create it first."
        )
    if os.path.lexists(path) and not force:
        raise CommandError(f"{path} exists: use --force to replace it.")


@contextlib.contextmanager
def _temporary_name(path: str) -> Iterator[str]:
    """Yield a temporary name in the folder of a path; remove all files that start with it at the end.

    Termination signals are turned into exceptions, so that the files are removed then as well.
    """
    folder, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(folder, f".{name}.{uuid.uuid4().hex[:12]}.part")
    with _signals_as_exceptions():
        try:
            yield temporary
        finally:
            for file in glob.glob(f"{glob.escape(temporary)}*", include_hidden=True):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(file)


@contextlib.contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Turn termination signals into exceptions that unwind the stack."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can set signal handlers
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


def _sync(path: str) -> None:
    """Flush a file to its disk; some file systems report a full disk only at this point."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


class _CountedElements:
    """Counter of the elements passed to a writer, to verify the number that it returns."""

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

    def verify(self, written: object) -> None:
        """Raise when the writer cannot have written all elements."""
        if not self._ended:
            raise ValueError(
                f"its writer stopped after {self._count} elements without an error. No file was written;"
                " report this to the writer's author."
            )
        if written != self._count:
            raise ValueError(
                f"its writer received {self._count} elements but returned {written!r}. No file was"
                " written; report this to the writer's author."
            )


COMMAND = Command(
    name="convert",
    summary="Write the elements of a source as a file of another format.",
    run=run,
    arguments=arguments,
)
