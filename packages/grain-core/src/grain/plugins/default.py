"""The registry of this process, made when this module is first imported, and then only once."""

from __future__ import annotations

from grain import sources, transforms
from grain.plugins.manager import PluginManager

manager = PluginManager()
for module in (sources, transforms):
    manager.reserve(dict.fromkeys(module.__all__, module.__name__))
