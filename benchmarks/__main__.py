"""Measure, and write the results.

    python -m benchmarks --python grain=PATH --python torch=PATH [--quick] [--publish]

`nox -s bench` creates the environments and runs this command.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import time
from collections.abc import Sequence

from benchmarks import cases, data, machine, page, peers, plots, publishing
from benchmarks.command import ROOT, names, select
from benchmarks.results import Results, read, to_json
from benchmarks.run import PeerProcess, Settings, run

FULL = Settings(
    seconds=0.3, repetitions=5, worker_repetitions=3, least_repetitions=2, case_seconds=20
)
QUICK = Settings(seconds=0.05, repetitions=2, worker_repetitions=1, case_seconds=4)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__.split("\n")[0])
    made.add_argument("--quick", action="store_true", help="fewer and shorter repetitions")
    made.add_argument("--cases", type=names, metavar="A,B", help="only these cases")
    made.add_argument("--peers", type=names, metavar="X,Y", help="only these peers")
    made.add_argument("--publish", action="store_true", help="write the page of the documentation")
    made.add_argument(
        "--render",
        type=pathlib.Path,
        metavar="JSON",
        help="measure nothing: report on these results",
    )
    made.add_argument("--output", type=pathlib.Path, default=ROOT / "build/bench", metavar="FOLDER")
    made.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PEER=PATH",
        help="the Python of a peer",
    )
    made.add_argument(
        "--absent",
        action="append",
        default=[],
        metavar="PEER=WHY",
        help="a peer that could not be installed",
    )
    return made


def measure(arguments: argparse.Namespace) -> Results:
    """Run the measurements that the command line selects."""
    pythons = dict(pair.split("=", 1) for pair in arguments.python)
    absent = dict(pair.split("=", 1) for pair in arguments.absent)
    wanted = select(arguments.cases, list(cases.BY_NAME), "case")
    selected = None if arguments.peers is None else [peers.OURS, *arguments.peers]
    measured = [
        name
        for name in select(selected, list(peers.BY_NAME), "peer")
        if name in pythons or name in absent
    ]
    settings = QUICK if arguments.quick else FULL
    found = machine.describe()
    files = data.make(arguments.output / "data")
    logs = arguments.output / "logs"
    logs.mkdir(exist_ok=True)

    def start(peer: str) -> PeerProcess:
        command = [pythons[peer], "-m", "benchmarks.serve", peer, str(files.folder)]
        return PeerProcess(command, logs / f"{peer}.txt")

    started = time.monotonic()
    outcomes, versions = run(
        [cases.BY_NAME[name] for name in wanted], measured, start, settings, absent
    )
    took = round(time.monotonic() - started)
    return Results(
        machine=found,
        settings={**dataclasses.asdict(settings), "quick": arguments.quick, "took": took},
        versions=versions,
        outcomes=tuple(outcomes),
    )


def main(command_line: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if this project failed at any case."""
    arguments = parser().parse_args(command_line)
    arguments.output.mkdir(parents=True, exist_ok=True)
    results = read(arguments.render) if arguments.render else measure(arguments)
    (arguments.output / "results.json").write_text(to_json(results))
    (arguments.output / "table.md").write_text(page.text_report(results))
    plots.draw(results, arguments.output)
    print(page.text_report(results))
    print(f"Took {results.settings['took']} s. Written to {arguments.output}.")
    if arguments.publish:
        publishing.RESULTS.write_text(to_json(results))
        publishing.publish_page()
    return int(any(o.peer == peers.OURS and o.failed is not None for o in results.outcomes))


if __name__ == "__main__":
    sys.exit(main())
