"""Time limits of calls."""

from __future__ import annotations

import contextvars
import threading

import pytest

from grain.testing.time_limit import TimeLimitError, call_with_limit


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
