"""For pytest: `--grain-conformance NAME` adds the checks of an installed plugin to the tests.

pytest imports this module always, so it imports nothing of grain until the option is used.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest


def pytest_addoption(parser: Any) -> None:
    """Adds the option."""
    parser.getgroup("grain").addoption(
        "--grain-conformance",
        action="append",
        default=[],
        metavar="NAME",
        help="also check the installed grain plugin NAME against its contract; may be repeated",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: Any, config: Any, items: list[Any]) -> None:
    """Adds a test for each check of each case that the plugin supplies."""
    for name in config.getoption("--grain-conformance"):
        testing = importlib.import_module("grain.testing")
        for bound in testing.bound_checks(testing.cases_of(name)):
            items.append(ConformanceItem.from_parent(session, name=f"{name}::{bound}", bound=bound))


class ConformanceItem(pytest.Item):
    """One check of one case."""

    def __init__(self, *, bound: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._bound = bound

    def runtest(self) -> None:
        """Runs the check."""
        self._bound()

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Where it comes from: the plugin, not a file."""
        return "grain conformance", None, self.name
