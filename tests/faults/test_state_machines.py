"""Random sequences of calls, kills and interrupts give what a list and a position would give.

Short here; `nox -s faults` runs thousands of examples.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from .machines import HostsMachine, IteratorMachine

pytestmark = [
    pytest.mark.skipif("not sys.platform.startswith('linux')", reason="finds workers in /proc"),
    # A filter that keeps little is nothing to warn about here.
    pytest.mark.filterwarnings("ignore"),
]

SHORT = settings(
    max_examples=15,
    stateful_step_count=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("machine", [IteratorMachine, HostsMachine])
def test_any_sequence_of_calls_and_faults_follows_the_model(machine: type) -> None:
    run_state_machine_as_test(machine, settings=SHORT)
