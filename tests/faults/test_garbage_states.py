"""Garbage states are refused, and the iterator continues where it was; nothing hangs."""

from __future__ import annotations

import pytest

from . import garbage

pytestmark = [
    pytest.mark.skipif("not sys.platform.startswith('linux')", reason="needs timers and signals"),
    # A filter that keeps little is nothing to warn about here.
    pytest.mark.filterwarnings("ignore"),
]


def test_garbage_states_are_refused_or_harmless() -> None:
    report = garbage.run(7, 500)
    assert not report.bad, "\n".join(report.bad)
    assert report.refused > 300


def test_garbage_states_of_nested_datasets_are_refused_or_can_be_read_from() -> None:
    report = garbage.run(11, 600, [*garbage.NESTED])
    assert not report.bad, "\n".join(report.bad)
    assert report.refused > 300
