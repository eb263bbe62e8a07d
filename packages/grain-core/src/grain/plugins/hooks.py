"""The hooks a plugin may implement, one sentence each, and the marker that says it does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pluggy

from grain.plugins.spec import PluginSpec

PROJECT = "grain"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def grain_sources() -> Iterable[PluginSpec]:  # type: ignore[empty-body]
    """The map and iter sources this plugin provides."""


@hookspec
def grain_transforms() -> Iterable[PluginSpec]:  # type: ignore[empty-body]
    """The transforms this plugin provides."""


@hookspec
def grain_executors() -> Iterable[PluginSpec]:  # type: ignore[empty-body]
    """The executors this plugin provides."""


@hookspec
def grain_conformance_cases() -> Iterable[Any]:  # type: ignore[empty-body]
    """The `grain.testing` cases that prove this plugin right; called only when it is checked."""
