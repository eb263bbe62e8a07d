"""Who claims which name. A name that two claim belongs to neither; it is never decided by order."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from grain.plugins.errors import DuplicatePluginError
from grain.plugins.record import Plugin, Status
from grain.plugins.spec import PluginSpec


class Space(enum.StrEnum):
    """The spaces in which names must be unique."""

    PLUGIN = "plugin name"
    SPEC = "spec name"
    PUBLIC = "public name"
    SCHEME = "URI scheme"
    SUFFIX = "file suffix"


@dataclass(frozen=True)
class Claim:
    """One plugin's claim to one name; `spec` is None when the plugin as a whole is named."""

    plugin: Plugin
    spec: PluginSpec | None


class Claims:
    """The names of all usable plugins.

    Args:
        plugins: Every plugin; those that provide nothing claim nothing, not even their own name.
        reserved: Public names that modules of the core define themselves, and which module.
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
        """Every name in the space, contested ones included, sorted."""
        return sorted(self._table[space])

    def claimants(self, space: Space, name: str, *, but: Plugin | None = None) -> list[str]:
        """Who claims the name, apart from `but`, for a person, sorted."""
        found = [
            f"{claim.plugin.provider} (plugin {claim.plugin.name!r})"
            for claim in self._table[space].get(name, ())
            if but is None or claim.plugin.key != but.key
        ]
        if space is Space.PUBLIC and name in self._reserved:
            found.append(f"grain-core itself ({self._reserved[name]})")
        return sorted(found)

    def is_contested(self, space: Space, name: str) -> bool:
        """Whether more than one claims the name."""
        return len(self.claimants(space, name)) > 1

    def find(self, space: Space, name: str) -> Claim | None:
        """The one claim to the name; None when nobody claims it; an error when several do."""
        claims = self._table[space].get(name)
        if not claims:
            return None
        if self.is_contested(space, name):
            claimants = " and ".join(self.claimants(space, name))
            raise DuplicatePluginError(
                f"The {space.value} {name!r} is claimed by {claimants}; none of them gets it."
                f" To mend it: {mend_duplicate({claim.plugin.distribution for claim in claims})}."
            )
        return claims[0]

    def judge(self, plugin: Plugin) -> Plugin:
        """The plugin, marked as a duplicate when it claims a contested name."""
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
            mend=mend_duplicate(rivals),
        )


def mend_duplicate(distributions: Iterable[str | None]) -> str:
    """What to do about several distributions that claim one name."""
    names = sorted(filter(None, distributions))
    if not names:
        return "register it under another name"
    return f"pip uninstall {' or '.join(names)}, or name one of them in GRAIN_PLUGINS_DISABLE"
