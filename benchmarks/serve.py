"""A peer's process: measures the cases that it is sent, in lines of JSON.

    python -m benchmarks.serve PEER FOLDER

It writes `{"ready": ...}` with its versions, or `{"error": ...}`. A line `{"case": c, "seconds": s}` is
answered by `{"value": v}`, and a line `{"case": c, "outputs": n}` by `{"cost": {...}}`, the cost of one
element; either by `{"lacks": reason}` or `{"error": ...}` where there is no value.
"""

from __future__ import annotations

import dataclasses
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
from benchmarks.cost import Counter
from benchmarks.data import Data
from benchmarks.measure import Make, measure, measure_cost
from benchmarks.peers import Peer


def write_line(out: TextIO, **line: Any) -> None:
    """Write one line of JSON."""
    out.write(json.dumps(line) + "\n")
    out.flush()


def explain(error: BaseException) -> str:
    """Return an error as one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"[:300]


def private_stdout() -> TextIO:
    """Return the real standard output; everything else that is printed goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def answer(
    peer: Peer,
    made: Mapping[str, Make],
    lacks: Mapping[str, str],
    counter: Counter,
    request: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the answer to one request."""
    name = request["case"]
    case = cases.BY_NAME[name]
    if case.measure is not cases.Measure.IMPORT and (name in lacks or name not in made):
        return {"lacks": lacks.get(name, "has no counterpart")}
    make = made.get(name, tuple)
    if "outputs" in request:
        found = measure_cost(case, make, peer.imports, request["outputs"], counter)
        return {"cost": dataclasses.asdict(found)}
    return {"value": measure(case, make, peer.imports, request["seconds"])}


def serve(peer: Peer, data: Data, requests: TextIO, out: TextIO) -> None:
    """Answer requests until there are no more."""
    # Before the library starts threads, which would not be counted.
    counter = Counter()
    try:
        programs = peer.programs()
        made = programs.programs(data)
        versions = {name: metadata.version(name) for name in peer.distributions}
    except Exception as error:
        write_line(out, error=explain(error))
        return
    write_line(out, ready={"python": platform.python_version(), **versions})
    for line in requests:
        try:
            answered = answer(peer, made, programs.LACKS, counter, json.loads(line))
        except Exception as error:
            answered = {"error": explain(error)}
        write_line(out, **answered)


def main() -> None:
    """Run the command line of the module docstring."""
    peer, folder = sys.argv[1:]
    out = private_stdout()
    # Another descriptor, since worker processes inherit and close the standard one.
    requests = io.TextIOWrapper(os.fdopen(os.dup(0), "rb"), line_buffering=True)
    # Absolute, since a worker process may have another working directory.
    serve(peers.BY_NAME[peer], Data(pathlib.Path(folder).absolute()), requests, out)


if __name__ == "__main__":
    main()
