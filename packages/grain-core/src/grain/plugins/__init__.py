"""Plugins: discovery, listing, and access to what they provide.

Sources, transforms and executors live in separate packages, found through entry points of the group
`grain.plugins`. Listing them imports none of their dependencies. A broken plugin is reported, and raises
only when it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from grain._lazy import LazyModule, lazy_names

if TYPE_CHECKING:
    from grain.plugins import manager
    from grain.plugins.diagnostics import (
        DuplicatePluginError,
        PluginAttributeError,
        PluginError,
        PluginNotInstalledError,
        PluginUnusableError,
        UnknownNameError,
    )
    from grain.plugins.discovery import Settings
    from grain.plugins.first_party import KNOWN_NAMES, KNOWN_PLUGINS, KnownPlugin
    from grain.plugins.manager import PluginManager, attributes_for, attributes_of
    from grain.plugins.names import PluginAttributes
    from grain.plugins.spec import (
        SOURCE_KINDS,
        Capability,
        Kind,
        Plugin,
        PluginSpec,
        Status,
        hookimpl,
    )
else:
    manager = LazyModule("grain.plugins.manager")

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
    "executor",
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


def default_manager() -> PluginManager:
    """Return the registry of this process, which all functions here use."""
    return manager.default_manager()


def plugins() -> tuple[Plugin, ...]:
    """Return every plugin with its status, sorted by name; never raises for a broken plugin.

    Example:
        >>> all(isinstance(plugin.reason, str) for plugin in plugins())
        True
    """
    return default_manager().plugins()


def public_names(kinds: Collection[Kind] | None = None) -> list[str]:
    """Return the names that installed plugins add, sorted; with `kinds`, only of these kinds."""
    return default_manager().public_names(kinds)


def resolve(name: str, kinds: Collection[Kind] | None = None) -> Any:
    """Import and return the object of a public name such as `"ParquetDataSource"`.

    With `kinds`, a name of another kind counts as unknown.
    """
    return default_manager().resolve(name, kinds)


def executor(name: str, built_in: Collection[str] = ()) -> Callable[..., Any]:
    """Import and return the function or class that makes the executor of this name.

    Args:
        name: Name of a spec of kind `EXECUTOR`.
        built_in: Names that need no plugin, for the error message.

    Example:
        >>> executor("rya", built_in=["threads"])  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        grain.plugins.UnknownNameError: No installed plugin provides executor 'rya'. ...
    """
    return default_manager().executor(name, built_in)


def spec(name: str) -> PluginSpec:
    """Return the spec of a spec name or of a public name; imports nothing."""
    return default_manager().spec(name)


def open_source(uri: str | os.PathLike[str], /, **options: Any) -> Any:
    """Open the source of a URI or path, chosen by scheme or suffix; see `grain.sources.open`."""
    return default_manager().open(uri, **options)


def conformance_cases(name: str) -> list[Any]:
    """Return the conformance cases of the plugin of this name."""
    return default_manager().conformance_cases(name)


def register(spec: PluginSpec) -> None:
    """Add a spec that no installed package announces, for this process.

    Example:
        >>> from grain.plugins import Kind, PluginSpec
        >>> kind = Kind.MAP_SOURCE
        >>> register(PluginSpec(name="mine", target="builtins:list", kind=kind, public_names=("Mine",)))
        >>> resolve("Mine")
        <class 'list'>
        >>> unregister("mine")
    """
    default_manager().register(spec)


def unregister(name: str) -> None:
    """Remove the spec that `register` added under this name."""
    default_manager().unregister(name)


def refresh() -> None:
    """Discover plugins again at the next use, for instance after installing one in a notebook."""
    default_manager().refresh()


# Imported on first use: most programs use no plugin.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "grain.plugins.diagnostics": [
            "DuplicatePluginError",
            "PluginAttributeError",
            "PluginError",
            "PluginNotInstalledError",
            "PluginUnusableError",
            "UnknownNameError",
        ],
        "grain.plugins.discovery": ["Settings"],
        "grain.plugins.first_party": ["KNOWN_NAMES", "KNOWN_PLUGINS", "KnownPlugin"],
        "grain.plugins.manager": ["PluginManager", "attributes_for", "attributes_of"],
        "grain.plugins.names": ["PluginAttributes"],
        "grain.plugins.spec": [
            "SOURCE_KINDS",
            "Capability",
            "Kind",
            "Plugin",
            "PluginSpec",
            "Status",
            "hookimpl",
        ],
    },
)
