"""Findings of `grain doctor`, with their levels."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.StrEnum):
    """Severity of a finding."""

    OK = "ok"
    """A fact, or a check that passed."""

    NOTE = "note"
    """Works, but may be slower or smaller than expected."""

    PROBLEM = "problem"
    """Does not work; the exit code is 1."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report.

    Attributes:
        name: The subject of the check.
        detail: The result.
        level: The severity.
        advice: What to do about it, if anything.
    """

    name: str
    detail: str
    level: Level = Level.OK
    advice: str = ""
