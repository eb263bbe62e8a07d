"""The installed plugins of this repository pass their own conformance cases."""

from __future__ import annotations

import pytest

import grain.plugins
from grain.testing import run_plugin

NAMES = ("arrayrecord", "inmemory", "jsonl", "parquet", "tfds")


@pytest.mark.parametrize("name", NAMES)
def test_an_installed_plugin_passes_conformance(name):
    if name not in {plugin.name for plugin in grain.plugins.plugins()}:
        pytest.skip(f"grain-{name} is not installed")
    reports = run_plugin(name)
    assert len(reports) >= 2  # the metadata, and at least one case
    for report in reports:
        assert report.ok, report.table()
