"""Checks of resources: a thread that ends soon is no leak, one that stays is."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from grain.testing import Case, Outcome

from .cases import result_of

CHECKS = ["check_no_leak_per_read", "check_no_leak_per_instance"]


class Numbers:
    """A source whose reads start a thread each."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < 3:
            raise IndexError(index)
        self.start_thread()
        return index

    def start_thread(self) -> None:
        """Start a thread that ends by itself, later than the read."""
        timer = threading.Timer(0.1, int)
        timer.daemon = True
        timer.start()


class Endless(Numbers):
    """Starts threads that end with the test."""

    end = threading.Event()

    def start_thread(self) -> None:
        threading.Thread(target=self.end.wait, daemon=True).start()


@pytest.fixture
def _threads_end() -> Any:
    Endless.end.clear()
    yield
    Endless.end.set()


@pytest.mark.parametrize("name", CHECKS)
def test_threads_that_end_soon_are_no_leak(name):
    found = result_of(Case(name="numbers", make=Numbers), name)
    assert found.outcome is Outcome.PASSED, found


@pytest.mark.usefixtures("_threads_end")
@pytest.mark.parametrize("name", CHECKS)
def test_threads_that_stay_are_a_leak(name):
    found = result_of(Case(name="endless", make=Endless, check_timeout=10.0), name)
    assert found.outcome is Outcome.FAILED
    assert "the number of threads grew" in found.reason


class Relaying(Endless):
    """Starts threads that stay while as many threads of others end."""

    others: list[tuple[threading.Thread, threading.Event]]

    def start_thread(self) -> None:
        super().start_thread()
        if self.others:
            thread, end = self.others.pop()
            end.set()
            thread.join()


@pytest.mark.usefixtures("_threads_end")
@pytest.mark.parametrize("name", CHECKS)
def test_threads_of_others_that_end_meanwhile_hide_no_leak(name, monkeypatch):
    others = []
    for _ in range(30):
        end = threading.Event()
        others.append((threading.Thread(target=end.wait, daemon=True), end))
        others[-1][0].start()
    monkeypatch.setattr(Relaying, "others", others, raising=False)
    found = result_of(Case(name="relaying", make=Relaying, check_timeout=10.0), name)
    for _, end in others:
        end.set()
    assert found.outcome is Outcome.FAILED
    assert "the number of threads grew" in found.reason
