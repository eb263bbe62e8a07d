"""The plugins of this repository that are installed keep the contract, by their own cases."""

from __future__ import annotations

import pytest

import grain.plugins
from grain.testing import run_plugin

NAMES = ("arrayrecord", "inmemory", "jsonl", "parquet", "tfds")


@pytest.mark.parametrize("name", NAMES)
def test_an_installed_plugin_keeps_the_contract(name):
    if name not in {plugin.name for plugin in grain.plugins.plugins()}:
        pytest.skip(f"grain-{name} is not installed")
    reports = run_plugin(name)
    assert len(reports) >= 2  # its description of itself, and a case at least
    for report in reports:
        assert report.ok, report.table()
