"""What the manager knows about one plugin, as data: who provides it, how it stands, and why."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from grain.plugins.spec import PluginSpec


class Status(enum.StrEnum):
    """How a plugin stands. Only what is used raises; everything else is a status with a reason."""

    AVAILABLE = "available"
    """Its specs are known; none of its targets has been imported."""

    LOADED = "loaded"
    """At least one of its targets has been imported."""

    INCOMPATIBLE = "incompatible"
    """It asks for another grain-core or another contract; its code was not used."""

    FAILED = "failed"
    """Its import or a hook raised, or a target could not be imported when it was asked for."""

    BLOCKED = "blocked"
    """`GRAIN_PLUGINS` or `GRAIN_PLUGINS_DISABLE` keeps it out; its code was not imported."""

    DUPLICATE = "duplicate"
    """It claims a name that another claims too: that name is refused to both, its others work."""


PROBLEMS = frozenset({Status.INCOMPATIBLE, Status.FAILED, Status.DUPLICATE})
"""The statuses that somebody has to mend."""


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One entry point of one distribution, or one call of `register()`.

    Attributes:
        name: The entry point's name.
        module: What the entry point names, such as `"grain_parquet._plugin"`.
        distribution: The distribution it came with; None for code without a package.
        version: That distribution's version, if it says one.
        status: How the plugin stands.
        reason: Why, when the status is not simply good.
        mend: The command that mends it, when there is one.
        specs: What it provides, when that is known.
        eager_imports: Packages of others that merely listing the plugin imported; should be empty.
        error: The exception behind a failure.
    """

    name: str
    module: str
    distribution: str | None = None
    version: str | None = None
    status: Status = Status.AVAILABLE
    reason: str = ""
    mend: str = ""
    specs: tuple[PluginSpec, ...] = ()
    eager_imports: tuple[str, ...] = ()
    error: BaseException | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells this plugin from every other, duplicates included; also the listing order."""
        return (self.name, self.distribution or "", self.module)

    @property
    def provider(self) -> str:
        """Who provides it, for a person: `grain-parquet 1.0.0`.

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
        """Whether somebody has to mend it."""
        return self.status in PROBLEMS
