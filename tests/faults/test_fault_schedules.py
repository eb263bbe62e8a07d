"""Seeded faults of the machine: the stream stays exact, or an error says why and the state resumes.

A few rounds here; `nox -s faults` runs hundreds.
"""

from __future__ import annotations

import pytest

from . import schedules

pytestmark = pytest.mark.skipif(
    "not sys.platform.startswith('linux')", reason="needs /proc and limits of processes"
)


@pytest.mark.parametrize("kind", schedules.KINDS)
def test_faults_of_the_machine_lose_nothing(kind: str) -> None:
    report = schedules.run_apart(kind, 7, 5)
    assert not report.bad, "\n".join(report.bad)
    assert report.rounds == 5
    assert report.injected
