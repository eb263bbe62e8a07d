"""The environment variables that decide which plugins may be used, and how strictly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ALLOW = "GRAIN_PLUGINS"
DISABLE = "GRAIN_PLUGINS_DISABLE"
STRICT = "GRAIN_PLUGINS_STRICT"
EVERY = "*"

_FALSE = frozenset({"", "0", "false", "no", "off"})


def normalise(name: str) -> str:
    """A plugin's or distribution's name in the one spelling used for comparing.

    Example:
        >>> normalise("Grain_Array.Record")
        'grain-array-record'
    """
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which plugins are allowed. Names are those of entry points or of distributions.

    Attributes:
        allowed: The only plugins that may be used, or None for all.
        disabled: Plugins that may not be used; `*` means all.
        strict: Raise for every broken plugin as soon as any plugin is used.
    """

    allowed: frozenset[str] | None = None
    disabled: frozenset[str] = frozenset()
    strict: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """The settings that the three variables spell; an empty one is the same as none.

        Example:
            >>> settings = Settings.from_environment({"GRAIN_PLUGINS": "parquet, tfds"})
            >>> settings.blocks("inmemory", None)
            "GRAIN_PLUGINS allows only 'parquet', 'tfds'"
        """
        return cls(
            allowed=_names(environment.get(ALLOW, "")) or None,
            disabled=_names(environment.get(DISABLE, "")),
            strict=environment.get(STRICT, "").strip().lower() not in _FALSE,
        )

    def blocks(self, name: str, distribution: str | None) -> str:
        """Why the plugin may not be used, or an empty string."""
        names = {normalise(name), normalise(distribution or name), EVERY}
        if self.allowed is not None and not names & self.allowed:
            return f"{ALLOW} allows only {', '.join(map(repr, sorted(self.allowed)))}"
        for disabled in sorted(names & self.disabled):
            return f"{DISABLE} names {disabled!r}"
        return ""

    def unmatched(self, plugins: Iterable[tuple[str, str | None]]) -> list[str]:
        """A sentence for each name in a variable that no installed plugin has: likely a typo."""
        present = {EVERY}
        for name, distribution in plugins:
            present |= {normalise(name), normalise(distribution or name)}
        return [
            f"{variable} names {name!r}, but no such plugin is installed."
            for variable, names in ((ALLOW, self.allowed or frozenset()), (DISABLE, self.disabled))
            for name in sorted(names - present)
        ]


def _names(text: str) -> frozenset[str]:
    return frozenset(normalise(name) for name in text.split(",") if name.strip())
