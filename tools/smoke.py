"""Use one installed package for its main purpose, as a user's first program would.

Usage: python tools/smoke.py DISTRIBUTION
"""

from __future__ import annotations

import importlib
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

import grain
from grain.testing import Case, CaseKind

WORKERS = grain.MultiprocessingOptions(num_workers=2)


def add_one(x: Any) -> Any:
    """Add one; a function that worker processes can import."""
    return x + 1


def core() -> None:
    """Check that workers do not change a pipeline, its state resumes, and the command runs."""
    ds = grain.MapDataset.range(100).seed(1).shuffle().map(add_one).batch(7).to_iter_dataset()
    plain = list(ds)
    np.testing.assert_array_equal(np.sort(np.concatenate(plain)), np.arange(1, 101))
    with iter(ds.mp_prefetch(WORKERS)) as iterator:
        np.testing.assert_equal([next(iterator) for _ in range(4)], plain[:4])
        state = json.loads(json.dumps(iterator.get_state()))
    again = iter(ds)
    again.set_state(state)
    np.testing.assert_equal(list(again), plain[4:])
    command = pathlib.Path(sys.executable).parent / "grain"
    subprocess.run([command, "plugins", "list"], check=True, stdout=subprocess.DEVNULL)


def plugin(name: str) -> None:
    """Check that each source of a plugin reads its conformance cases, with and without workers."""
    cases: list[Case] = importlib.import_module(f"grain_{name}.conformance").cases()
    for case in cases:
        if case.kind is not CaseKind.MAP_SOURCE:
            continue
        with tempfile.TemporaryDirectory() as folder:
            if case.prepare is not None:
                case.prepare(folder)
            source = case.make(folder) if case.prepare is not None else case.make()
            ds = grain.MapDataset.source(source)
            expected = case.length if case.elements is None else len(case.elements)
            if len(ds) != expected:
                raise SystemExit(f"{case.name}: {len(ds)} elements, expected {expected}")
            if case.elements is not None:
                np.testing.assert_equal(list(ds), list(case.elements))
            shuffled = ds.shuffle(seed=1).to_iter_dataset()
            with iter(shuffled.mp_prefetch(WORKERS)) as iterator:
                np.testing.assert_equal(list(iterator), list(shuffled))


def executor() -> None:
    """Check that the Ray executor is found by its name and joins no cluster that was not named."""
    names = {spec.name for plugin in grain.plugins.plugins() for spec in plugin.specs}
    ray_executor = importlib.import_module("grain_ray").RayExecutor
    if "ray" not in names or ray_executor(address="auto", num_workers=2).capacity != 2:
        raise SystemExit(f"the executor of grain-ray is not among {sorted(names)}")


def main(distribution: str) -> int:
    """Run all checks."""
    core()
    if distribution == "grain-ray":
        executor()
    elif distribution != "grain-core":
        plugin(distribution.removeprefix("grain-"))
    print(f"{distribution}: works")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
