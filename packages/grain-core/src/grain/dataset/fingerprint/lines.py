"""Fingerprints: what a pipeline does, line by line, stored with a state to detect a changed pipeline.

A line has a kind, by which a change of it can be allowed. Workers, threads and buffers change no element
and are left out. The texts are part of saved files: a change of them breaks restoring.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeGuard

import numpy as np

from grain.dataset.fingerprint.complete_text import complete_text
from grain.dataset.fingerprint.stable_text import has_own_repr, stable_line
from grain.dataset.fingerprint.stable_text import stable_text as stable_text

KINDS = ("source", "file", "sampler", "shard", "operation", "component", "weights")

# More files or nested datasets than this are replaced by their number and a digest.
_MAX_ITEMS = 256
_LINE = re.compile(r"((?:\[.*?\] )*)(\w+): (.*)")
_COMPONENT = re.compile(r"\[(.*?)\] ")


class Line(NamedTuple):
    """One line of a fingerprint.

    Attributes:
        kind: One of `KINDS`.
        text: The operation or source.
        path: The component of each mixture that the line belongs to, outermost first.
    """

    kind: str
    text: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "".join(f"[{as_name(name)}] " for name in self.path) + f"{self.kind}: {self.text}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse what `str` wrote.

        >>> Line.parse("[a] source: range(0, 3)")
        Line(kind='source', text='range(0, 3)', path=('a',))
        """
        found = _LINE.fullmatch(text)
        if found is None:
            raise ValueError(f"A line of a fingerprint is `kind: text`, got {text!r}.")
        names = _COMPONENT.findall(found[1])
        return cls(found[2], found[3], tuple(_from_name(name) for name in names))


def as_name(name: str) -> str:
    """Return the name of a component as it stands in a line."""
    if name and name.isprintable() and not set(name) & set('[]"\\'):
        return name
    return json.dumps(name).replace("[", "\\u005b").replace("]", "\\u005d")


def _from_name(name: str) -> str:
    return str(json.loads(name)) if name.startswith('"') else name


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """Return an operation as a call; arguments that are None or False are left out."""
    given = {
        key: value for key, value in arguments.items() if value is not None and value is not False
    }
    return f"{name}({', '.join(f'{key}={stable_text(value)}' for key, value in given.items())})"


def operation_line(node: Any) -> Line:
    """Return the line of a node's own operation."""
    if node.fingerprint_name is None:
        return Line("operation", _own_text(node))
    return Line("operation", call_text(node.fingerprint_name, node.fingerprint_arguments()))


def node_lines(node: Any) -> list[Line]:
    """Return the lines of a node's parents and its own, as most nodes have them."""
    parents = node.parents
    if not parents:
        return _unknown_source_lines(node)
    lines = parents[0].fingerprint() if len(parents) == 1 else nested_lines(enumerate(parents))
    return [*lines, operation_line(node)]


def nested_lines(datasets: Iterable[tuple[Any, Any]]) -> list[Line]:
    """Return the lines of several datasets, each under its name or number."""
    each = list(datasets)
    nested = [
        Line(line.kind, line.text, (str(name), *line.path))
        for name, dataset in each
        for line in dataset.fingerprint()
    ]
    if len(each) <= _MAX_ITEMS:
        return nested
    return [Line("source", f"{len(each)} datasets: {stable_text([str(line) for line in nested])}")]


def source_lines(source: Any) -> list[Line]:
    """Return the lines of a data source."""
    if isinstance(source, (list, tuple, str, bytes, dict)):
        return [Line("source", f"{type(source).__qualname__} of {len(source)}")]
    if isinstance(source, range):
        return [Line("source", repr(source))]
    if isinstance(source, np.ndarray):
        return [Line("source", f"array(shape={source.shape}, dtype={source.dtype})")]
    count = f", {len(source)} records" if hasattr(type(source), "__len__") else ""
    files = getattr(source, "paths", None)
    # The text of a source may be a digest of its files; paths name them.
    more = _file_lines(files) if _is_files(files) else []
    return [Line("source", stable_text(source) + count), *more]


def _unknown_source_lines(node: Any) -> list[Line]:
    files = getattr(node, "_paths", getattr(node, "paths", None))
    if _is_files(files):
        return [Line("source", type(node).__qualname__), *_file_lines(files)]
    # The length of an iter dataset may require reading it.
    count = f", {len(node)} records" if hasattr(node, "__getitem__") else ""
    return [Line("source", _own_text(node) + count)]


def _own_text(node: Any) -> str:
    """Return the text of a class without a `fingerprint_name`: its `str`, or the name of the class."""
    kind: Any = type(node)
    if dataclasses.is_dataclass(node):
        given = [f for f in dataclasses.fields(node) if f.repr and not f.name.startswith("_")]
        return call_text(kind.__qualname__, {f.name: getattr(node, f.name) for f in given})
    if not kind.__str__.__module__.startswith("grain.") or has_own_repr(kind):
        return stable_line(complete_text(node, str))
    return str(kind.__qualname__)


def _is_files(files: Any) -> TypeGuard[Sequence[Any]]:
    return (
        isinstance(files, (list, tuple))
        and bool(files)
        and all(isinstance(file, str) or hasattr(file, "__fspath__") for file in files)
    )


def _file_lines(files: Sequence[Any]) -> list[Line]:
    if len(files) > _MAX_ITEMS:
        return [Line("file", stable_text([str(file) for file in files]))]
    return [Line("file", stable_line(str(file))) for file in files]
