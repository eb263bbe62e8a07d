"""A job on a preemptible machine: on SIGTERM it saves its state, and it resumes later.

The program has two roles: it starts itself as the job, sends SIGTERM, starts the job again, and compares
what both processes read with an undisturbed run.

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
    """Return three epochs, each in another order, in batches of 8."""
    return grain.MapDataset.range(100).seed(0).shuffle().repeat(3).batch(8).to_iter_dataset()


def work(checkpoint: pathlib.Path) -> None:
    """Print the sum of each batch until the end or SIGTERM."""
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))
    iterator = iter(batches())
    if checkpoint.exists():
        iterator.set_state(json.loads(checkpoint.read_text()))
    for batch in iterator:
        print(int(batch.sum()), flush=True)
        if sys.stdin.readline() == "":  # In place of work; the parent says when it is done.
            break
        if stop:
            checkpoint.write_text(json.dumps(iterator.get_state()))
            break


def run_job(checkpoint: pathlib.Path, preempt_after: int | None = None) -> list[int]:
    """Start the job, read its output, and send SIGTERM after a number of batches."""
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
    """Preempt the job and let it resume."""
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
