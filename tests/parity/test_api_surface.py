"""Every public name of the reference exists, and takes the same arguments in the same order."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import json
from typing import Any

import pytest

from .record import SURFACE_FILE
from .surface import describe

REFERENCE: dict[str, dict[str, Any]] = json.loads(SURFACE_FILE.read_text())

# Names of the reference that do not exist yet; remove a name when it is added.
NOT_YET: frozenset[str] = frozenset()

# Accidental public names of the reference, and why they do not exist here.
NOT_OFFERED = {
    "grain.python.BatchOperation:disable_deprecation_message": "there is no message to disable",
    "grain.python.InMemoryDataSource:format": "an accident of inheriting a ShareableList",
    "grain.sources.SharedMemoryDataSource:format": "an accident of inheriting a ShareableList",
}

# Names that plugins provide, and the module that each requires.
FROM_PLUGINS = {
    "ArrayRecordDataSource": "grain_arrayrecord",
    "InMemoryDataSource": "grain_inmemory",
    "SharedMemoryDataSource": "grain_inmemory",
    "ParquetIterDataset": "grain_parquet",
    "CheckpointSave": "orbax.checkpoint",
    "CheckpointRestore": "orbax.checkpoint",
    "PyGrainCheckpointSave": "orbax.checkpoint",
    "PyGrainCheckpointRestore": "orbax.checkpoint",
}

_POSITIONAL = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")
_VARIADIC = ("VAR_POSITIONAL", "VAR_KEYWORD")


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _find(path: str) -> Any:
    """Return the object at `path`, or None; skip the test if its plugin is not installed."""
    module, _, name = path.rpartition(".")
    needed = FROM_PLUGINS.get(name)
    if needed and not _is_installed(needed):
        pytest.skip(f"{path} comes with {needed}, which is not installed")
    return getattr(importlib.import_module(module), name, None)


def incompatibilities(reference: list[list[str]] | None, ours: list[list[str]] | None) -> list[str]:
    """Return the reasons why a call that the reference's parameters allow fails with ours."""
    if reference is None or ours is None:
        return []
    if [kind for _, kind, _ in reference] == list(_VARIADIC):
        # A protocol: its subclasses define the parameters.
        return []
    problems = []
    positional = [p for p in reference if p[1] in _POSITIONAL]
    our_positional = [p for p in ours if p[1] in _POSITIONAL]
    for index, (name, kind, default) in enumerate(positional):
        if index >= len(our_positional):
            problems.append(f"{name!r} cannot be given by position")
        elif kind == "POSITIONAL_OR_KEYWORD" and our_positional[index][:2] != [name, kind]:
            problems.append(f"argument {index} is {our_positional[index]}, expected {name!r}")
        elif default not in ("required", our_positional[index][2]):
            problems.append(f"{name!r} defaults to {our_positional[index][2]}, expected {default}")
    by_name = {name: (kind, default) for name, kind, default in ours}
    for name, kind, default in reference:
        if kind in _VARIADIC and kind not in [k for _, k, _ in ours]:
            problems.append(f"takes no {kind.lower()}")
        if kind != "KEYWORD_ONLY":
            continue
        if name not in by_name or by_name[name][0] == "POSITIONAL_ONLY":
            problems.append(f"{name!r} cannot be given by name")
        elif default not in ("required", by_name[name][1]):
            problems.append(f"{name!r} defaults to {by_name[name][1]}, expected {default}")
    known = {name for name, _, _ in reference}
    for index, (name, kind, default) in enumerate(ours):
        renamed = index < len(positional) and positional[index][1] == "POSITIONAL_ONLY"
        if name not in known and default == "required" and kind not in _VARIADIC and not renamed:
            problems.append(f"{name!r} is required and unknown to the reference")
    return problems


@pytest.mark.parametrize("path", sorted(REFERENCE))
def test_name_exists_and_takes_the_same_arguments(path: str) -> None:
    thing = _find(path)
    if path in NOT_YET:
        assert thing is None, f"{path} exists now; remove it from NOT_YET"
        pytest.skip(f"{path} does not exist yet")
    assert thing is not None, f"{path} is missing"
    expected, found = REFERENCE[path], describe(thing)
    assert found["kind"] == expected["kind"]
    if expected["kind"] == "enum":
        assert found["members"].items() >= expected["members"].items()
    assert not incompatibilities(expected.get("parameters"), found.get("parameters"))


def _base(name: str) -> Any:
    return _find(name) if "." in name else getattr(builtins, name)


@pytest.mark.parametrize(
    "path", sorted(name for name in REFERENCE if REFERENCE[name].get("bases", []))
)
def test_class_is_a_subclass_of_the_same_public_classes(path: str) -> None:
    cls = _find(path)
    missing = [name for name in REFERENCE[path]["bases"] if _base(name) not in cls.__mro__]
    assert missing == []


@pytest.mark.parametrize(
    "path",
    sorted(
        f"{name}:{method}" for name in REFERENCE for method in REFERENCE[name].get("methods", ())
    ),
)
def test_method_exists_and_takes_the_same_arguments(path: str) -> None:
    class_path, _, method = path.partition(":")
    cls = _find(class_path)
    if class_path in NOT_YET:
        pytest.skip(f"{class_path} does not exist yet")
    if path in NOT_YET or path in NOT_OFFERED:
        assert not hasattr(cls, method), f"{path} exists now; remove it from the table"
        pytest.skip(NOT_OFFERED.get(path, f"{path} does not exist yet"))
    assert hasattr(cls, method), f"{path} is missing"
    expected = REFERENCE[class_path]["methods"][method]
    found = describe(cls)["methods"].get(method, "property")
    if expected == "property" or found == "property":
        assert found == expected
        return
    if method.startswith("__"):
        # Python calls these by position, so the names of their arguments do not matter.
        expected = [[name, "POSITIONAL_ONLY", default] for name, _, default in expected]
    assert not incompatibilities(expected, found)


def test_excluded_names_are_names_of_the_reference() -> None:
    for path in {*NOT_YET, *NOT_OFFERED}:
        class_path, _, method = path.partition(":")
        assert class_path in REFERENCE
        assert not method or method in REFERENCE[class_path]["methods"]


_BASE = [["a", "POSITIONAL_OR_KEYWORD", "required"], ["b", "POSITIONAL_OR_KEYWORD", "1"]]
_KEYWORD = [["k", "KEYWORD_ONLY", "None"]]


@pytest.mark.parametrize(
    "ours",
    [
        _BASE + _KEYWORD,
        [*_BASE, ["k", "POSITIONAL_OR_KEYWORD", "None"]],
        [["a", "POSITIONAL_OR_KEYWORD", "0"], *_BASE[1:], *_KEYWORD],
        [*_BASE, ["more", "POSITIONAL_OR_KEYWORD", "0"], *_KEYWORD],
        _BASE + _KEYWORD + [["more", "KEYWORD_ONLY", "0"], ["rest", "VAR_KEYWORD", "required"]],
    ],
)
def test_parameters_that_take_every_call_are_compatible(ours: list[list[str]]) -> None:
    assert incompatibilities(_BASE + _KEYWORD, ours) == []


@pytest.mark.parametrize(
    "ours",
    [
        _BASE,
        _KEYWORD,
        _BASE[::-1] + _KEYWORD,
        [*_BASE[:1], ["b", "KEYWORD_ONLY", "1"], *_KEYWORD],
        [*_BASE[:1], ["b", "POSITIONAL_OR_KEYWORD", "2"], *_KEYWORD],
        [*_BASE, ["k", "KEYWORD_ONLY", "0"]],
        [*_BASE, *_KEYWORD, ["more", "KEYWORD_ONLY", "required"]],
        [["x", "POSITIONAL_OR_KEYWORD", "required"], *_BASE[1:], *_KEYWORD],
    ],
)
def test_parameters_that_refuse_a_call_are_incompatible(ours: list[list[str]]) -> None:
    assert incompatibilities(_BASE + _KEYWORD, ours)
