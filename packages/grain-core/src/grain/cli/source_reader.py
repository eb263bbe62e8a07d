"""Read sources in commands: open by URI, read in blocks, decode, and select columns."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grain.cli.command import CommandError, UsageError
from grain.cli.output import stdout_to_stderr
from grain.plugins import PluginError, UnknownNameError, default_manager
from grain.plugins.format_pointers import pointer_for
from grain.plugins.metadata import ISOLATED, load_object
from grain.tree import nbytes

# The target size of a block. The first block is small, since the size of elements is unknown.
_BLOCK_BYTES = 16 * 2**20
_FIRST_BLOCK = 8
_LARGEST_BLOCK = 1024

# Some messages list every alternative.
_LONGEST_REASON = 500

# Exceptions of sources and writers that mean wrong input rather than a defect.
INPUT_ERRORS = (OSError, ValueError, LookupError)


def add_arguments(parser: argparse.ArgumentParser, name: str = "uri", more: str = "") -> None:
    """Add the arguments of every command that opens a source.

    Args:
        parser: The parser of the command.
        name: The name of the argument for the source.
        more: What the argument may be besides, for its help.
    """
    parser.add_argument(
        name,
        metavar=name.upper(),
        help="a path or URI that grain.sources.open accepts: data.parquet, 'data/*.array_record',"
        f" tfds://mnist{more}",
    )
    parser.add_argument(
        "-o",
        "--option",
        dest="options",
        action="append",
        default=[],
        type=key_and_value,
        metavar="KEY=VALUE",
        help="an option of the source, such as split=train; VALUE is parsed as JSON if possible",
    )
    parser.add_argument(
        "--columns",
        action="append",
        default=[],
        metavar="A,B",
        help="only these columns of each element",
    )


def key_and_value(text: str) -> tuple[str, Any]:
    """Parse an option of the command line.

    Example:
        >>> key_and_value("cache_bytes=1000"), key_and_value("split=train[:5]")
        (('cache_bytes', 1000), ('split', 'train[:5]'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, such as split=train, got {text!r}")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


@dataclass(frozen=True, kw_only=True)
class SourceReader:
    """An open source with its decoder and column selection.

    Attributes:
        uri: The URI on the command line.
        source: The source; read by index if it has a length, else sequentially.
        decode: The decoder of the source's format, if any.
        columns: The columns to select from each element; None for all, or if the source selects.
    """

    uri: str
    source: Any
    decode: Callable[[Any], Any] | None
    columns: tuple[str, ...] | None

    @property
    def by_index(self) -> bool:
        """Whether the source has random access."""
        return hasattr(self.source, "__getitem__") and hasattr(self.source, "__len__")

    @property
    def length(self) -> int | None:
        """The number of elements, if known."""
        return len(self.source) if self.by_index else None

    def elements(self, start: int = 0, count: int | None = None) -> Iterator[Any]:
        """Yield elements in order, starting at index `start`."""
        stop = sys.maxsize if count is None else start + count
        if self.by_index:
            records = self._by_index(start, min(stop, len(self.source)))
        else:
            records = self._sequentially(start, stop)
        for number, record in enumerate(records, start):
            try:
                element = record if self.decode is None else self.decode(record)
            except INPUT_ERRORS as error:
                raise self._unreadable(number, error) from error
            yield element if self.columns is None else self._select(element, number)

    def _by_index(self, start: int, stop: int) -> Iterator[Any]:
        read_many = getattr(self.source, "__getitems__", None)
        position, size = start, _FIRST_BLOCK
        while position < stop:
            block = range(position, min(stop, position + size))
            try:
                if read_many is not None:
                    records = list(read_many(list(block)))
                    if len(records) != len(block):
                        raise ValueError(
                            f"{type(self.source).__name__}.__getitems__ returned {len(records)} records"
                            f" for {len(block)} indices; expected one record per index."
                        )
                else:
                    records = [self.source[index] for index in block]
            except INPUT_ERRORS as error:
                raise self._unreadable(position, error) from error
            yield from records
            position = block.stop
            element_bytes = max(1, nbytes(records) // len(block))
            size = min(_LARGEST_BLOCK, max(1, _BLOCK_BYTES // element_bytes), 4 * size)

    def _sequentially(self, start: int, stop: int) -> Iterator[Any]:
        with iter(self.source) as records:
            for number in range(stop):
                try:
                    record = next(records)
                except StopIteration:
                    return
                except INPUT_ERRORS as error:
                    raise self._unreadable(number, error) from error
                if number >= start:
                    yield record

    def _select(self, element: Any, number: int) -> dict[str, Any]:
        assert self.columns is not None
        if not isinstance(element, dict):
            raise CommandError(
                f"{self.uri}: --columns needs elements that are dicts, but element {number} is"
                f" {type(element).__name__}."
            )
        missing = [name for name in self.columns if name not in element]
        if missing:
            raise CommandError(
                f"{self.uri}: element {number} has no column {missing[0]!r}; it has"
                f" {', '.join(map(str, element)) or 'none'}."
            )
        return {name: element[name] for name in self.columns}

    def _unreadable(self, number: int, error: BaseException) -> CommandError:
        return CommandError(f"{self.uri}: element {number} cannot be read: {reason(error)}")

    def close(self) -> None:
        """Close the source."""
        close = getattr(self.source, "close", None)
        if close is not None:
            close()


def open_reader(
    uri: str, options: Sequence[tuple[str, Any]], columns: Sequence[str], *, raw: bool = False
) -> SourceReader:
    """Open a source; raise `CommandError` or `PluginError` for wrong input."""
    manager = default_manager()
    try:
        with stdout_to_stderr():
            spec = manager.source_spec(uri)
    except UnknownNameError:
        if os.path.isdir(uri):
            pattern = os.path.join(uri, "*.parquet")
            pointer = pointer_for(uri)
            advice = (
                f". {pointer}"
                if pointer
                else f": give its files as a quoted pattern, such as {pattern!r}."
            )
            raise CommandError(f"{uri} is a directory{advice}") from None
        if uri.partition(":")[0].endswith(".py"):
            raise CommandError(
                f"{uri} is not a path or URI of data. For a pipeline, `grain view` shows the times of its"
                " operations, and `grain peek` its elements."
            ) from None
        raise
    chosen = tuple(name for text in columns for name in text.split(",") if name)
    given = dict(options)
    source_selects = bool(chosen) and _has_option(spec.target, "columns")
    if source_selects:
        given["columns"] = list(chosen)
    target = None
    with contextlib.suppress(*ISOLATED):  # opening the source reports the error
        target = load_object(spec.target)
    if target is not None:
        check_options(uri, "-o", target, given)
    # A command that looks at data starts no download of gigabytes.
    asks_first = "download" not in given and _has_option(spec.target, "download")
    if asks_first:
        given["download"] = False
    try:
        with stdout_to_stderr():
            source = manager.open(uri, **given)
    except PluginError:
        raise
    except (*INPUT_ERRORS, TypeError, ImportError, AssertionError) as error:
        advice = (
            " If it is not on this machine yet, `-o download=true` downloads it."
            if asks_first and not isinstance(error, TypeError)
            else ""
        )
        raise CommandError(f"{uri} cannot be opened: {reason(error)}{advice}") from error
    return SourceReader(
        uri=uri,
        source=source,
        decode=None if raw else manager.decoder(uri),
        columns=chosen if chosen and not source_selects else None,
    )


def check_options(what: str, flag: str, target: Any, given: Mapping[str, Any]) -> None:
    """Raise an error that lists the options of a source or a writer, if it has not one of `given`."""
    parameters = inspect.signature(target).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    # The first is the path, which is given as an argument.
    options = [name for name in list(parameters)[1:] if name != "elements"]
    for name in given:
        if name not in options:
            raise UsageError(
                f"{what}: {getattr(target, '__name__', target)} has no option {name!r}; it has"
                f" {', '.join(f'{flag} {option}=...' for option in options) or 'none'}."
            )


def reason(error: BaseException) -> str:
    """Return the message of an exception in one line.

    Example:
        >>> reason(FileNotFoundError(2, "No such file", "a.parquet")), reason(KeyError("x"))
        ('No such file: a.parquet', "KeyError: 'x'")
    """
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    text = " ".join(str(error).split())
    if len(text) > _LONGEST_REASON:
        text = f"{text[:_LONGEST_REASON]}…"
    if not text or isinstance(error, KeyError):
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text


def _has_option(target: str, name: str) -> bool:
    try:
        return name in inspect.signature(load_object(target)).parameters
    except ISOLATED:
        return False  # opening the source reports the error
