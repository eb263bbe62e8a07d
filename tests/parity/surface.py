"""Describes the public names of grain's modules in JSON: kind, parameters, defaults."""

from __future__ import annotations

import dataclasses
import enum
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
    """Every public name of every module, as ``{"module.name": description}``."""
    found: dict[str, Any] = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in sorted(n for n in dir(module) if not n.startswith("_")):
            thing = getattr(module, name)
            # Folders that merely lie inside the package are not part of what it offers.
            if not isinstance(thing, types.ModuleType) or f"{module_name}.{name}" in MODULES:
                found[f"{module_name}.{name}"] = describe(thing)
    return found


def describe(thing: Any) -> dict[str, Any]:
    """Kind, parameters and, for a class, public methods."""
    if isinstance(thing, types.ModuleType):
        return {"kind": "module"}
    if get_origin(thing) is not None:
        return {"kind": "type"}
    if isinstance(thing, type) and issubclass(thing, enum.Enum):
        return {"kind": "enum", "members": {member.name: member.value for member in thing}}
    if isinstance(thing, type):
        return {"kind": "class", "parameters": parameters_of(thing), "methods": _methods_of(thing)}
    if callable(thing):
        return {"kind": "function", "parameters": parameters_of(thing)}
    return {"kind": "value"}


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
    """``[[name, kind, default], …]`` without self; None where Python cannot say."""
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
    # A protocol's property, taken for a default by a dataclass below it, is no default.
    if default is inspect.Parameter.empty or isinstance(default, property):
        return "required"
    if isinstance(default, (types.FunctionType, type, types.MemberDescriptorType)):
        return "something"
    # A marker that wraps the default it stands for, as dataclasses of options use.
    if dataclasses.is_dataclass(default) and [f.name for f in dataclasses.fields(default)] == [
        "value"
    ]:
        return _default_text(default.value)
    return repr(default)
