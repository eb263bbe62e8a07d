"""Raises when it is asked what it provides."""

from __future__ import annotations

from grain.plugins import PluginSpec, hookimpl


@hookimpl
def grain_sources() -> list[PluginSpec]:
    raise RuntimeError("the hook raised")
