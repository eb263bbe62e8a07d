"""What is installed: the metadata that installers leave beside packages, read directly.

The standard library's reader does the same and more, but importing it takes longer than all else
that listing plugins takes. It is used wherever packages come from something other than directories.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

CORE = "grain-core"

# What reading or importing someone else's things may raise and must not take down everyone else
# with. SystemExit is among them because scripts packaged as modules call sys.exit().
ISOLATED = (Exception, SystemExit)


class PluginAbortError(Exception):
    """Someone else's code raised what is no error, such as `GeneratorExit` or a test's skip."""


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Makes everything that someone else's code may raise one of `ISOLATED`; Ctrl-C stays what it is."""
    try:
        yield
    except (*ISOLATED, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginAbortError(f"{type(error).__name__}, which is no error: {error}") from error


class Distribution(Protocol):
    """An installed distribution, as far as it matters here."""

    def read_text(self, filename: str, /) -> str | None:
        """A metadata file such as `METADATA`, or None when there is none of that name."""
        ...


@dataclass(frozen=True)
class InfoDirectory:
    """A distribution whose metadata are files in a directory."""

    path: str

    def read_text(self, filename: str, /) -> str | None:
        """A metadata file, or None when it does not exist or may not be read."""
        try:
            # What is not UTF-8 is not ours to judge, and what we look for is ASCII.
            with open(
                os.path.join(self.path, filename), encoding="utf-8", errors="replace"
            ) as file:
                return file.read()
        except OSError:
            return None


def installed_distributions(path: Sequence[str] | None = None) -> Iterator[Distribution]:
    """Every distribution on `path`, by default `sys.path`, in its order."""
    entries = sys.path if path is None else path
    if _needs_standard_reader(entries):
        from importlib import metadata

        yield from metadata.distributions(path=list(entries))
        return
    for entry in entries:
        try:
            names = sorted(os.listdir(entry or "."))
        except OSError:
            continue  # paths that do not exist are common, and importers skip them too
        for name in names:
            if name.endswith((".dist-info", ".egg-info")) or name == "EGG-INFO":
                yield InfoDirectory(os.path.join(entry or ".", name))


def headers_of(distribution: Distribution) -> dict[str, list[str]]:
    """The name, version and requirements a distribution states; empty lists where it does not."""
    wanted: dict[str, list[str]] = {"name": [], "version": [], "requires-dist": []}
    try:
        text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    except ISOLATED:
        return wanted
    for line in text.splitlines():
        if not line:
            break  # the headers end at the first empty line; the description follows
        header, colon, value = line.partition(":")
        if colon and header.lower() in wanted:
            wanted[header.lower()].append(value.strip())
    return wanted


def entry_points(text: str, group: str) -> list[tuple[str, str]]:
    r"""The names and values of one group of an `entry_points.txt`.

    Example:
        >>> entry_points("[console_scripts]\na = b:c\n[x]\nname = module:object [extra]\n", "x")
        [('name', 'module:object')]
    """
    section, found = "", []
    for line in map(str.strip, text.splitlines()):
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == group:
            name, equals, value = map(str.strip, line.partition("="))
            if not (name and equals and value):
                raise ValueError(f"entry_points.txt has {line!r}, expected 'name = module'")
            found.append((name, value.partition("[")[0].strip()))
    return found


def load_object(reference: str) -> Any:
    """Imports what `"module"` or `"module:attribute.of.it"` names.

    Example:
        >>> load_object("os.path:join").__name__
        'join'
    """
    module, _, attributes = reference.partition(":")
    with contained():
        found: Any = importlib.import_module(module)
        for attribute in filter(None, attributes.split(".")):
            found = getattr(found, attribute)
        return found


def _needs_standard_reader(entries: Iterable[str]) -> bool:
    """Whether packages may come from archives, or from a finder with metadata of its own."""
    ours = importlib.machinery.PathFinder
    return any(
        finder is not ours and hasattr(finder, "find_distributions") for finder in sys.meta_path
    ) or any(os.path.isfile(entry) for entry in entries)
