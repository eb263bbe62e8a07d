"""A peer's process: measures whatever case it is asked for, in lines of JSON.

    python -m benchmarks.serve PEER FOLDER

It says `{"ready": ...}` with its versions, or `{"error": ...}`; each line `{"case": c, "seconds": s}` is
then answered with `{"value": v}`, `{"lacks": reason}` or `{"error": ...}`.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import platform
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Any, TextIO

from benchmarks import cases, peers
from benchmarks.data import Data
from benchmarks.measure import Make, measure
from benchmarks.peers import Peer


def say(out: TextIO, **line: Any) -> None:
    """One line of JSON."""
    out.write(json.dumps(line) + "\n")
    out.flush()


def explain(error: BaseException) -> str:
    """An error in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]


def private_stdout() -> TextIO:
    """The real standard output; whatever else is printed goes to standard error from now on."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def answer(
    peer: Peer, made: Mapping[str, Make], lacks: Mapping[str, str], name: str, seconds: float
) -> dict[str, Any]:
    """What is said to one question."""
    case = cases.BY_NAME[name]
    if case.measure is cases.Measure.IMPORT:
        return {"value": measure(case, tuple, peer.imports, seconds)}
    if name in lacks or name not in made:
        return {"lacks": lacks.get(name, "has no such thing")}
    return {"value": measure(case, made[name], peer.imports, seconds)}


def serve(peer: Peer, data: Data, asked: TextIO, out: TextIO) -> None:
    """Answers until nothing more is asked."""
    try:
        programs = peer.programs()
        made = programs.programs(data)
        versions = {name: metadata.version(name) for name in peer.distributions}
    except Exception as error:
        say(out, error=explain(error))
        return
    say(out, ready={"python": platform.python_version(), **versions})
    for line in asked:
        question = json.loads(line)
        try:
            said = answer(peer, made, programs.LACKS, question["case"], question["seconds"])
        except Exception as error:
            said = {"error": explain(error)}
        say(out, **said)


def main() -> None:
    """As the module's docstring says."""
    peer, folder = sys.argv[1:]
    out = private_stdout()
    # Another descriptor, since worker processes inherit and close the standard one.
    asked = io.TextIOWrapper(os.fdopen(os.dup(0), "rb"), line_buffering=True)
    # Absolute, since a worker process may be started elsewhere.
    serve(peers.BY_NAME[peer], Data(pathlib.Path(folder).absolute()), asked, out)


if __name__ == "__main__":
    main()
