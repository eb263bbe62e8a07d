"""Lazy imports: names and modules that are imported on first use."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from grain._lazy import LazyModule

INIT = """
from grain._lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__, {__name__ + ".low": ["number", "number as alias"]}, submodules=SUBMODULES
)
"""
COUNT = "lazy_package_loads"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Returns a function that writes and imports a package with lazy names."""
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "lazy_package"
    folder.mkdir()

    def make(submodules: str) -> ModuleType:
        (folder / "__init__.py").write_text(INIT.replace("SUBMODULES", submodules))
        (folder / "low.py").write_text(f"import sys\nsys.{COUNT} += 1\nnumber = 7\n")
        (folder / "other.py").write_text("word = 'other'\n")
        (folder / "broken.py").write_text("import no_such_dependency\n")
        return importlib.import_module("lazy_package")

    monkeypatch.setattr(sys, COUNT, 0, raising=False)
    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazy_package"]:
        del sys.modules[name]


def test_a_name_is_imported_on_first_use_and_then_kept(package):
    made = package("()")
    assert getattr(sys, COUNT) == 0
    assert made.number == made.alias == made.number == 7
    assert getattr(sys, COUNT) == 1
    assert {"number", "alias"} <= set(vars(made))


def test_names_are_listed_before_they_are_imported(package):
    made = package("['other']")
    assert {"number", "alias", "other"} <= set(dir(made))
    assert getattr(sys, COUNT) == 0


@pytest.mark.parametrize("submodules", ["['other', 'broken', 'gone']", "None"])
def test_submodules_are_attributes_and_their_failures_are_not_hidden(package, submodules):
    made = package(submodules)
    assert made.other.word == "other"
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        made.broken  # noqa: B018
    assert not hasattr(made, "gone")


def test_an_unlisted_submodule_is_not_an_attribute(package):
    made = package("()")
    assert not hasattr(made, "other")
    assert importlib.import_module("lazy_package.other").word == "other"


def test_an_unknown_name_is_an_attribute_error_with_the_module_and_the_name(package):
    made = package("()")
    with pytest.raises(
        AttributeError, match="module 'lazy_package' has no attribute 'numbr'"
    ) as caught:
        made.numbr  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("numbr", made)


def test_a_lazy_module_is_imported_when_an_attribute_is_read(package):
    package("()")
    low = LazyModule("lazy_package.low")
    assert getattr(sys, COUNT) == 0
    assert (low.number, low.number) == (7, 7)
    assert getattr(sys, COUNT) == 1
