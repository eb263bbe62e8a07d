"""The metadata of installed distributions, read directly from the files that installers write.

Importing the standard library's reader takes longer than everything else that listing plugins does. It
is used only where packages come from something other than directories.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

CORE = "grain-core"

_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_REQUIREMENT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9][-_.A-Za-z0-9]*?)\s*(?:\[[^\]]*\])?\s*\(?(?P<bounds>(?:[~=!<>][^();@]*)?)\)?\s*"
)
_CLAUSE = re.compile(r"\s*(~=|==|!=|<=|>=|<|>)\s*(\d+(?:\.\d+)*)(\.\*)?\s*")

# What reading or importing a third party's code may raise; it must not affect other plugins.
# SystemExit is included because scripts packaged as modules call sys.exit().
ISOLATED = (Exception, SystemExit)


class PluginAbortError(Exception):
    """A plugin raised a BaseException that is not an error, such as `GeneratorExit` or a test's skip."""


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Convert whatever a plugin's code raises into one of `ISOLATED`; Ctrl-C is not converted."""
    try:
        yield
    except (*ISOLATED, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginAbortError(f"{type(error).__name__}, which is no error: {error}") from error


class Distribution(Protocol):
    """The part of an installed distribution's interface that is used here."""

    def read_text(self, filename: str, /) -> str | None:
        """Return a metadata file such as `METADATA`, or None when there is none of that name."""
        ...


@dataclass(frozen=True)
class InfoDirectory:
    """A distribution whose metadata are files in a directory."""

    path: str

    def read_text(self, filename: str, /) -> str | None:
        """Return a metadata file, or None when it does not exist or cannot be read."""
        try:
            # Everything that is looked for is ASCII.
            with open(
                os.path.join(self.path, filename), encoding="utf-8", errors="replace"
            ) as file:
                return file.read()
        except OSError:
            return None


def installed_distributions(path: Sequence[str] | None = None) -> Iterator[Distribution]:
    """Yield every distribution on `path`, by default `sys.path`, in its order."""
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
    """Return the name, version and requirements of a distribution; empty lists for missing ones.

    They have no control characters: messages show them, and terminals obey escape sequences.
    """
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
            wanted[header.lower()].append(visible(value.strip()))
    return wanted


def entry_points(text: str, group: str) -> list[tuple[str, str]]:
    r"""Return the names and values of one group of an `entry_points.txt`.

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


def visible(text: str) -> str:
    r"""Return a text on one line, with control characters as escape sequences.

    Example:
        >>> visible("grain-\x1b[31mred\tand blue")
        'grain-\\x1b[31mred and blue'
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in text.replace("\t", " ")
    )


def load_object(reference: str) -> Any:
    """Import and return the object that `"module"` or `"module:attribute.of.it"` names.

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


def normalise(name: str) -> str:
    """Return the name of a plugin or distribution in the spelling used for comparisons.

    Example:
        >>> normalise("Grain_Array.Record")
        'grain-array-record'
    """
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def unmet_requirement(requirements: Iterable[str], name: str, version: str) -> str:
    """Return the first requirement on `name` whose bounds exclude `version`, or an empty string.

    Release numbers are compared. The rest (pre-releases in bounds, markers, direct URLs) is left to the
    installer, which has checked it already.

    Example:
        >>> unmet_requirement(["numpy>=1.26", "grain-core>=2,<3"], "grain-core", "1.0.0")
        'grain-core>=2,<3'
        >>> unmet_requirement(["grain_core (>=1)"], "grain-core", "1.0.0")
        ''
    """
    present = _RELEASE.match(version)
    if present is None:
        return ""
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None or normalise(match["name"]) != normalise(name):
            continue
        clauses = filter(None, (_CLAUSE.fullmatch(clause) for clause in match["bounds"].split(",")))
        if not all(_holds(_numbers(present[0]), *clause.groups()) for clause in clauses):
            return requirement.strip()
    return ""


def _holds(present: list[int], operator: str, release: str, wildcard: str | None) -> bool:
    bound = _numbers(release)
    length = len(bound)
    present = present + [0] * (length - len(present))
    if wildcard:
        return (present[:length] == bound) == (operator == "==")
    bound = bound + [0] * (len(present) - length)
    match operator:
        case "==":
            return present == bound
        case "!=":
            return present != bound
        case ">=":
            return present >= bound
        case "<=":
            return present <= bound
        case "<":
            return present < bound
        case ">":
            return present > bound
        case _:  # "~=": from the bound on, with the same numbers but the last
            return present >= bound and present[: length - 1] == bound[: length - 1]


def _numbers(release: str) -> list[int]:
    return [int(number) for number in release.split(".")]


def _needs_standard_reader(entries: Iterable[str]) -> bool:
    """Return whether packages may come from archives, or from a finder that has metadata."""
    ours = importlib.machinery.PathFinder
    return any(
        finder is not ours and hasattr(finder, "find_distributions") for finder in sys.meta_path
    ) or any(os.path.isfile(entry) for entry in entries)
