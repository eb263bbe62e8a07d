"""End to end: a small JAX training step on the CPU, fed by this project and its peers in one run.

    python -m benchmarks.training --python grain=PATH --python torch=PATH [--steps 100] [--publish]

`nox -s training` creates the environments and runs this command.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Sequence

from benchmarks import machine, peers, publishing, training_report
from benchmarks.command import ROOT
from benchmarks.run import PeerProcess, Pool
from benchmarks.training_report import TrainingRun, line

PEERS = ("loop", "grain", "google-grain", "torch", "datasets")
WORKERS = (0, 2)


def measure(pool: Pool, wanted: Sequence[str], steps: int, repetitions: int) -> list[TrainingRun]:
    """Return the runs of all peers, interleaved."""
    found = []
    failed = pool.ready(wanted)
    for workers in WORKERS:
        answers: dict[str, list[dict[str, float]]] = {peer: [] for peer in wanted}
        reasons = dict(failed)
        for _ in range(repetitions):
            for peer in wanted:
                if peer in reasons:
                    continue
                answer = pool.ask(peer, workers=workers, steps=steps)
                if "value" in answer:
                    answers[peer].append(answer)
                else:
                    reasons[peer] = answer.get("lacks") or answer.get("error", str(answer))
                    if "error" in answer:
                        failed |= pool.ready([peer])
        for peer in wanted:
            run = TrainingRun(
                peer=peer,
                workers=workers,
                steps_per_second=tuple(steps / answer["value"] for answer in answers[peer]),
                waiting=tuple(answer["waiting"] / answer["value"] for answer in answers[peer]),
                failed=reasons.get(peer),
            )
            found.append(run)
            print(line(run), flush=True)
    return found


def main(command_line: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if this project failed."""
    parser = argparse.ArgumentParser(prog="nox -s training --", description=__doc__.split("\n")[0])
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH")
    parser.add_argument("--steps", type=int, default=100, help="steps of each repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--publish", action="store_true", help="write the page of the documentation"
    )
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build/bench")
    arguments = parser.parse_args(command_line)
    pythons = dict(pair.split("=", 1) for pair in arguments.python)
    # The limit: the step alone, with the same batch again and again.
    pythons.setdefault("loop", next(iter(pythons.values()), sys.executable))
    wanted = [peer for peer in PEERS if peer in pythons]
    logs = arguments.output / "logs"
    logs.mkdir(parents=True, exist_ok=True)

    def start(peer: str) -> PeerProcess:
        command = [pythons[peer], "-m", "benchmarks.train", peer]
        return PeerProcess(command, logs / f"train-{peer}.txt")

    pool = Pool(start, timeout=600)
    try:
        found = measure(pool, wanted, arguments.steps, arguments.repetitions)
    finally:
        pool.end()
    content = {"machine": machine.describe(), "runs": [dataclasses.asdict(run) for run in found]}
    text = json.dumps(content, indent=1) + "\n"
    (arguments.output / "training.json").write_text(text)
    if arguments.publish:
        training_report.RESULTS.write_text(text)
        publishing.publish_page()
    return int(any(run.peer == peers.OURS and run.failed is not None for run in found))


if __name__ == "__main__":
    sys.exit(main())
