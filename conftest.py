"""What holds for all tests: how hard property tests look, their names, and that Ctrl-C can be tested.

`HYPOTHESIS_PROFILE=thorough` is a long search.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Modules of tests that packages share: their failures shall show values, as those of test modules do.
pytest.register_assert_rewrite("tests.source_pipelines", "tests.source_plugin")

settings.register_profile(
    "quick", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuses names of tests that differ from process to process: tests run in several of them."""
    odd = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if odd:
        raise pytest.UsageError(f"Names of tests must not have addresses of objects: {odd}")


# A job in the background of a shell ignores Ctrl-C, and so would all the processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
