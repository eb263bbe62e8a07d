"""Writers, which plugins name for `grain convert`: nothing is lost, and nothing is left half done."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grain.plugins.discovery import read_cases
from grain.plugins.installed import load_object
from grain.plugins.kinds import Kind
from grain.plugins.spec import PluginSpec
from grain.testing.case import Case
from grain.testing.compare import expect_same, expect_same_all
from grain.testing.subject import Subject

_MANY = 5000
_FOREIGN = (b"", b"of another writer", b"[7]")
_SAMPLES: tuple[Any, ...] = (
    {"text": "ä", "number": 7},
    {"array": np.arange(3, dtype=np.float32)},
    "text",
    7,
)


def check_writer_round_trip(subject: Subject) -> None:
    """What a source gives can be written by its writer, and the file gives it again.

    Go through `elements` once, as it may be a generator, and write every part of every element.
    """
    for what, format_, elements in _written_cases(subject):
        with _folder() as folder:
            path = format_.path_in(folder)
            format_.write(path, elements, what)
            expect_same_all(elements, format_.read(path), f"{what}, written and read again")


def check_writer_count(subject: Subject) -> None:
    """A writer returns the number of elements it has written.

    Count them as they come, and return an integer.
    """
    for what, format_, elements in _written_cases(subject):
        with _folder() as folder:
            count = format_.write(format_.path_in(folder), elements, what)
            assert count == len(elements), (
                f"{what}: {format_.spec.writer} wrote {len(elements)} elements and returned {count!r}."
            )


def check_writer_empty_input(subject: Subject) -> None:
    """A writer that gets no elements writes a file without any, which the source opens.

    Do not rely on a first element, and make the file even when none comes.
    """
    for format_ in _formats(subject):
        with _folder() as folder:
            path = format_.path_in(folder)
            count = format_.write(path, [], "no elements")
            assert os.path.isfile(path), f"{format_.spec.writer} made no file of no elements."
            read = format_.read(path)
            assert not read, f"a file of no elements gave {read!r:.80}."
            assert not count, f"{format_.spec.writer} got no elements and returned {count!r}."


def check_writer_replaces_file(subject: Subject) -> None:
    """A writer replaces the file that is at its path: nothing of the old one is left.

    Write a new file and move it to its place; whether a file may be replaced is for
    `grain convert` to ask.
    """
    for what, format_, elements in _written_cases(subject):
        with _folder() as folder:
            fresh, replaced = format_.path_in(folder), format_.path_in(folder, "replaced")
            format_.write(fresh, elements[:1], what)
            format_.write(replaced, [*elements, *elements], what)
            format_.write(replaced, elements[:1], f"{what} over a file that is there")
            expect_same_all(
                format_.read(fresh), format_.read(replaced), f"{what}, written over a longer file"
            )


def check_failed_write_is_atomic(subject: Subject) -> None:
    """A write that fails raises, and leaves what was there before, and nothing else.

    Write under another name in the same folder, move the file to its place when it is whole
    (`os.replace`), and remove it when anything is raised, `BaseException` included.
    """
    for what, format_, elements in _written_cases(subject):
        # Writers gather some elements before they write any, so there have to be many as well.
        many = list(itertools.islice(itertools.cycle(elements), _MANY))
        for taken in sorted({0, len(elements) // 2, len(many)}):
            for before in (None, b"what was there"):
                with _folder() as folder:
                    path = format_.path_in(folder)
                    if before is not None:
                        with open(path, "wb") as file:
                            file.write(before)
                    _fail_to_write(format_, path, many[:taken], what)
                    when = f"{what}: after elements that failed at {taken}"
                    left = sorted(os.listdir(folder))
                    expected = [] if before is None else [os.path.basename(path)]
                    assert left == expected, f"{when}, there is {left}, not {expected}."
                    if before is not None:
                        with open(path, "rb") as file:
                            assert file.read() == before, f"{when}, the file that was there is not."


def check_decoder_inverts_writer(subject: Subject) -> None:
    """A decoder gives the elements that its writer encoded, and any other record as it is.

    Mark records that the writer encodes, for instance by their first bytes, and decode those alone.
    """
    for format_ in _formats(subject):
        if not format_.spec.decoder:
            continue
        for record in _FOREIGN:
            try:
                decoded = format_.decode(record)
            except Exception as error:
                raise AssertionError(
                    f"{format_.spec.decoder} raised {error!r} for the record {record!r}."
                ) from error
            expect_same(record, decoded, f"a record that no writer encoded, {record!r}")
        for sample in _SAMPLES:
            with _folder() as folder:
                path = format_.path_in(folder)
                try:
                    format_.writer(path, iter([sample]))
                except (TypeError, ValueError):
                    continue  # a writer may refuse what its format has no words for
                expect_same_all([sample], format_.read(path), f"{sample!r}, written and decoded")


class _ElementsError(RuntimeError):
    """What reading the elements raises in the midst of writing them."""


def _failing(elements: Sequence[Any]) -> Iterator[Any]:
    yield from elements
    raise _ElementsError("the elements end here with an error")


def _fail_to_write(format_: _Format, path: str, elements: Sequence[Any], what: str) -> None:
    try:
        count = format_.writer(path, _failing(elements))
    except Exception:
        return  # this error, or one that the writer made of it
    raise AssertionError(
        f"{what}: reading element {len(elements)} failed, and {format_.spec.writer} returned"
        f" {count!r} as if nothing had happened."
    )


@dataclass(frozen=True)
class _Format:
    """A source that has a writer, both imported."""

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
        """The elements of a file, opened as `grain.sources.open` does."""
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
                f"{self.spec.target} raised {error!r} for a file that {self.spec.writer} wrote."
            ) from error


def _formats(subject: Subject) -> Iterator[_Format]:
    """Each source of the plugin that has a writer."""
    for spec in subject.plugin.specs:
        if spec.writer:
            decode = load_object(spec.decoder) if spec.decoder else _as_it_is
            yield _Format(spec, load_object(spec.target), load_object(spec.writer), decode)


def _written_cases(subject: Subject) -> Iterator[tuple[str, _Format, list[Any]]]:
    """For each case of a source that has a writer: what it is, the writer, and its elements."""
    cases = [case for case in read_cases(subject.fresh().load()) if isinstance(case, Case)]
    for format_ in _formats(subject):
        for case in cases:
            if case.spec == format_.spec.name:
                records = Subject(case).elements
                yield f"case {case.name!r}", format_, [format_.decode(each) for each in records]


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="grain-conformance-")


def _as_it_is(record: Any) -> Any:
    return record
