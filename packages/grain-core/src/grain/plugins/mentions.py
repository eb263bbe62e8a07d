"""Which plugins can claim a name, found without running their code.

A plugin announces its names as literal text in the module of its entry point. So a name is first looked up
in the plugins whose module has the text of it; the others are not imported, and one that would hang or
crash there does not affect programs that use another plugin.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.machinery import ModuleSpec


def mentions(module: str, names: Collection[str]) -> bool:
    """Return whether the source of a module has the text of a name; True if it cannot be read.

    Args:
        module: An entry point's `"module"` or `"module:attribute"`.
        names: Texts to look for, in any case.

    Example:
        >>> mentions("grain.plugins.mentions", ["collections.abc"])
        True
        >>> mentions("grain.plugins.mentions", ["no" + "where"])
        False
    """
    path = _source_path(module.partition(":")[0])
    if path is None:
        return True
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read().lower()
    except (OSError, ValueError):
        return True
    return any(name.lower() in text for name in names)


def _source_path(module: str) -> str | None:
    """Return the source file of a module, found without importing its packages."""
    search: list[str] | None = None
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        spec = _find_spec(".".join(parts[:count]), search)
        if spec is None:
            return None
        search = (
            None if spec.submodule_search_locations is None else [*spec.submodule_search_locations]
        )
    if spec is None or not spec.has_location or spec.origin is None:
        return None
    return spec.origin if spec.origin.endswith(".py") else None


def _find_spec(name: str, path: list[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        try:
            spec = None if find is None else find(name, path)
        except Exception:  # A finder of another project.
            continue
        if spec is not None:
            return spec if isinstance(spec, ModuleSpec) else None
    return None
