"""Importing an integration as soon as the library that it integrates with is imported."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def import_after(trigger: str, module: str) -> None:
    """Import `module` as soon as the module `trigger` is imported; at once if it already is.

    A module that integrates with a heavy library is thereby loaded if and only if the library is used,
    whichever comes first. An integration that fails to import, because of an incompatible version of the
    library, fails where it is used.
    """
    if trigger in sys.modules:
        _try_import(module)
    elif not any(isinstance(f, _ImportAfter) and f.module == module for f in sys.meta_path):
        sys.meta_path.insert(0, _ImportAfter(trigger, module))


def _try_import(module: str) -> None:
    with contextlib.suppress(Exception):
        importlib.import_module(module)


class _ImportAfter(importlib.abc.MetaPathFinder):
    """Finder that finds nothing by itself, but has `module` imported after `trigger`."""

    def __init__(self, trigger: str, module: str):
        self._trigger = trigger
        self.module = module

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._trigger:
            return None
        with contextlib.suppress(ValueError):  # Another thread may have removed it.
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _LoaderAfter(spec.loader, self.module)
        return spec


class _LoaderAfter(importlib.abc.Loader):
    """Loader that executes a module as another loader does, and imports a second module afterwards."""

    def __init__(self, loader: Any, module: str):
        self._loader = loader
        self._module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        # The module keeps its own loader, which also finds its resources.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        _try_import(self._module)
