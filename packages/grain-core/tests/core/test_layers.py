"""Imports go downwards, lazy ones included: the linter's contract sees only import statements."""

from __future__ import annotations

import ast
import pathlib
import re
import tomllib
from collections.abc import Iterator

import pytest

import grain

PACKAGE = pathlib.Path(grain.__file__).parent
ROOT = pathlib.Path(__file__).parents[4]


def layers() -> list[list[str]]:
    """Return the modules of each layer, the top one first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    contract = next(c for c in settings["contracts"] if c.get("containers") == ["grain"])
    return [re.split(r" [|:] ", layer) for layer in contract["layers"]]


def heights() -> dict[str, int]:
    return {name: -depth for depth, layer in enumerate(layers()) for name in layer}


def modules_in_texts(source: str) -> Iterator[str]:
    """Yield the texts of a module that name a module of the core."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"^grain\.(\w+)(?:\.\w+)*$", node.value)


@pytest.mark.parametrize(
    "layer", ["dataset", "execution", "loader", "checkpoint", "memory", "index"]
)
def test_no_package_names_a_module_above_it(layer):
    height = heights()
    for file in (PACKAGE / layer).rglob("*.py"):
        above = [m for m in modules_in_texts(file.read_text()) if height.get(m, 0) > height[layer]]
        assert not above, f"{file} names {above}"


def test_no_single_module_names_a_module_above_it():
    height = heights()
    for file in PACKAGE.glob("[!_]*.py"):
        named = set(modules_in_texts(file.read_text())) - {file.stem}
        above = [m for m in named if height.get(m, 0) > height[file.stem]]
        assert not above, f"{file} names {above}"


def test_functions_import_nothing_of_the_library():
    inside: list[str] = []
    for file in PACKAGE.rglob("*.py"):
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for node in ast.walk(function):
                    names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                    inside += [f"{file}: {n}" for n in names if n.partition(".")[0] == "grain"]
    assert not inside
