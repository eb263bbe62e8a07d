"""Plugins' names as attributes of a module, with a helpful error for every way of reading them."""

from __future__ import annotations

import functools
import opcode
import sys
from collections.abc import Callable, Collection
from types import FrameType
from typing import Any

from grain.plugins.diagnostics import PluginAttributeError, PluginError, UnknownNameError
from grain.plugins.first_party import KNOWN_NAMES
from grain.plugins.manager import PluginManager, default_manager
from grain.plugins.spec import SOURCE_KINDS, Kind

_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]


class PluginAttributes:
    """The `__getattr__` and `__dir__` of a module with the names of plugins.

    A missing name is an `AttributeError`, so that `hasattr` and `getattr` with a default work. But
    `from module import name` drops the message of an `AttributeError`, and with it the command
    that installs the plugin, so there it is an `ImportError`.

    Args:
        module: The module's name.
        manager: Returns the registry; called on first use.
        kinds: Only things of these kinds become attributes; None for all.
        only: Only these names become attributes; other names are refused without discovering plugins.
    """

    def __init__(
        self,
        module: str,
        manager: Callable[[], PluginManager],
        *,
        kinds: Collection[Kind] | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        self._module = module
        self._manager = manager
        self._kinds = kinds
        self._only = None if only is None else frozenset(only)

    def get(self, name: str) -> Any:
        """Return the attribute; to be called by the module's `__getattr__`."""
        # Tools often probe modules for private names; no plugin can have one.
        if name.startswith("_") or (self._only is not None and name not in self._only):
            raise self._missing(name)
        try:
            return self._manager().resolve(name, self._kinds)
        except UnknownNameError:
            raise self._missing(name) from None
        except PluginError as error:
            if _is_from_import(sys._getframe(1)):
                raise
            raise PluginAttributeError(str(error)) from error

    def list(self) -> list[str]:
        """Return the names of the module and of installed plugins, for the module's `__dir__`."""
        names = set(vars(sys.modules[self._module]))
        for name in self._manager().public_names(self._kinds):
            if self._only is None or name in self._only:
                names.add(name)
        return sorted(names)

    def _missing(self, name: str) -> AttributeError:
        # With `name` and `obj` the interpreter adds "Did you mean …?" from the module's dir().
        return AttributeError(
            f"module {self._module!r} has no attribute {name!r}",
            name=name,
            obj=sys.modules.get(self._module),
        )


def attributes_of(
    module: str,
    *,
    kinds: Collection[Kind] | None = None,
    only: Collection[str] | None = None,
) -> PluginAttributes:
    """Return the plugins' names for a module's `__getattr__` and `__dir__`.

    Args:
        module: The module's name.
        kinds: Only things of these kinds become attributes; None for all.
        only: Only these names become attributes.

    Example:
        names = attributes_of(__name__, kinds=SOURCE_KINDS)

        def __getattr__(name):
            return names.get(name)

        def __dir__():
            return names.list()
    """
    return PluginAttributes(module, default_manager, kinds=kinds, only=only)


@functools.cache
def attributes_for(module: str) -> PluginAttributes:
    """Return the plugins' names that a module of the core has."""
    return {
        "grain": attributes_of("grain", only=KNOWN_NAMES),
        "grain.experimental": attributes_of("grain.experimental", only=["ParquetIterDataset"]),
        "grain.python": attributes_of("grain.python", kinds=SOURCE_KINDS),
        "grain.sources": attributes_of("grain.sources", kinds=SOURCE_KINDS),
        "grain.transforms": attributes_of("grain.transforms", kinds={Kind.TRANSFORM}),
    }[module]


def _is_from_import(frame: FrameType | None) -> bool:
    """Return whether the code that called `__getattr__` executes a `from … import`.

    Only the bytecode shows it. Where the bytecode cannot be read the result is False, and the
    interpreter's own "cannot import name" appears.
    """
    while frame is not None and frame.f_code.co_name == "__getattr__":
        frame = frame.f_back
    if frame is None or frame.f_lasti < 0:
        return False
    return frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM
