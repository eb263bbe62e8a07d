"""Write the golden file: `python record.py`, with the version whose checkpoints are to be kept."""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import table  # noqa: E402


def record(name: str) -> dict[str, Any]:
    """Return the states of a pipeline by step, its fingerprint and its elements."""
    iterator = iter(table.make(name))
    elements: list[Any] = []
    states: dict[int, Any] = {}
    for step in itertools.count():
        if step in table.STEPS:
            states[step] = iterator.state_dict()
        if step == table.LENGTH:
            break
        try:
            elements.append(table.as_json(next(iterator)))
        except StopIteration:
            states[step] = iterator.state_dict()
            break
    iterator.close()
    fingerprints = [saved["pipeline"] for saved in states.values()]
    assert all(lines == fingerprints[0] for lines in fingerprints), name
    return {
        "fingerprint": fingerprints[0],
        "states": {str(step): saved["state"] for step, saved in states.items()},
        "elements": elements,
    }


def main() -> None:
    """Record every pipeline, one line each."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        recorded = {name: record(name) for name in table.NAMES}
    rows = [
        f"{json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}"
        for name, row in recorded.items()
    ]
    (FOLDER / "golden.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
