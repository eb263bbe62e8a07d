"""What holds for all tests: how hard property tests look, and that Ctrl-C can be tested.

`HYPOTHESIS_PROFILE=thorough` is a long search.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# A module of tests that packages share: its failures shall show values, as those of test modules do.
pytest.register_assert_rewrite("tests.source_pipelines")

settings.register_profile(
    "quick", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# A job in the background of a shell ignores Ctrl-C, and so would all the processes that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
