"""Plugins: what they are, which are there, and how to get at what they provide.

Sources, transforms and executors live in packages of their own, found through entry points of the
group `grain.plugins`. Listing them imports none of their dependencies; one that is broken is
reported, and matters only to whoever uses it.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from grain.plugins.attributes import PluginAttributes

if TYPE_CHECKING:
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

# Imported when first asked for: `import grain` needs hardly any of this, and must cost little.
_HOMES = {
    "DuplicatePluginError": "errors",
    "PluginAttributeError": "errors",
    "PluginError": "errors",
    "PluginNotInstalledError": "errors",
    "PluginUnusableError": "errors",
    "UnknownNameError": "errors",
    "hookimpl": "hooks",
    "KNOWN_NAMES": "known",
    "KNOWN_PLUGINS": "known",
    "KnownPlugin": "known",
    "PluginManager": "manager",
    "Plugin": "record",
    "Status": "record",
    "Settings": "settings",
    "SOURCE_KINDS": "kinds",
    "Capability": "spec",
    "Kind": "kinds",
    "PluginSpec": "spec",
}


def default_manager() -> PluginManager:
    """The registry of this process, which all functions here use."""
    manager: PluginManager = importlib.import_module("grain.plugins.default").manager
    return manager


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


def attributes_of(
    module: str,
    *,
    kinds: Collection[Kind] | None = None,
    only: Collection[str] | None = None,
) -> PluginAttributes:
    """Plugins' names for a module's `__getattr__` and `__dir__`; see `PluginAttributes`."""
    return PluginAttributes(module, default_manager, kinds=kinds, only=only)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
