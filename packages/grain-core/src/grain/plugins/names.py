"""The names that plugins claim. A name with two claimants is refused to both; order never decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from grain.plugins.diagnostics import FIX, DuplicatePluginError, Space
from grain.plugins.spec import Plugin, PluginSpec, Status


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
