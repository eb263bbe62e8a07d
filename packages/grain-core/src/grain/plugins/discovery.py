"""Finding plugins and reading their specs, each one in isolation from the others.

A broken plugin never raises here; its record carries the status, the reason and the fix.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pluggy

from grain.plugins.diagnostics import one_line
from grain.plugins.first_party import KNOWN_PLUGINS
from grain.plugins.install_commands import upgrade_command
from grain.plugins.metadata import (
    CORE,
    ISOLATED,
    Distribution,
    contained,
    entry_points,
    headers_of,
    load_object,
    normalise,
    unmet_requirement,
    visible,
)
from grain.plugins.spec import (
    PROJECT,
    SOURCE_KINDS,
    SUPPORTED_APIS,
    Hooks,
    Kind,
    Plugin,
    PluginSpec,
    Status,
)

ALLOW = "GRAIN_PLUGINS"
DISABLE = "GRAIN_PLUGINS_DISABLE"
STRICT = "GRAIN_PLUGINS_STRICT"
EVERY = "*"

_FALSE = frozenset({"", "0", "false", "no", "off"})

GROUP = "grain.plugins"

_PUBLISHED = {known.name: known.distribution for known in KNOWN_PLUGINS}

SPEC_HOOKS: dict[str, frozenset[Kind]] = {
    "grain_sources": SOURCE_KINDS,
    "grain_transforms": frozenset({Kind.TRANSFORM}),
    "grain_executors": frozenset({Kind.EXECUTOR}),
}
CASES_HOOK = "grain_conformance_cases"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The plugins that may be used, by the names of entry points or of distributions.

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
        """Return the settings of the three variables; an empty variable counts as unset.

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
        """Return the reason why the plugin may not be used, or an empty string.

        The name of a published plugin allows that plugin alone, not another distribution that gives an
        entry point the same name.
        """
        names = {normalise(name), normalise(distribution or name), EVERY}
        published = _PUBLISHED.get(normalise(name))
        foreign = (
            None not in (published, distribution) and normalise(distribution or "") != published
        )
        allowing = names - {normalise(name)} if foreign else names
        if self.allowed is not None and not allowing & self.allowed:
            reason = f"{ALLOW} allows only {', '.join(map(repr, sorted(self.allowed)))}"
            if names & self.allowed:
                reason += f", and {normalise(name)!r} there means {published!r}"
            return reason
        for disabled in sorted(names & self.disabled):
            return f"{DISABLE} names {disabled!r}"
        return ""

    def unmatched(self, plugins: Iterable[tuple[str, str | None]]) -> list[str]:
        """Return a sentence for each name in a variable that no installed plugin has: likely a typo."""
        present = {EVERY}
        for name, distribution in plugins:
            present |= {normalise(name), normalise(distribution or name)}
        return [
            f"{variable} names {name!r}, but no plugin of that name is installed."
            for variable, names in ((ALLOW, self.allowed or frozenset()), (DISABLE, self.disabled))
            for name in sorted(names - present)
        ]


def _names(text: str) -> frozenset[str]:
    return frozenset(normalise(name) for name in text.split(",") if name.strip())


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An entry point as found on disk, before any of its code has run."""

    name: str
    module: str
    load: Callable[[], Any]
    distribution: str | None = None
    version: str | None = None
    requires: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """Identify the plugin of this entry point, as `Plugin.key` does."""
        return (self.name, self.distribution or "", self.module)


def find_candidates(distributions: Iterable[Distribution]) -> Iterator[Candidate]:
    """Yield the entry points of group `grain.plugins` without importing them.

    A distribution whose entry points cannot be read becomes a candidate whose load raises, so that
    it is reported like any other failure. A distribution found several times on the path counts
    where it is found first, as for imports.
    """
    seen: set[str] = set()
    for distribution in distributions:
        try:
            text = distribution.read_text("entry_points.txt")
        except ISOLATED:
            continue  # unreadable metadata may not concern us at all
        if text is None or GROUP not in text:
            continue
        headers = headers_of(distribution)
        name = next(iter(headers["name"]), None)
        if name is not None:
            if normalise(name) in seen:
                continue
            seen.add(normalise(name))
        common: dict[str, Any] = {
            "distribution": name,
            "version": next(iter(headers["version"]), None),
            "requires": tuple(headers["requires-dist"]),
        }
        try:
            points = entry_points(text, GROUP)
        except ValueError as error:
            yield Candidate(name=name or "?", module="?", load=partial(_raise, error), **common)
            continue
        for point, module in points:
            load = partial(load_object, module)
            yield Candidate(name=point, module=visible(module), load=load, **common)


def read_plugin(candidate: Candidate, *, settings: Settings, core: str) -> Plugin:
    """Read the specs of one plugin. Never raises: a failure becomes the plugin's status."""
    plugin = Plugin(
        name=candidate.name,
        module=candidate.module,
        distribution=candidate.distribution,
        version=candidate.version,
    )
    owner = candidate.distribution or candidate.module
    if reason := settings.blocks(candidate.name, candidate.distribution):
        return replace(plugin, status=Status.BLOCKED, reason=reason)
    if requirement := unmet_requirement(candidate.requires, CORE, core):
        return replace(
            plugin,
            status=Status.INCOMPATIBLE,
            reason=f"it requires {requirement}, and {CORE} {core} is installed",
            fix=upgrade_command(CORE, owner),
        )
    before = set(sys.modules)
    fix = f"pip install --upgrade --force-reinstall {owner}"

    def failed(reason: str, error: BaseException) -> Plugin:
        reason = f"{reason} {one_line(error)}"
        return replace(plugin, status=Status.FAILED, reason=reason, fix=fix, error=error)

    try:
        holder = candidate.load()
    except ISOLATED as error:
        return failed(f"importing {candidate.module} raised", error)
    try:
        with contained():
            specs = _specs_of(holder)
    except ISOLATED as error:
        return failed(f"its hooks in {candidate.module} failed:", error)
    plugin = replace(plugin, eager_imports=_foreign_imports(before, candidate.module))
    unsupported = sorted({spec.api for spec in specs} - SUPPORTED_APIS)
    if unsupported:
        return replace(
            plugin,
            status=Status.INCOMPATIBLE,
            reason=f"it is written for plugin contract {unsupported[0]}, and this core supports"
            f" {', '.join(map(str, sorted(SUPPORTED_APIS)))}",
            fix=upgrade_command(CORE, owner),
        )
    return replace(plugin, specs=specs)


def read_cases(holder: Any) -> list[Any]:
    """Return the conformance cases of a plugin; raise what its hook raises."""
    with contained():
        caller = getattr(_hooks_of(holder), CASES_HOOK)
        return [case for cases in caller() for case in cases]


def _specs_of(holder: Any) -> tuple[PluginSpec, ...]:
    hooks = _hooks_of(holder)
    specs: list[PluginSpec] = []
    for hook, kinds in SPEC_HOOKS.items():
        for returned in getattr(hooks, hook)():
            for spec in returned:
                if not isinstance(spec, PluginSpec):
                    raise TypeError(f"{hook}() returned {spec!r}, expected a PluginSpec")
                if spec.kind not in kinds:
                    expected = " or ".join(repr(kind.value) for kind in sorted(kinds))
                    raise ValueError(
                        f"{hook}() returned {spec.name!r} of kind {spec.kind.value!r}, expected {expected}"
                    )
                specs.append(spec)
    for field in ("public_names", "schemes", "suffixes"):
        _refuse_twice(field, [value for spec in specs for value in getattr(spec, field)])
    _refuse_twice("name", [spec.name for spec in specs])
    return tuple(specs)


def _hooks_of(holder: Any) -> Any:
    """Return the hook callers of one plugin; a separate manager isolates it from the others."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(Hooks)
    manager.register(holder)
    manager.check_pending()
    if not manager.get_hookcallers(holder):
        expected = ", ".join([*SPEC_HOOKS, CASES_HOOK])
        raise TypeError(f"no hook found; mark one of {expected} with grain.plugins.hookimpl")
    return manager.hook


def _refuse_twice(field: str, values: list[str]) -> None:
    counts = Counter(values)
    for value in values:
        if counts[value] > 1:
            raise ValueError(f"two of its specs have {value!r} as {field}")


def _foreign_imports(before: set[str], module: str) -> tuple[str, ...]:
    own = {"grain", "pluggy", module.partition(":")[0].partition(".")[0]}
    tops = {name.partition(".")[0] for name in set(sys.modules) - before}
    already = {name.partition(".")[0] for name in before}
    return tuple(sorted(tops - own - already - sys.stdlib_module_names))


def _raise(error: Exception) -> Any:
    raise error
