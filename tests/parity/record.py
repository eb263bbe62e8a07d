"""Recording of the installed grain's behaviour for every fact, and of its public names.

Run with a Python that has the reference installed, from the project's root:

    python -m tests.parity.record              writes tests/parity/data
    python -m tests.parity.record nones        the same for the facts of some areas only
    python -m tests.parity.record --compare    writes nothing, prints the differences

The data is compact JSON, one fact per line, so that a new recording is easy to review. It was recorded
from grain 0.2.18 with jax installed: without jax the reference flattens trees by another rule, so that
named components of a mix keep their given order instead of being sorted, and a None inside an element
is stacked as a leaf. Compared with its own data the reference differs on the facts of `LOST_IN_JSON`,
whose states do not survive JSON there; this is expected.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import cases
from .compare import compare
from .observe import observe
from .registry import FACTS
from .surface import describe_all

# Facts whose states the reference does not restore after a round trip through JSON; it agrees with
# the recording in everything else.
LOST_IN_JSON = (
    "pack_concat",
    "pack_concat_with_bos",
    "pack_concat_with_full_length_unsplit",
    "pack_concat_with_meta_feature",
    "pack_concat_with_short_target",
)

DATA = Path(__file__).parent / "data"
FACTS_FOLDER = DATA / "reference_0_2_18"
SURFACE_FILE = DATA / "public_names_0_2_18.json"


def load_recorded() -> dict[str, Any]:
    """Return all recorded facts by name."""
    recorded: dict[str, Any] = {}
    for file in sorted(FACTS_FOLDER.glob("*.json")):
        recorded.update(json.loads(file.read_text()))
    return recorded


def write_lines(file: Path, entries: dict[str, Any]) -> None:
    """Write one entry per line: compact, and a change is a one-line diff."""
    lines = (
        f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}"
        for k, v in sorted(entries.items())
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def record(areas: Sequence[str]) -> int:
    """Observe the facts of `areas`, or all, and write data files; return how many facts failed."""
    failures = 0
    for area in areas or cases.__all__:
        entries = {}
        for fact in (fact for fact in FACTS.values() if fact.area == area):
            try:
                entries[fact.name] = observe(fact)
            except Exception as failure:
                failures += 1
                print(f"{fact.name} cannot be recorded: {type(failure).__name__}: {failure}")
        write_lines(FACTS_FOLDER / f"{area}.json", entries)
        print(f"{area}: {len(entries)} facts")
    if not areas:
        write_lines(SURFACE_FILE, describe_all())
    return failures


def report() -> int:
    """Print each fact on which the installed grain differs; return how many are unexpected."""
    recorded = load_recorded()
    disagreements = unexpected = 0
    for fact in FACTS.values():
        try:
            problems = compare(fact, recorded[fact.name])
        except Exception as failure:
            problems = [f"{type(failure).__name__}: {failure}"]
        expected = fact.name in LOST_IN_JSON
        if expected and not problems:
            unexpected += 1
            print(f"{fact.name}  agrees, although it is listed as a fact that does not.")
        elif problems:
            disagreements += 1
            unexpected += not (expected and all("after restoring" in text for text in problems))
            print(f"{fact.name}{' (expected)' if expected else ''}", *problems, sep="\n    ")
    print(
        f"{len(FACTS) - disagreements} of {len(FACTS)} agree; {unexpected} differ from what is expected"
    )
    return unexpected


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--compare", action="store_true", help="compare with the data instead of writing it"
    )
    parser.add_argument("areas", nargs="*", choices=[*cases.__all__, []], help="areas to record")
    arguments = parser.parse_args()
    sys.exit(1 if (report() if arguments.compare else record(arguments.areas)) else 0)
