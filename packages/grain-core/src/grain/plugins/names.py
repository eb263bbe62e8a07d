"""The names that plugins claim, and those names as attributes of modules.

A name with two claimants is refused to both; order never decides.
"""

from __future__ import annotations

import opcode
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, Protocol

from grain.plugins.diagnostics import (
    FIX,
    DuplicatePluginError,
    PluginAttributeError,
    PluginError,
    Space,
    UnknownNameError,
)
from grain.plugins.spec import Kind, Plugin, PluginSpec, Status

_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]


@dataclass(frozen=True)
class Claim:
    """The claim of one plugin to one name; `spec` is None when the name is the plugin's own."""

    plugin: Plugin
    spec: PluginSpec | None


class Claims:
    """The names of all usable plugins.

    Args:
        plugins: Every plugin; a plugin without specs claims nothing, not even its own name.
        reserved: Public names that modules of the core define, by module.
    """

    def __init__(self, plugins: Iterable[Plugin], reserved: Mapping[str, str]) -> None:
        self._table: dict[Space, dict[str, list[Claim]]] = {space: {} for space in Space}
        self._reserved = dict(reserved)
        for plugin in plugins:
            if not plugin.specs:
                continue
            self._add(Space.PLUGIN, plugin.name, Claim(plugin, None))
            for spec in plugin.specs:
                self._add(Space.SPEC, spec.name, Claim(plugin, spec))
                for space, names in (
                    (Space.PUBLIC, spec.public_names),
                    (Space.SCHEME, spec.schemes),
                    (Space.SUFFIX, spec.suffixes),
                ):
                    for name in names:
                        self._add(space, name, Claim(plugin, spec))

    def _add(self, space: Space, name: str, claim: Claim) -> None:
        self._table[space].setdefault(name, []).append(claim)

    def names(self, space: Space) -> list[str]:
        """Return every name in the space, contested ones included, sorted."""
        return sorted(self._table[space])

    def claimants(self, space: Space, name: str, *, but: Plugin | None = None) -> list[str]:
        """Return the claimants of a name, except `but`, as texts for messages, sorted."""
        found = [
            f"{claim.plugin.provider} (plugin {claim.plugin.name!r})"
            for claim in self._table[space].get(name, ())
            if but is None or claim.plugin.key != but.key
        ]
        if space is Space.PUBLIC and name in self._reserved:
            found.append(f"grain-core itself ({self._reserved[name]})")
        return sorted(found)

    def is_contested(self, space: Space, name: str) -> bool:
        """Return whether the name has several claimants."""
        return len(self.claimants(space, name)) > 1

    def find(self, space: Space, name: str) -> Claim | None:
        """Return the claim to a name, or None; raise when there are several."""
        claims = self._table[space].get(name)
        if not claims:
            return None
        if self.is_contested(space, name):
            claimants = " and ".join(self.claimants(space, name))
            raise DuplicatePluginError(
                f"The {space.value} {name!r} is claimed by {claimants}, so it is refused to all."
                f"{FIX}{fix_for_duplicates({claim.plugin.distribution for claim in claims})}."
            )
        return claims[0]

    def judge(self, plugin: Plugin) -> Plugin:
        """Return the plugin, marked as a duplicate when it claims a contested name."""
        contested = [
            f"the {space.value} {name!r} is also claimed by"
            f" {' and '.join(self.claimants(space, name, but=plugin))}"
            for space in Space
            for name, claims in sorted(self._table[space].items())
            if any(claim.plugin.key == plugin.key for claim in claims)
            and self.is_contested(space, name)
        ]
        if not contested:
            return plugin
        rivals = {
            claim.plugin.distribution
            for space in Space
            for name, claims in self._table[space].items()
            if any(claim.plugin.key == plugin.key for claim in claims)
            for claim in claims
        }
        return replace(
            plugin,
            status=Status.DUPLICATE,
            reason="; ".join(contested),
            fix=fix_for_duplicates(rivals),
        )


def fix_for_duplicates(distributions: Iterable[str | None]) -> str:
    """Return what to do about several distributions that claim one name."""
    names = sorted(filter(None, distributions))
    if not names:
        return "register it under another name"
    return f"pip uninstall {' or '.join(names)}, or name one of them in GRAIN_PLUGINS_DISABLE"


class Resolver(Protocol):
    """The part of the plugin registry that module attributes need."""

    def resolve(self, name: str, kinds: Collection[Kind] | None = None) -> Any:
        """Import and return the object of a public name."""

    def public_names(self, kinds: Collection[Kind] | None = None) -> list[str]:
        """Return the names that installed plugins add."""


class PluginAttributes:
    """The `__getattr__` and `__dir__` of a module with the names of plugins.

    A missing name is an `AttributeError`, so that `hasattr` and `getattr` with a default work. But
    `from module import name` drops the message of an `AttributeError`, and with it the command
    that installs the plugin, so there it is an `ImportError`.

    Args:
        module: The module's name.
        manager: Returns the registry; called on first use.
        kinds: Only things of these kinds become attributes; None for all.
        only: Only these names become attributes; other names are refused without discovering plugins.
    """

    def __init__(
        self,
        module: str,
        manager: Callable[[], Resolver],
        *,
        kinds: Collection[Kind] | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        self._module = module
        self._manager = manager
        self._kinds = kinds
        self._only = None if only is None else frozenset(only)

    def get(self, name: str) -> Any:
        """Return the attribute; to be called by the module's `__getattr__`."""
        # Tools often probe modules for private names; no plugin can have one.
        if name.startswith("_") or (self._only is not None and name not in self._only):
            raise self._missing(name)
        try:
            return self._manager().resolve(name, self._kinds)
        except UnknownNameError:
            raise self._missing(name) from None
        except PluginError as error:
            if _is_from_import(sys._getframe(1)):
                raise
            raise PluginAttributeError(str(error)) from error

    def list(self) -> list[str]:
        """Return the public names of the module and of installed plugins, for the module's `__dir__`."""
        own = vars(sys.modules[self._module])
        names = {*own.get("__all__", own)}
        for name in self._manager().public_names(self._kinds):
            if self._only is None or name in self._only:
                names.add(name)
        return sorted(names)

    def _missing(self, name: str) -> AttributeError:
        # With `name` and `obj` the interpreter adds "Did you mean …?" from the module's dir().
        return AttributeError(
            f"module {self._module!r} has no attribute {name!r}",
            name=name,
            obj=sys.modules.get(self._module),
        )


def _is_from_import(frame: FrameType | None) -> bool:
    """Return whether the code that called `__getattr__` executes a `from … import`.

    Only the bytecode shows it. Where the bytecode cannot be read the result is False, and the
    interpreter's own "cannot import name" appears.
    """
    while frame is not None and frame.f_code.co_name == "__getattr__":
        frame = frame.f_back
    if frame is None or frame.f_lasti < 0:
        return False
    return frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM
