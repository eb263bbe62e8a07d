"""Plugins: what they are, which are there, and how to get at what they provide.

Sources, transforms and executors live in packages of their own, found through entry points of the
group `grain.plugins`. Listing them imports none of their dependencies; one that is broken is
reported, and matters only to whoever uses it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from grain._lazy import lazy_names
from grain.plugins.default import default_manager

if TYPE_CHECKING:
    from grain.plugins.attributes import PluginAttributes, attributes_for, attributes_of
    from grain.plugins.errors import (
        DuplicatePluginError,
        PluginAttributeError,
        PluginError,
        PluginNotInstalledError,
        PluginUnusableError,
        UnknownNameError,
    )
    from grain.plugins.hooks import hookimpl
    from grain.plugins.kinds import SOURCE_KINDS, Kind
    from grain.plugins.known import KNOWN_NAMES, KNOWN_PLUGINS, KnownPlugin
    from grain.plugins.manager import PluginManager
    from grain.plugins.record import Plugin, Status
    from grain.plugins.settings import Settings
    from grain.plugins.spec import Capability, PluginSpec

__all__ = [
    "KNOWN_NAMES",
    "KNOWN_PLUGINS",
    "SOURCE_KINDS",
    "Capability",
    "DuplicatePluginError",
    "Kind",
    "KnownPlugin",
    "Plugin",
    "PluginAttributeError",
    "PluginAttributes",
    "PluginError",
    "PluginManager",
    "PluginNotInstalledError",
    "PluginSpec",
    "PluginUnusableError",
    "Settings",
    "Status",
    "UnknownNameError",
    "attributes_for",
    "attributes_of",
    "conformance_cases",
    "default_manager",
    "hookimpl",
    "open_source",
    "plugins",
    "public_names",
    "refresh",
    "register",
    "resolve",
    "spec",
    "unregister",
]


def plugins() -> tuple[Plugin, ...]:
    """Every plugin with its status, sorted by name; no fault of a plugin makes this raise.

    Example:
        >>> all(isinstance(plugin.status, Status) for plugin in plugins())
        True
    """
    return default_manager().plugins()


def public_names(kinds: Collection[Kind] | None = None) -> list[str]:
    """The names that installed plugins add, sorted; those of some kinds only, if told."""
    return default_manager().public_names(kinds)


def resolve(name: str, kinds: Collection[Kind] | None = None) -> Any:
    """The object behind a public name such as `"ParquetDataSource"`; imports its module.

    With `kinds`, a name of another kind counts as unknown.
    """
    return default_manager().resolve(name, kinds)


def spec(name: str) -> PluginSpec:
    """The spec behind a public name or of that spec name; imports nothing."""
    return default_manager().spec(name)


def open_source(uri: str | os.PathLike[str], /, **options: Any) -> Any:
    """The source for a URI or path, chosen by scheme or suffix; see `grain.sources.open`."""
    return default_manager().open(uri, **options)


def conformance_cases(name: str) -> list[Any]:
    """The cases that the plugin of this name supplies to prove itself right."""
    return default_manager().conformance_cases(name)


def register(spec: PluginSpec) -> None:
    """Adds something that no installed package announces, for this process.

    Example:
        >>> source = PluginSpec(
        ...     name="mine", target="builtins:list", kind=Kind.MAP_SOURCE, public_names=("Mine",)
        ... )
        >>> register(source)
        >>> resolve("Mine")
        <class 'list'>
        >>> unregister("mine")
    """
    default_manager().register(spec)


def unregister(name: str) -> None:
    """Takes back what `register` added under this spec name."""
    default_manager().unregister(name)


def refresh() -> None:
    """Looks for plugins anew at the next use, for instance after installing one in a notebook."""
    default_manager().refresh()


# Imported on first use: most programs use no plugin.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "grain.plugins.attributes": ["PluginAttributes", "attributes_for", "attributes_of"],
        "grain.plugins.errors": [
            "DuplicatePluginError",
            "PluginAttributeError",
            "PluginError",
            "PluginNotInstalledError",
            "PluginUnusableError",
            "UnknownNameError",
        ],
        "grain.plugins.hooks": ["hookimpl"],
        "grain.plugins.kinds": ["SOURCE_KINDS", "Kind"],
        "grain.plugins.known": ["KNOWN_NAMES", "KNOWN_PLUGINS", "KnownPlugin"],
        "grain.plugins.manager": ["PluginManager"],
        "grain.plugins.record": ["Plugin", "Status"],
        "grain.plugins.settings": ["Settings"],
        "grain.plugins.spec": ["Capability", "PluginSpec"],
    },
)
