"""The registry of this process, made when this module is first imported, and then only once."""

from __future__ import annotations

from grain.plugins.manager import PluginManager

manager = PluginManager()
