"""The one mechanism for lazy imports: modules and names that are imported on first use.

`import grain` stays light, and a worker process loads only the operations of its own pipeline. A package
whose names are lazy takes its `__getattr__` and `__dir__` from `lazy_names`; a module that rarely needs
another one refers to it through `LazyModule`.

Some modules also have the names of installed plugins, although no layer below `grain.plugins` may import
it: the root package installs the plugin registry here, and `lazy_names` looks names up in it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class LazyModule:
    """A stand-in for a module that is imported when one of its attributes is first read.

    >>> LazyModule("json").dumps([1])
    '[1]'
    """

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


class PluginRegistry:
    """The place of the plugin registry (`grain.plugins`), which the root package installs."""

    installed: Any = None


def lazy_names(
    module: str,
    homes: Mapping[str, Iterable[str]] | None = None,
    *,
    submodules: Iterable[str] | None = (),
    from_plugins: Callable[[str], bool] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module whose names are imported on first use.

    Args:
        module: The module's `__name__`.
        homes: The names by the module that defines them, as in an import statement: `"dumps"`, or
            `"dumps as to_json"`.
        submodules: Names of submodules that can be read as attributes; None for every submodule.
        from_plugins: Whether an otherwise unknown name may be an installed plugin's; None for a module
            without such names.

    >>> get, names = lazy_names(__name__, {"math": ["pi", "tau as two_pi"]})
    >>> get("two_pi"), "pi" in names()
    (6.283185307179586, True)
    """
    targets: dict[str, tuple[str, str]] = {}
    for home, names in (homes or {}).items():
        for name in names:
            attribute, _, alias = name.partition(" as ")
            targets[alias or attribute] = home, attribute
    packages = None if submodules is None else frozenset(submodules)

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name in targets:
            home, attribute = targets[name]
            value = getattr(importlib.import_module(home), attribute)
            setattr(sys.modules[module], name, value)
            return value
        if not name.startswith("_") and (packages is None or name in packages):
            try:
                return importlib.import_module(f"{module}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{module}.{name}":
                    raise
        if from_plugins is not None and not name.startswith("_") and from_plugins(name):
            return PluginRegistry.installed.attributes_for(module).get(name)
        # With `name` and `obj` the interpreter adds "Did you mean …?".
        raise AttributeError(
            f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules.get(module)
        )

    def __dir__() -> list[str]:  # noqa: N807
        own = vars(sys.modules[module])
        # Imported helpers are not offered for completion.
        public = [name for name in own if name.startswith("__")] + [*own.get("__all__", own)]
        found = {*public, *targets, *(packages or ())}
        if from_plugins is not None:
            found.update(PluginRegistry.installed.attributes_for(module).list())
        return sorted(found)

    return __getattr__, __dir__
