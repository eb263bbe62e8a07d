"""Time limits of calls."""

from __future__ import annotations

import contextvars
import faulthandler
import subprocess
import sys
import threading

import pytest

from grain.testing.time_limit import TimeLimitError, call_with_limit, end_process_after


def test_an_exception_is_raised_in_the_calling_thread():
    def fail(argument):
        raise LookupError(argument)

    with pytest.raises(LookupError, match="here"):
        call_with_limit(fail, "here", 60)


def test_context_variables_are_visible_in_the_call():
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(1)
    seen = []
    call_with_limit(lambda _: seen.append(variable.get()), None, 60)
    assert seen == [1]


def test_a_call_that_hangs_raises_with_its_stack():
    def wait_for_ever(event):
        event.wait()

    event = threading.Event()
    with pytest.raises(TimeLimitError, match="in wait_for_ever"):
        call_with_limit(wait_for_ever, event, 0.05)
    event.set()


STUCK = """
import re
from grain.testing.time_limit import end_process_after

def backtrack():
    re.match("(a+)+$", "a" * 60 + "b")

with end_process_after(0.5):
    backtrack()
"""


def test_a_process_that_is_stuck_in_an_extension_module_ends_with_its_stack():
    done = subprocess.run(
        [sys.executable, "-c", STUCK], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "in backtrack" in done.stderr


def test_a_block_that_ends_in_time_ends_the_limit(monkeypatch):
    calls = []
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda *a, **k: calls.append("start"))
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: calls.append("end"))
    with pytest.raises(LookupError), end_process_after(60):
        raise LookupError
    assert calls == ["start", "end"]
