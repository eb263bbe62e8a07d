"""A job on a machine that may be taken away: SIGTERM comes, it saves where it is, and goes on later.

The program plays both parts: it starts itself, sends SIGTERM, starts itself again, and compares what
the two processes read with what an undisturbed one reads.

Install: pip install ./packages/grain-core
Run:     python examples/resume_after_preemption.py
"""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
import tempfile

import numpy as np

import grain


def batches() -> grain.IterDataset[np.ndarray]:
    """Three epochs, each in an order of its own, in batches of 8."""
    return grain.MapDataset.range(100).seed(0).shuffle().repeat(3).batch(8).to_iter_dataset()


def work(checkpoint: pathlib.Path) -> None:
    """The job: prints the sum of each batch, until it is done or told to go."""
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))
    iterator = iter(batches())
    if checkpoint.exists():
        iterator.set_state(json.loads(checkpoint.read_text()))
    for batch in iterator:
        print(int(batch.sum()), flush=True)
        if sys.stdin.readline() == "":  # Stands for the work; the other part says when it is done.
            break
        if stop:
            checkpoint.write_text(json.dumps(iterator.get_state()))
            break


def run_job(checkpoint: pathlib.Path, preempt_after: int | None = None) -> list[int]:
    """Starts the job, takes what it prints, and sends SIGTERM after a number of batches."""
    command = [sys.executable, __file__, str(checkpoint)]
    sums = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            sums.append(int(line))
            if len(sums) == preempt_after:
                process.send_signal(signal.SIGTERM)
            process.stdin.write("done\n")
            process.stdin.flush()
    return sums


def main(checkpoint: pathlib.Path) -> None:
    """Preempts the job and lets it resume."""
    expected = [int(batch.sum()) for batch in batches()]
    before = run_job(checkpoint, preempt_after=17)
    print(f"preempted after {len(before)} batches; saved: {checkpoint.read_text()}")
    after = run_job(checkpoint)
    print(f"resumed for {len(after)} more, of {len(expected)} in all")
    print("the same as undisturbed:", before + after == expected)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(pathlib.Path(temporary) / "checkpoint.json")
