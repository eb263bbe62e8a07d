"""Kill the training example at random steps, let it resume, and compare it with an undisturbed run.

Usage: python tools/kill_and_resume.py [--points 20] [--seed 0]

Exits with 1 if a loss, or a bit of a parameter, differs from the undisturbed run.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np

PROGRAM = pathlib.Path(__file__).parent.parent / "examples" / "train_nnx.py"
_STEP = re.compile(r"step (\d+)/(\d+) loss (\S+)")
_RESUMED = re.compile(r"resumed after step (\d+)")


@dataclasses.dataclass(frozen=True)
class Job:
    """A training run of one or several processes.

    Attributes:
        losses: The loss of each step as it was printed; both, if a step was run twice.
        resumed: The step after which each process but the first resumed; 0 for the start.
        total: The number of steps.
        parameters: The final arrays of the model.
    """

    losses: dict[int, set[str]]
    resumed: list[int]
    total: int
    parameters: list[np.ndarray]

    def differences(self, other: Job) -> list[str]:
        """Return the differences between this run and another."""
        steps = self.losses.keys() | other.losses.keys()
        found = [
            f"step {step}: loss {self.losses.get(step)} and {other.losses.get(step)}"
            for step in sorted(steps)
            if self.losses.get(step) != other.losses.get(step)
        ]
        if len(self.parameters) != len(other.parameters):
            found.append(f"{len(self.parameters)} and {len(other.parameters)} arrays of parameters")
        for number, (one, two) in enumerate(zip(self.parameters, other.parameters, strict=False)):
            same = one.shape == two.shape and one.dtype == two.dtype
            if not same or one.tobytes() != two.tobytes():
                found.append(f"array {number} of the parameters")
        return found


def environment(cache: pathlib.Path) -> dict[str, str]:
    """Return the environment of the example, with a cache of compiled programs."""
    return os.environ | {
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def train(folder: pathlib.Path, env: dict[str, str], kill_after: Sequence[int] = ()) -> Job:
    """Run the example to its end, killing it after each of the given steps."""
    folder.mkdir(parents=True)
    losses: dict[int, set[str]] = {}
    resumed: list[int] = []
    total = 0
    for kill in [*sorted(kill_after), None]:
        with (folder / "stderr").open("w+") as errors:
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(folder)],
                env=env,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            try:
                assert process.stdout is not None
                first = 0
                for line in process.stdout:
                    if match := _RESUMED.match(line):
                        first = int(match[1])
                    if match := _STEP.match(line):
                        step, total = int(match[1]), int(match[2])
                        losses.setdefault(step, set()).add(match[3])
                        if step == kill:
                            process.send_signal(signal.SIGKILL)
            finally:
                process.kill()
                code = process.wait()
                if process.stdout is not None:
                    process.stdout.close()
            errors.seek(0)
            expected = 0 if kill is None else -signal.SIGKILL
            if code != expected:
                raise RuntimeError(
                    f"Expected exit code {expected} and got {code} (kill after step {kill}): "
                    f"{errors.read()}"
                )
        resumed.append(first)
    with np.load(folder / "parameters.npz") as file:
        parameters = [file[name] for name in file.files]
    return Job(losses, resumed[1:], total, parameters)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--points", type=int, default=20, help="number of killed runs")
    parser.add_argument("--seed", type=int, default=None, help="seed of the choice of steps")
    arguments = parser.parse_args()
    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    choose = random.Random(seed)
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        env = environment(root / "compiled")
        undisturbed = train(root / "undisturbed", env)
        size = sum(array.size for array in undisturbed.parameters)
        print(f"undisturbed: {undisturbed.total} steps, {size} parameters; seed {seed}", flush=True)
        for number in range(arguments.points):
            kill = choose.randrange(1, undisturbed.total)
            started = time.monotonic()
            job = train(root / f"killed-{number}", env, [kill])
            found = job.differences(undisturbed)
            failures += bool(found)
            verdict = "DIFFERENT: " + "; ".join(found) if found else "identical, bit for bit"
            seconds = time.monotonic() - started
            print(
                f"{number + 1:>3}: killed after step {kill:>2}, resumed after step "
                f"{job.resumed[0]:>2}: {verdict} ({seconds:.1f} s)",
                flush=True,
            )
    print(f"{arguments.points - failures} of {arguments.points} runs ended as the undisturbed one.")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
