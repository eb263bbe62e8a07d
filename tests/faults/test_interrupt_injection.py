"""Ctrl-C at any boundary: an iterator continues exactly, or is closed with a clear error.

A seeded sample of boundaries of pipelines read in the consumer's thread. `nox -s faults` interrupts every
boundary, also of pipelines read by threads and worker processes.
"""

from __future__ import annotations

import functools
import zlib

import pytest

from . import interrupts
from .history import Stream, record
from .pipelines import LOADERS, PIPELINES, build

pytestmark = [
    pytest.mark.skipif("not sys.platform.startswith('linux')", reason="counts handles in /proc"),
    # A filter that keeps little is nothing to warn about here.
    pytest.mark.filterwarnings("ignore"),
]


@functools.cache
def stream(name: str) -> Stream:
    return record(build(name, "inline"))


def check(name: str, mode: str, rounds: int) -> None:
    tally = interrupts.sample(
        lambda: build(name, mode),
        stream(name),
        zlib.crc32(f"{name} {mode}".encode()),
        rounds,
        label=f"{name} {mode}",
        prefetch=mode != "inline",
    )
    assert not tally.bad, "\n".join(tally.bad)
    assert tally.interrupts


@pytest.mark.parametrize("name", [*PIPELINES, *LOADERS])
def test_an_interrupted_iterator_continues_exactly(name: str) -> None:
    check(name, "inline", 8)


@pytest.mark.parametrize("mode", ["inline executor", "threads executor"])
@pytest.mark.parametrize("name", ["filter and batch", "user iterator", "interleave streams"])
def test_an_interrupted_session_continues_exactly(name: str, mode: str) -> None:
    check(name, mode, 8)
