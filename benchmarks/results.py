"""What a run found: plain values that become JSON and come back from it."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

FORMAT = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one peer made of one case.

    Attributes:
        case: The case's name.
        peer: The peer's name.
        values: What was measured, one value for each repetition; empty if it failed or was lacking.
        failed: What went wrong, or None.
        lacks: Why the peer has no such thing, or None.
    """

    case: str
    peer: str
    values: tuple[float, ...] = ()
    failed: str | None = None
    lacks: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """A whole run.

    Attributes:
        machine: What it ran on, in words.
        settings: How long and how often it measured.
        versions: Of each peer's distributions and Python, by the peer's name.
        outcomes: In the order in which they were measured.
    """

    machine: dict[str, str]
    settings: dict[str, Any]
    versions: dict[str, dict[str, str]]
    outcomes: tuple[Outcome, ...]

    def find(self, case: str, peer: str) -> Outcome | None:
        """The outcome of one peer in one case, if it was asked."""
        for outcome in self.outcomes:
            if (outcome.case, outcome.peer) == (case, peer):
                return outcome
        return None

    def peers(self) -> list[str]:
        """Who took part, in order."""
        return list(dict.fromkeys(outcome.peer for outcome in self.outcomes))

    def cases(self) -> list[str]:
        """What was measured, in order."""
        return list(dict.fromkeys(outcome.case for outcome in self.outcomes))


def to_json(results: Results) -> str:
    """Text that a person can read and a version control system can compare."""
    content: dict[str, Any] = {"format": FORMAT, **dataclasses.asdict(results)}
    content["outcomes"] = [
        {name: value for name, value in outcome.items() if value not in (None, ())}
        for outcome in content["outcomes"]
    ]
    return json.dumps(content, indent=1) + "\n"


def from_json(text: str) -> Results:
    """What `to_json` wrote."""
    content = json.loads(text)
    if content.get("format") != FORMAT:
        raise ValueError(
            f"These are results of format {content.get('format')!r}, expected {FORMAT}: "
            "measure again with `nox -s bench`."
        )
    outcomes = [
        Outcome(**{**outcome, "values": tuple(outcome.get("values", ()))})
        for outcome in content["outcomes"]
    ]
    return Results(
        machine=content["machine"],
        settings=content["settings"],
        versions=content["versions"],
        outcomes=tuple(outcomes),
    )


def read(path: pathlib.Path) -> Results:
    """Results from a file."""
    return from_json(path.read_text())
