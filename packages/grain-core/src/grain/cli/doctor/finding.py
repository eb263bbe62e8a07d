"""What a check of `grain doctor` found: something in order, something to know, or something wrong."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.StrEnum):
    """How much a finding matters."""

    OK = "ok"
    """In order, or simply a fact."""

    NOTE = "note"
    """Works, and may be slower or smaller than the user thinks."""

    PROBLEM = "problem"
    """Does not work; the exit code says so."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report.

    Attributes:
        name: What was looked at.
        detail: What was found.
        level: How much it matters.
        advice: What to do, where there is something.
    """

    name: str
    detail: str
    level: Level = Level.OK
    advice: str = ""
