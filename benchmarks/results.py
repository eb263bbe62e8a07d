"""Results of a run, as plain values with a JSON form."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

FORMAT = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one case with one peer.

    Attributes:
        case: The case's name.
        peer: The peer's name.
        values: One value for each repetition; empty without a measurement.
        failed: The error, or None.
        lacks: Why the peer has no counterpart, or None.
    """

    case: str
    peer: str
    values: tuple[float, ...] = ()
    failed: str | None = None
    lacks: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Results:
    """The results of a whole run.

    Attributes:
        machine: Properties of the machine, by name.
        settings: How long and how often values were measured.
        versions: Versions of distributions and Python, by peer.
        outcomes: All outcomes, in the order of measurement.
    """

    machine: dict[str, str]
    settings: dict[str, Any]
    versions: dict[str, dict[str, str]]
    outcomes: tuple[Outcome, ...]

    def find(self, case: str, peer: str) -> Outcome | None:
        """Return the outcome of one peer in one case, or None."""
        for outcome in self.outcomes:
            if (outcome.case, outcome.peer) == (case, peer):
                return outcome
        return None

    def peers(self) -> list[str]:
        """Return the names of the peers, in order."""
        return list(dict.fromkeys(outcome.peer for outcome in self.outcomes))

    def cases(self) -> list[str]:
        """Return the names of the cases, in order."""
        return list(dict.fromkeys(outcome.case for outcome in self.outcomes))


def to_json(results: Results) -> str:
    """Return results as indented JSON."""
    content: dict[str, Any] = {"format": FORMAT, **dataclasses.asdict(results)}
    content["outcomes"] = [
        {name: value for name, value in outcome.items() if value not in (None, ())}
        for outcome in content["outcomes"]
    ]
    return json.dumps(content, indent=1) + "\n"


def from_json(text: str) -> Results:
    """Return the results that `to_json` wrote."""
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
    """Read results from a file."""
    return from_json(path.read_text())
