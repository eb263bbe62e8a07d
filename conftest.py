"""Settings of all tests: profiles of property tests, stable names, and a working Ctrl-C.

`HYPOTHESIS_PROFILE=thorough` searches longer.
"""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Test modules that packages share: their failures show values, as in other test modules.
pytest.register_assert_rewrite("tests.source_pipelines", "tests.source_plugin")

settings.register_profile(
    "quick", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(scope="module", autouse=True)
def collect_new_objects_only() -> None:
    """Leave what exists before a module out of garbage collections, which tests of leaks often request.

    Once JAX and others are imported, each collection would take a third of a second.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse test names that differ between processes, since tests run in several of them."""
    odd = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if odd:
        raise pytest.UsageError(f"Test names must not contain addresses of objects: {odd}")


# A background job of a shell ignores Ctrl-C, and so would all processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
