"""What a plugin announces about each thing it provides, the hooks that announce it, and its status.

A spec is a frozen description whose target is a string. Nothing here imports a target: specs can be
read, listed and compared without any of the plugin's dependencies.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pluggy

PROJECT = "grain"
"""The name that hook markers and hook callers share."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

SUPPORTED_APIS = frozenset({1})
"""The contract numbers this core understands."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*")
_TARGET = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_SCHEME = re.compile(r"[a-z][a-z0-9.-]*")
_SUFFIX = re.compile(r"(?:\.[a-z0-9_-]+)+")


class Kind(enum.StrEnum):
    """The kind of thing that a spec describes; decides which module gets its public names."""

    MAP_SOURCE = "map-source"
    """Random access: `len(source)` and `source[index]`. Found in `grain.sources`."""

    ITER_SOURCE = "iter-source"
    """An `IterDataset` that reads in its own order and resumes. Found in `grain.sources`."""

    TRANSFORM = "transform"
    """A transformation of elements. Found in `grain.transforms`."""

    EXECUTOR = "executor"
    """Computes blocks of a pipeline ahead of its consumer. Found by name only."""


SOURCE_KINDS = frozenset({Kind.MAP_SOURCE, Kind.ITER_SOURCE})
"""The kinds `grain_sources()` may return and `grain.sources.open` may choose."""


class Capability(enum.StrEnum):
    """What a source can do beyond the contract of its kind.

    A capability that is declared must hold, and one that holds must be declared: both are checked.
    """

    BATCHED_READ = "batched-read"
    """`__getitems__(indices)` returns the list that reading each index alone would return."""

    COLUMNS = "columns"
    """`__getcolumns__(indices)` returns the records stacked, as the tree of arrays of a batch."""

    THREAD_SAFE = "thread-safe"
    """One instance may be read from several threads at the same time."""

    REMOTE_PATHS = "remote-paths"
    """Paths may be URIs of a remote file system, such as `s3://bucket/key` or `memory://name`."""

    GLOBS = "globs"
    """Paths may hold the wildcards `*`, `?` and `[…]`."""

    CLOSABLE = "closable"
    """`close()` releases files and memory at once; the source is also a context manager."""


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
        kind: The kind of thing it is.
        public_names: Names it gets in `grain.sources` or `grain.transforms`.
        schemes: URI schemes it opens, without `://`.
        suffixes: File suffixes it opens, with the leading dot, lower case.
        capabilities: What it can do beyond the contract of its kind.
        api: The contract it was written for. The default is, and stays, 1.
        summary: One line for listings.
        install: The command that installs it with all it needs; shown when its import fails.
        writer: Where the function lives that writes files of a source's format, as
            `"package.module:function"`. It is called as `write(path, elements, **options)`, with a
            local path and an iterable that can be consumed once, and returns the number of elements
            written. A file at that path is replaced. After a failure the previous file is unchanged,
            and nothing else is left.
        decoder: Where the function lives that decodes the records of such a file into elements, if
            records are bytes: `decode(record)` reverses the writer's encoding, and returns a record
            that the writer did not encode unchanged.
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
        raise ValueError(f"PluginSpec({field}=…) got {strings}, expected each of them once.")
    return strings


def _match(field: str, value: str, pattern: re.Pattern[str], expected: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"PluginSpec({field}=…) got {value!r}, expected {expected}.")
    if not pattern.fullmatch(value):
        raise ValueError(f"PluginSpec({field}=…) got {value!r}, expected {expected}.")


class Status(enum.StrEnum):
    """The state of a plugin. Only using a broken plugin raises; listing it shows its status and reason."""

    AVAILABLE = "available"
    """Its specs are known; none of its targets has been imported."""

    LOADED = "loaded"
    """At least one of its targets has been imported."""

    INCOMPATIBLE = "incompatible"
    """It requires another grain-core or another contract; its code is not used."""

    FAILED = "failed"
    """Its import or a hook raised, or the import of a target did."""

    BLOCKED = "blocked"
    """`GRAIN_PLUGINS` or `GRAIN_PLUGINS_DISABLE` excludes it; its code is not imported."""

    DUPLICATE = "duplicate"
    """It claims a name that another plugin claims too: that name is refused, its other names work."""


PROBLEMS = frozenset({Status.INCOMPATIBLE, Status.FAILED, Status.DUPLICATE})
"""The statuses that need a fix."""


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One entry point of one distribution, or one call of `register()`.

    Attributes:
        name: The entry point's name.
        module: What the entry point names, such as `"grain_parquet._plugin"`.
        distribution: The distribution it came with; None for code without a package.
        version: That distribution's version, if it says one.
        status: The state of the plugin.
        reason: The reason for a status that is not good.
        fix: The command that fixes it, when there is one.
        specs: What it provides, when that is known.
        eager_imports: Third-party packages that listing the plugin imported; should be empty.
        error: The exception behind a failure.
    """

    name: str
    module: str
    distribution: str | None = None
    version: str | None = None
    status: Status = Status.AVAILABLE
    reason: str = ""
    fix: str = ""
    specs: tuple[PluginSpec, ...] = ()
    eager_imports: tuple[str, ...] = ()
    error: BaseException | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """Identify this plugin, duplicates included; also the sort key of listings."""
        return (self.name, self.distribution or "", self.module)

    @property
    def provider(self) -> str:
        """Name the distribution and its version for messages: `grain-parquet 1.0.0`.

        Example:
            >>> Plugin(name="a", module="m", distribution="grain-a", version="1.0").provider
            'grain-a 1.0'
            >>> Plugin(name="a", module="notebook:Source").provider
            'notebook:Source (registered by code)'
        """
        if self.distribution is None:
            return f"{self.module} (registered by code)"
        return f"{self.distribution} {self.version or '(version unknown)'}"

    @property
    def is_problem(self) -> bool:
        """Whether it needs a fix."""
        return self.status in PROBLEMS


class Hooks:
    """The hooks that a plugin may implement."""

    @hookspec
    def grain_sources(self) -> Iterable[PluginSpec]:  # type: ignore[empty-body]
        """Return the specs of the map and iter sources of this plugin."""

    @hookspec
    def grain_transforms(self) -> Iterable[PluginSpec]:  # type: ignore[empty-body]
        """Return the specs of the transforms of this plugin."""

    @hookspec
    def grain_executors(self) -> Iterable[PluginSpec]:  # type: ignore[empty-body]
        """Return the specs of the executors of this plugin."""

    @hookspec
    def grain_conformance_cases(self) -> Iterable[Any]:  # type: ignore[empty-body]
        """Return the `grain.testing` cases that prove this plugin; called only when it is checked."""
