"""Finding plugins and reading what they say, each by itself: a broken one costs nobody else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from grain.plugins.errors import one_line
from grain.plugins.installed import (
    CORE,
    ISOLATED,
    Distribution,
    contained,
    entry_points,
    headers_of,
    load_object,
)
from grain.plugins.kinds import SOURCE_KINDS, Kind
from grain.plugins.record import Plugin, Status
from grain.plugins.requirements import unmet
from grain.plugins.settings import Settings, normalise
from grain.plugins.spec import SUPPORTED_APIS, PluginSpec

GROUP = "grain.plugins"

SPEC_HOOKS: dict[str, frozenset[Kind]] = {
    "grain_sources": SOURCE_KINDS,
    "grain_transforms": frozenset({Kind.TRANSFORM}),
    "grain_executors": frozenset({Kind.EXECUTOR}),
}
CASES_HOOK = "grain_conformance_cases"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An entry point as found on disk, before any of its code has run."""

    name: str
    module: str
    load: Callable[[], Any]
    distribution: str | None = None
    version: str | None = None
    requires: tuple[str, ...] = ()


def find_candidates(distributions: Iterable[Distribution]) -> Iterator[Candidate]:
    """The entry points of group `grain.plugins`, none of them imported.

    A distribution whose entry points cannot be read becomes a candidate whose load raises, so that
    it is reported like any other failure. Of one distribution found in several places on the path
    the first counts, as it does for imports.
    """
    seen: set[str] = set()
    for distribution in distributions:
        try:
            text = distribution.read_text("entry_points.txt")
        except ISOLATED:
            continue  # unreadable, so there is no telling whether it concerns us
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
            yield Candidate(name=point, module=module, load=partial(load_object, module), **common)


def read_plugin(candidate: Candidate, *, settings: Settings, core: str) -> Plugin:
    """Asks one plugin what it provides. Never raises; what went wrong is in the plugin's status."""
    plugin = Plugin(
        name=candidate.name,
        module=candidate.module,
        distribution=candidate.distribution,
        version=candidate.version,
    )
    owner = candidate.distribution or candidate.module
    if reason := settings.blocks(candidate.name, candidate.distribution):
        return replace(plugin, status=Status.BLOCKED, reason=reason)
    if requirement := unmet(candidate.requires, CORE, core):
        return replace(
            plugin,
            status=Status.INCOMPATIBLE,
            reason=f"it requires {requirement}, and {CORE} {core} is installed",
            mend=f"pip install --upgrade {CORE} {owner}",
        )
    before = set(sys.modules)
    mend = f"pip install --upgrade --force-reinstall {owner}"
    try:
        holder = candidate.load()
    except ISOLATED as error:
        return replace(
            plugin,
            status=Status.FAILED,
            reason=f"importing {candidate.module} raised {one_line(error)}",
            mend=mend,
            error=error,
        )
    try:
        with contained():
            specs = _specs_of(holder)
    except ISOLATED as error:
        return replace(
            plugin,
            status=Status.FAILED,
            reason=f"its hooks in {candidate.module} failed: {one_line(error)}",
            mend=mend,
            error=error,
        )
    plugin = replace(plugin, eager_imports=_foreign_imports(before, candidate.module))
    unsupported = sorted({spec.api for spec in specs} - SUPPORTED_APIS)
    if unsupported:
        return replace(
            plugin,
            status=Status.INCOMPATIBLE,
            reason=f"it is written for plugin contract {unsupported[0]}, and this core knows"
            f" {', '.join(map(str, sorted(SUPPORTED_APIS)))}",
            mend=f"pip install --upgrade {CORE} {owner}",
        )
    return replace(plugin, specs=specs)


def read_cases(holder: Any) -> list[Any]:
    """The conformance cases a plugin supplies; raises what its hook raises."""
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
                    raise TypeError(f"{hook}() gave {spec!r}, expected a PluginSpec")
                if spec.kind not in kinds:
                    raise ValueError(f"{hook}() gave {spec.name!r}, a {spec.kind.value}")
                specs.append(spec)
    for field in ("public_names", "schemes", "suffixes"):
        _refuse_twice(field, [value for spec in specs for value in getattr(spec, field)])
    _refuse_twice("name", [spec.name for spec in specs])
    return tuple(specs)


def _hooks_of(holder: Any) -> Any:
    """The hooks of one plugin alone: with a pluggy manager of its own, no other interferes."""
    import pluggy

    hooks = importlib.import_module("grain.plugins.hooks")
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(holder)
    manager.check_pending()
    if not manager.get_hookcallers(holder):
        expected = ", ".join([*SPEC_HOOKS, CASES_HOOK])
        raise TypeError(f"no hook found; mark one of {expected} with grain.plugins.hookimpl")
    return manager.hook


def _refuse_twice(field: str, values: list[str]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"two of its specs have {value!r} as {field}")


def _foreign_imports(before: set[str], module: str) -> tuple[str, ...]:
    own = {"grain", "pluggy", module.partition(":")[0].partition(".")[0]}
    tops = {name.partition(".")[0] for name in set(sys.modules) - before}
    already = {name.partition(".")[0] for name in before}
    return tuple(sorted(tops - own - already - sys.stdlib_module_names))


def _raise(error: Exception) -> Any:
    raise error
