"""Plugins as table rows and as JSON-compatible data."""

from __future__ import annotations

from typing import Any

from grain.plugins import KnownPlugin, Plugin, PluginSpec
from grain.plugins.install_commands import install_command

HEADER = ("NAME", "DISTRIBUTION", "VERSION", "STATUS", "PROVIDES / REASON")


def row(plugin: Plugin) -> tuple[str, ...]:
    """Return the table row of a plugin: the names it provides, or the reason of its failure."""
    provided = ", ".join(
        name for spec in plugin.specs for name in spec.public_names or (spec.name,)
    )
    return (
        plugin.name,
        plugin.distribution or "-",
        plugin.version or "-",
        plugin.status.value,
        plugin.reason or provided,
    )


def eager_note(plugin: Plugin) -> str:
    """Return a note about a plugin whose listing imports heavy modules, else an empty string."""
    if not plugin.eager_imports:
        return ""
    return (
        f"listing {plugin.name!r} of {plugin.provider} imports {', '.join(plugin.eager_imports)};"
        f" its author should import these lazily, not in {plugin.module}"
        " or its package."
    )


def as_data(plugin: Plugin) -> dict[str, Any]:
    """Return a plugin as JSON-compatible data."""
    return {
        "name": plugin.name,
        "module": plugin.module,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": plugin.status.value,
        "reason": plugin.reason,
        "fix": plugin.fix,
        "eager_imports": list(plugin.eager_imports),
        "provides": [_spec_as_data(spec) for spec in plugin.specs],
    }


def known_as_data(known: KnownPlugin) -> dict[str, Any]:
    """Return a plugin that is not installed as JSON-compatible data."""
    return {
        "name": known.name,
        "distribution": known.distribution,
        "public_names": list(known.public_names),
        "install": install_command(known),
    }


def _spec_as_data(spec: PluginSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "kind": spec.kind.value,
        "target": spec.target,
        "public_names": list(spec.public_names),
        "schemes": list(spec.schemes),
        "suffixes": list(spec.suffixes),
        "capabilities": sorted(capability.value for capability in spec.capabilities),
        "api": spec.api,
        "summary": spec.summary,
        "install": spec.install,
        "writer": spec.writer,
        "decoder": spec.decoder,
    }
