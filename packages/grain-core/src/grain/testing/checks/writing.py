"""Writers, which `grain convert` calls: lossless, and atomic on failure."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grain.plugins.discovery import read_cases
from grain.plugins.metadata import load_object
from grain.plugins.spec import Kind, PluginSpec
from grain.testing.case import Case
from grain.testing.compare import expect_same, expect_same_all
from grain.testing.subject import NotApplicable, Subject

_MANY = 5000
_FOREIGN = (b"", b"of another writer", b"[7]")
_SAMPLES: tuple[Any, ...] = (
    {"text": "ä", "number": 7},
    {"array": np.arange(3, dtype=np.float32)},
    "text",
    7,
)


def check_writer_round_trip(subject: Subject) -> None:
    """Check that the elements of a source survive a round trip through its writer.

    Iterate over `elements` once, since it may be a generator, and write every part of each element.
    """
    for what, format_, elements in _written_cases(subject):
        with _folder() as folder:
            path = format_.path_in(folder)
            format_.write(path, elements, what)
            expect_same_all(elements, format_.read(path), f"{what}, after a round trip")


def check_writer_count(subject: Subject) -> None:
    """Check that a writer returns the number of elements written.

    Count the elements while writing, and return an integer.
    """
    for what, format_, elements in _written_cases(subject):
        with _folder() as folder:
            count = format_.write(format_.path_in(folder), elements, what)
            assert count == len(elements), (
                f"{what}: {format_.spec.writer} wrote {len(elements)} elements and returned {count!r}."
            )


def check_writer_empty_input(subject: Subject) -> None:
    """Check that a writer without elements writes an empty file that the source can open.

    Do not rely on a first element, and create the file even without elements.
    """
    for format_ in _formats(subject):
        with _folder() as folder:
            path = format_.path_in(folder)
            count = format_.write(path, [], "no elements")
            assert os.path.isfile(path), f"{format_.spec.writer} wrote no file for zero elements."
            read = format_.read(path)
            assert not read, f"a file written from zero elements contains {read!r:.80}."
            assert not count, f"{format_.spec.writer} returned {count!r} for zero elements."


def check_writer_replaces_file(subject: Subject) -> None:
    """Check that a writer replaces an existing file completely.

    Write a new file and rename it; `grain convert` decides whether a file may be replaced.
    """
    for what, format_, elements in _written_cases(subject):
        with _folder() as folder:
            fresh, replaced = format_.path_in(folder), format_.path_in(folder, "replaced")
            format_.write(fresh, elements[:1], what)
            format_.write(replaced, [*elements, *elements], what)
            format_.write(replaced, elements[:1], f"{what} over an existing file")
            expect_same_all(
                format_.read(fresh), format_.read(replaced), f"{what}, written over a longer file"
            )


def check_failed_write_is_atomic(subject: Subject) -> None:
    """Check that a failed write raises and leaves the folder as it was before.

    Write under a temporary name in the same folder, rename the complete file (`os.replace`), and
    remove it on any exception, `BaseException` included.
    """
    for what, format_, elements in _written_cases(subject):
        # Writers buffer elements, so a failure after many elements is tried as well.
        many = list(itertools.islice(itertools.cycle(elements), _MANY))
        for taken in sorted({0, len(elements) // 2, len(many)}):
            for before in (None, b"existing content"):
                with _folder() as folder:
                    path = format_.path_in(folder)
                    if before is not None:
                        with open(path, "wb") as file:
                            file.write(before)
                    _fail_to_write(format_, path, many[:taken], what)
                    when = f"{what}: after a failure at element {taken}"
                    left = sorted(os.listdir(folder))
                    expected = [] if before is None else [os.path.basename(path)]
                    assert left == expected, (
                        f"{when}, the folder contains {left}, expected {expected}."
                    )
                    if before is not None:
                        with open(path, "rb") as file:
                            assert file.read() == before, f"{when}, the existing file has changed."


def check_decoder_inverts_writer(subject: Subject) -> None:
    """Check that a decoder inverts its writer, and returns records of other writers unchanged.

    Mark encoded records, for instance by their first bytes, and decode only marked records.
    """
    formats = [format_ for format_ in _formats(subject) if format_.spec.decoder]
    if not formats:
        raise NotApplicable("no spec of the plugin names a decoder")
    for format_ in formats:
        for record in _FOREIGN:
            try:
                decoded = format_.decode(record)
            except Exception as error:
                raise AssertionError(
                    f"{format_.spec.decoder} raised {error!r} for the record {record!r}."
                ) from error
            expect_same(record, decoded, f"a record of another writer, {record!r}")
        for sample in _SAMPLES:
            with _folder() as folder:
                path = format_.path_in(folder)
                try:
                    format_.writer(path, iter([sample]))
                except (TypeError, ValueError):
                    continue  # a writer may refuse types that its format lacks
                expect_same_all([sample], format_.read(path), f"{sample!r}, written and decoded")


class _ElementsError(RuntimeError):
    """Error raised by the elements in the middle of a write."""


def _failing(elements: Sequence[Any]) -> Iterator[Any]:
    yield from elements
    raise _ElementsError("injected by grain.testing")


def _fail_to_write(format_: _Format, path: str, elements: Sequence[Any], what: str) -> None:
    try:
        count = format_.writer(path, _failing(elements))
    except Exception:
        return  # the injected error, or an error that wraps it
    raise AssertionError(
        f"{what}: reading element {len(elements)} failed, but {format_.spec.writer} returned"
        f" {count!r} instead of raising."
    )


@dataclass(frozen=True)
class _Format:
    """A source with a writer, both imported."""

    spec: PluginSpec
    target: Callable[..., Any]
    writer: Callable[..., Any]
    decode: Callable[[Any], Any]

    def path_in(self, folder: str, stem: str = "written") -> str:
        return os.path.join(folder, stem + next(iter(self.spec.suffixes), ""))

    def write(self, path: str, elements: Sequence[Any], what: str) -> Any:
        try:
            return self.writer(path, iter(elements))
        except Exception as error:
            raise AssertionError(f"{what}: {self.spec.writer} raised {error!r}.") from error

    def read(self, path: str) -> list[Any]:
        """Return the elements of a file, opened as `grain.sources.open` does."""
        try:
            from_uri = getattr(self.target, "from_uri", None)
            if from_uri is None:
                source = self.target(path)
            else:
                scheme = next(iter(self.spec.schemes), "file")
                source = from_uri(path if self.spec.suffixes else f"{scheme}://{path}")
            by_index = self.spec.kind is Kind.MAP_SOURCE
            records: Iterable[Any] = (
                map(source.__getitem__, range(len(source))) if by_index else source
            )
            return [self.decode(record) for record in records]
        except Exception as error:
            raise AssertionError(
                f"{self.spec.target} raised {error!r} for a file written by {self.spec.writer}."
            ) from error


def _formats(subject: Subject) -> Iterator[_Format]:
    """Yield each source of the plugin that has a writer."""
    specs = [spec for spec in subject.plugin.specs if spec.writer]
    if not specs:
        raise NotApplicable("no spec of the plugin names a writer")
    for spec in specs:
        decode = load_object(spec.decoder) if spec.decoder else _unchanged
        yield _Format(spec, load_object(spec.target), load_object(spec.writer), decode)


def _written_cases(subject: Subject) -> Iterator[tuple[str, _Format, list[Any]]]:
    """Yield description, format and elements of each case of a source with a writer."""
    cases = [case for case in read_cases(subject.fresh().load()) if isinstance(case, Case)]
    for format_ in _formats(subject):
        for case in cases:
            if case.spec == format_.spec.name:
                records = Subject(case).elements
                yield f"case {case.name!r}", format_, [format_.decode(each) for each in records]


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="grain-conformance-")


def _unchanged(record: Any) -> Any:
    return record
