"""The registry of this process, which is created on first use."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from grain._lazy import LazyModule

if TYPE_CHECKING:
    from grain.plugins import manager
else:
    manager = LazyModule("grain.plugins.manager")


@functools.cache
def default_manager() -> manager.PluginManager:
    """Return the registry of this process, which all functions of `grain.plugins` use."""
    return manager.PluginManager()
