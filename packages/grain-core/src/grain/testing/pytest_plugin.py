"""pytest plugin: `--grain-conformance NAME` adds the checks of an installed grain plugin.

pytest imports this module in every session, so the kit is imported only when the option is used.
"""

from __future__ import annotations

from typing import Any

import pytest

from grain._lazy import LazyModule

_testing = LazyModule("grain.testing")


def pytest_addoption(parser: Any) -> None:
    """Add the option."""
    parser.getgroup("grain").addoption(
        "--grain-conformance",
        action="append",
        default=[],
        metavar="NAME",
        help="also run the conformance checks of the installed grain plugin NAME; repeatable",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: Any, config: Any, items: list[Any]) -> None:
    """Add a test for each check of each case of the plugin."""
    for name in config.getoption("--grain-conformance"):
        for bound in _testing.bound_checks(_testing.cases_of(name)):
            items.append(ConformanceItem.from_parent(session, name=f"{name}::{bound}", bound=bound))


class ConformanceItem(pytest.Item):
    """Test item for one check of one case."""

    def __init__(self, *, bound: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._bound = bound

    def runtest(self) -> None:
        """Run the check."""
        self._bound()

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return the location: the plugin, since there is no file."""
        return "grain conformance", None, self.name
