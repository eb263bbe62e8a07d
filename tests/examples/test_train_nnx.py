"""The training example, killed with SIGKILL and resumed, ends like an undisturbed run."""

from __future__ import annotations

import pathlib
import random

import numpy as np
import pytest
from tools import kill_and_resume as tool

for library in ("jax", "flax.nnx", "optax", "orbax.checkpoint"):
    pytest.importorskip(library)


# Five processes that each import JAX and Flax.
@pytest.mark.timeout(400)
def test_killed_three_times_and_resumed_it_ends_with_the_same_losses_and_parameters(
    tmp_path: pathlib.Path,
) -> None:
    env = tool.environment(tmp_path / "compiled")
    undisturbed = tool.train(tmp_path / "undisturbed", env)
    assert sorted(undisturbed.losses) == list(range(1, undisturbed.total + 1))
    points = sorted(random.sample(range(1, undisturbed.total), 3))
    killed = tool.train(tmp_path / "killed", env, kill_after=points)
    assert killed.differences(undisturbed) == [], points
    # Each process resumed from a checkpoint that is not ahead of the killed process.
    assert all(after <= kill for after, kill in zip(killed.resumed, points, strict=True)), points
    assert killed.resumed[-1] > 0 or points[-1] < 10, points
    losses = [float(*undisturbed.losses[step]) for step in sorted(undisturbed.losses)]
    assert np.mean(losses[-5:]) < 0.6 * losses[0], "it learns"


def job(**changes: object) -> tool.Job:
    parameters = [np.zeros((2, 3), np.float32), np.ones(4, np.float32)]
    same = {"losses": {1: {"0.5"}, 2: {"0.25"}}, "resumed": [], "total": 2}
    return tool.Job(**(same | {"parameters": parameters} | changes))


def test_equal_runs_have_no_differences() -> None:
    assert job().differences(job(resumed=[4])) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"losses": {1: {"0.5"}, 2: {"0.2500001"}}}, "step 2: loss"),
        ({"losses": {1: {"0.5"}}}, "step 2: loss"),
        ({"losses": {1: {"0.5", "0.6"}, 2: {"0.25"}}}, "step 1: loss"),
        ({"parameters": [np.zeros((2, 3), np.float32)]}, "2 and 1 arrays"),
        ({"parameters": [np.zeros((2, 3), np.float32), -np.ones(4, np.float32)]}, "array 1"),
        ({"parameters": [-np.zeros((2, 3), np.float32), np.ones(4, np.float32)]}, "array 0"),
        ({"parameters": [np.zeros((3, 2), np.float32), np.ones(4, np.float32)]}, "array 0"),
    ],
    ids=["a loss", "a step", "a step done twice", "an array", "values", "a bit", "a shape"],
)
def test_the_comparison_detects_differences(changes: dict[str, object], text: str) -> None:
    [difference] = job().differences(job(**changes))
    assert text in difference
