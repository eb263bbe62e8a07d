"""Golden streams: what each release gives for the table of pipelines, kept and checked for ever.

    python -m tests.faults.golden

writes the file of this release, once; it is never written again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import grain

from .history import Stream, record
from .pipelines import LOADERS, PIPELINES, build

FOLDER = Path(__file__).parent / "golden_streams"


def releases() -> list[Path]:
    """Return the files of all releases."""
    return sorted(FOLDER.glob("*.json"))


def load(release: Path) -> dict[str, Stream]:
    """Read the streams of one release."""
    return {name: Stream(**fields) for name, fields in json.loads(release.read_text()).items()}


def write() -> Path:
    """Write the streams of this release."""
    path = FOLDER / f"{grain.__version__}.json"
    if path.exists():
        raise SystemExit(f"{path} exists: what a release gave is not written a second time.")
    streams = {name: record(build(name, "inline")) for name in [*PIPELINES, *LOADERS]}
    lines = [
        f"{json.dumps(name)}: {json.dumps(vars(streams[name]), sort_keys=True)}"
        for name in sorted(streams)
    ]
    FOLDER.mkdir(exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return path


if __name__ == "__main__":
    print(write(), file=sys.stdout)
