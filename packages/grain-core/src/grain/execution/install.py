"""Tells datasets, which know neither threads nor processes, who computes for them."""

from __future__ import annotations

import importlib
from typing import Any

from grain.dataset.context import install_process_prefetcher, install_reader_maker
from grain.dataset.interleave.openings import install_ahead
from grain.execution.threads import ThreadReaders


def install() -> None:
    """Called once, when the library is imported."""
    install_reader_maker(ThreadReaders())
    install_process_prefetcher(_find_prefetcher)
    install_ahead(_find_ahead)


def _find_prefetcher() -> Any:
    # Most programs that import the library never start a process.
    return importlib.import_module("grain.execution.prefetch").prefetcher()


def _find_ahead() -> Any:
    # Nor are most datasets read by turns.
    return importlib.import_module("grain.execution.opening").ThreadsAhead()
