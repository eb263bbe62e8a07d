"""What a plugin says about one thing it provides: a frozen description whose target is a string.

Nothing here imports the target: a spec can be read, listed and compared without any of the
plugin's dependencies.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

from grain.plugins.kinds import SOURCE_KINDS, Kind

SUPPORTED_APIS = frozenset({1})
"""The contract numbers this core understands."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_TARGET = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_SCHEME = re.compile(r"[a-z][a-z0-9.-]*")
_SUFFIX = re.compile(r"(?:\.[a-z0-9_-]+)+")


class Capability(enum.StrEnum):
    """What a source can do beyond the bare contract of its kind.

    A capability that is declared must hold, and one that holds must be declared: both are checked.
    """

    BATCHED_READ = "batched-read"
    """`__getitems__(indices)` gives the list that reading each index alone would give."""

    COLUMNS = "columns"
    """`__getcolumns__(indices)` gives the records stacked: the tree of arrays a batch would be."""

    THREAD_SAFE = "thread-safe"
    """One instance may be read from several threads at the same time."""

    REMOTE_PATHS = "remote-paths"
    """Paths may be URIs of a remote file system, such as `s3://bucket/key` or `memory://name`."""

    GLOBS = "globs"
    """Paths may hold the wildcards `*`, `?` and `[…]`."""

    CLOSABLE = "closable"
    """`close()` gives back files and memory at once; the source is also a context manager."""


@dataclass(frozen=True, kw_only=True)
class PluginSpec:
    """One source, transform or executor, as its plugin announces it.

    Example:
        >>> spec = PluginSpec(
        ...     name="jsonl",
        ...     target="grain_jsonl.source:JsonLinesDataSource",
        ...     kind=Kind.MAP_SOURCE,
        ...     public_names=("JsonLinesDataSource",),
        ...     schemes=("jsonl",),
        ...     suffixes=(".jsonl",),
        ...     capabilities=frozenset({Capability.BATCHED_READ}),
        ...     summary="Random access to JSON-lines files by an offset index.",
        ... )
        >>> spec.target
        'grain_jsonl.source:JsonLinesDataSource'

    Attributes:
        name: Short name of the thing, unique among all installed plugins.
        target: Where it lives, as `"package.module:Attribute"`; imported only when it is used.
        kind: What sort of thing it is.
        public_names: Names it gets in `grain.sources` or `grain.transforms`.
        schemes: URI schemes it opens, without `://`.
        suffixes: File suffixes it opens, with the leading dot, lower case.
        capabilities: What it can do beyond its kind's bare contract.
        api: The contract it was written for. The default is, and stays, 1.
        summary: One line for listings.
        install: The command that installs it with all it needs; shown when its import fails.
        writer: Where the function lives that writes files of a source's format, as
            `"package.module:function"`. It is called as `write(path, elements, **options)`, with a
            local path and an iterable that can be gone through once, and gives the number of
            elements written. A file at that path is replaced. When anything fails, what was there
            before is there still, and nothing else.
        decoder: Where the function lives that makes elements of the records of such a file, if
            records are bytes: `decode(record)` undoes what the writer did to an element, and gives
            back as it is whatever the writer did not encode.
    """

    name: str
    target: str
    kind: Kind
    public_names: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    capabilities: frozenset[Capability] = frozenset()
    api: int = 1
    summary: str = ""
    install: str = ""
    writer: str = ""
    decoder: str = ""

    def __post_init__(self) -> None:
        freeze = object.__setattr__
        freeze(self, "kind", Kind(self.kind))
        for field in ("public_names", "schemes", "suffixes"):
            freeze(self, field, _strings(field, getattr(self, field)))
        freeze(self, "capabilities", frozenset(Capability(c) for c in self.capabilities))
        _match("name", self.name, _NAME, "lower-case words joined by '-' or '_', such as 'jsonl'")
        _match("target", self.target, _TARGET, "'package.module:Attribute'")
        for name in self.public_names:
            if not name.isidentifier() or name.startswith("_"):
                raise ValueError(
                    f"PluginSpec(public_names=…) got {name!r}, expected a Python name that does not"
                    " start with an underscore."
                )
        for scheme in self.schemes:
            _match("schemes", scheme, _SCHEME, "a lower-case URI scheme without '://' or '+'")
            if scheme == "file":
                raise ValueError("PluginSpec(schemes=…) got 'file', which means a local path.")
        for suffix in self.suffixes:
            _match("suffixes", suffix, _SUFFIX, "a lower-case file suffix such as '.parquet'")
        if type(self.api) is not int or self.api < 1:
            raise ValueError(f"PluginSpec(api=…) got {self.api!r}, expected a number such as 1.")
        for field in ("summary", "install"):
            text = getattr(self, field)
            if not isinstance(text, str) or "\n" in text:
                raise ValueError(f"PluginSpec({field}=…) got {text!r}, expected one line of text.")
        for field in ("writer", "decoder"):
            if getattr(self, field) != "":
                _match(field, getattr(self, field), _TARGET, "'package.module:function' or ''")
        if self.kind in SOURCE_KINDS:
            return
        if self.schemes or self.suffixes:
            raise ValueError(
                f"PluginSpec {self.name!r} is of kind {self.kind.value!r} and names the schemes"
                f" {self.schemes} and suffixes {self.suffixes}; only sources open URIs."
            )
        if self.writer or self.decoder:
            raise ValueError(
                f"PluginSpec {self.name!r} is of kind {self.kind.value!r} and names the writer"
                f" {self.writer!r} and the decoder {self.decoder!r}; only sources have files."
            )


def _strings(field: str, value: Iterable[str]) -> tuple[str, ...]:
    # A lone string is iterable, and would become a tuple of letters.
    if isinstance(value, str):
        raise TypeError(f"PluginSpec({field}=…) got {value!r}, expected a tuple: ({value!r},).")
    strings = tuple(value)
    for item in strings:
        if not isinstance(item, str):
            raise TypeError(f"PluginSpec({field}=…) got {item!r}, expected strings.")
    if len(set(strings)) != len(strings):
        raise ValueError(f"PluginSpec({field}=…) got {strings}, which names one thing twice.")
    return strings


def _match(field: str, value: str, pattern: re.Pattern[str], expected: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"PluginSpec({field}=…) got {value!r}, expected {expected}.")
    if not pattern.fullmatch(value):
        raise ValueError(f"PluginSpec({field}=…) got {value!r}, expected {expected}.")
