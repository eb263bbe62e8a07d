"""Seeded faults of the machine: the stream stays exact, or an error says why and the state resumes.

A few rounds here; `nox -s faults` runs hundreds.
"""

from __future__ import annotations

import pytest

from . import schedules

pytestmark = pytest.mark.skipif(
    "not sys.platform.startswith('linux')", reason="needs /proc and limits of processes"
)

# After an error below a batch or a mixture, the state is after elements that were not delivered.
KNOWN_DEFECTS = {
    "kill a worker",
    "full disk, tiny shared memory",
    "few descriptors",
    "transient error below a batch",
}


@pytest.mark.parametrize("kind", [kind for kind in schedules.KINDS if kind not in KNOWN_DEFECTS])
def test_faults_of_the_machine_lose_nothing(kind: str) -> None:
    report = schedules.run_apart(kind, 7, 5)
    assert not report.bad, "\n".join(report.bad)
    assert report.rounds == 5
    assert report.injected
