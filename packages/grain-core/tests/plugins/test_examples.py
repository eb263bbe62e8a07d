"""The examples in the docstrings of this room run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import grain.cli
import grain.plugins

MODULES = [
    module.name
    for package in (grain.plugins, grain.cli)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", ["grain.plugins", "grain.sources", *MODULES])
def test_docstring_examples_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    found = [
        test
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
        if test.examples
    ]
    assert len(found) >= 10
