"""Plugins' names as attributes of a module, with an error that reads well however it is asked."""

from __future__ import annotations

import functools
import opcode
import sys
from collections.abc import Callable, Collection
from types import FrameType
from typing import TYPE_CHECKING, Any

from grain.plugins.default import default_manager
from grain.plugins.errors import PluginAttributeError, PluginError, UnknownNameError
from grain.plugins.kinds import SOURCE_KINDS, Kind
from grain.plugins.known import KNOWN_NAMES

if TYPE_CHECKING:
    from grain.plugins.manager import PluginManager

_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]


class PluginAttributes:
    """Answers a module's `__getattr__` and `__dir__` from the registry.

    A missing name is an `AttributeError`, so that `hasattr` and `getattr` with a default work. But
    `from module import name` drops the message of an `AttributeError`, and with it the command
    that installs the plugin, so there it is an `ImportError`.

    Args:
        module: The module's name.
        manager: Gives the registry to ask; called when it is first asked.
        kinds: Only things of these kinds become attributes; None for all.
        only: Only these names become attributes, and asking for another does not look for plugins.
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
        """The attribute; to be called by the module's `__getattr__`."""
        # Tools probe modules for private names all the time; no plugin can have one.
        if name.startswith("_") or (self._only is not None and name not in self._only):
            raise self._no_such(name)
        try:
            return self._manager().resolve(name, self._kinds)
        except UnknownNameError:
            raise self._no_such(name) from None
        except PluginError as error:
            if _asked_by_from_import(sys._getframe(1)):
                raise
            raise PluginAttributeError(str(error)) from error

    def list(self) -> list[str]:
        """The module's own names and those of installed plugins; for the module's `__dir__`."""
        names = set(vars(sys.modules[self._module]))
        for name in self._manager().public_names(self._kinds):
            if self._only is None or name in self._only:
                names.add(name)
        return sorted(names)

    def _no_such(self, name: str) -> AttributeError:
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


def _asked_by_from_import(frame: FrameType | None) -> bool:
    """Whether the code that called `__getattr__` is at a `from … import`.

    The bytecode is the only place where that can be seen. Where it cannot be read the answer is
    no, and the interpreter's own "cannot import name" appears.
    """
    while frame is not None and frame.f_code.co_name == "__getattr__":
        frame = frame.f_back
    if frame is None or frame.f_lasti < 0:
        return False
    return frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM
