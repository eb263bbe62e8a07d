"""A JSON description of the public names of grain's modules: kind, parameters, defaults."""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import inspect
import types
from typing import Any, get_origin

MODULES = (
    "grain",
    "grain.checkpoint",
    "grain.constants",
    "grain.experimental",
    "grain.multiprocessing",
    "grain.samplers",
    "grain.sharding",
    "grain.sources",
    "grain.transforms",
    "grain.python",
    "grain.python.experimental",
)
_SPECIAL_METHODS = ("__iter__", "__next__", "__len__", "__getitem__", "__call__")


def describe_all() -> dict[str, Any]:
    """Return every public name of every module, as ``{"module.name": description}``."""
    found: dict[str, Any] = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in sorted(n for n in dir(module) if not n.startswith("_")):
            thing = getattr(module, name)
            # Subpackages that are not listed are not public.
            if not isinstance(thing, types.ModuleType) or f"{module_name}.{name}" in MODULES:
                found[f"{module_name}.{name}"] = describe(thing)
    return found


def describe(thing: Any) -> dict[str, Any]:
    """Return the kind, the parameters and, for a class, the public methods."""
    if isinstance(thing, types.ModuleType):
        return {"kind": "module"}
    if get_origin(thing) is not None:
        return {"kind": "type"}
    if isinstance(thing, type) and issubclass(thing, enum.Enum):
        return {"kind": "enum", "members": {member.name: member.value for member in thing}}
    if isinstance(thing, type):
        return {
            "kind": "class",
            "parameters": parameters_of(thing),
            "methods": _methods_of(thing),
            "bases": bases_of(thing),
        }
    if callable(thing):
        return {"kind": "function", "parameters": parameters_of(thing)}
    return {"kind": "value"}


@functools.cache
def _public_classes() -> dict[type, str]:
    """Return the public classes, each with the first of its names."""
    found: dict[type, str] = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in sorted(n for n in dir(module) if not n.startswith("_")):
            thing = getattr(module, name, None)
            if isinstance(thing, type) and get_origin(thing) is None:
                found.setdefault(thing, f"{module_name}.{name}")
    return found


def bases_of(cls: type) -> list[str]:
    """Return the names of the public classes and builtins that a class is a subclass of."""
    names = _public_classes()
    ancestors = {base for base in cls.__mro__[1:] if base is not object}
    found = {names.get(base) or base.__name__ for base in ancestors if _is_public(base)}
    return sorted(found)


def _is_public(base: type) -> bool:
    return base in _public_classes() or base.__module__ == "builtins"


def _methods_of(cls: type) -> dict[str, Any]:
    methods: dict[str, Any] = {}
    for name in sorted(dir(cls)):
        if name.startswith("_") and name not in _SPECIAL_METHODS:
            continue
        member = inspect.getattr_static(cls, name)
        if isinstance(member, (staticmethod, classmethod)) or inspect.isfunction(member):
            methods[name] = parameters_of(getattr(cls, name))
        elif hasattr(member, "__get__") and not callable(member):
            methods[name] = "property"
    return methods


def parameters_of(function: Any) -> list[list[str]] | None:
    """Return ``[[name, kind, default], …]`` without self; None where Python has no signature."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return [
        [parameter.name, parameter.kind.name, _default_text(parameter.default)]
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]


def _default_text(default: Any) -> str:
    # A dataclass takes the property of a protocol it inherits from for a default; it is none.
    if default is inspect.Parameter.empty or isinstance(default, property):
        return "required"
    if isinstance(default, (types.FunctionType, type, types.MemberDescriptorType)):
        return "something"
    # A marker that wraps the default, as in dataclasses of options.
    if dataclasses.is_dataclass(default) and [f.name for f in dataclasses.fields(default)] == [
        "value"
    ]:
        return _default_text(default.value)
    return repr(default)
