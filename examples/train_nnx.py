"""Train a small Flax NNX model that can be killed at any moment: run it again and it resumes.

Model, optimizer and the position in the data are saved together with Orbax. A run that was killed and
resumed ends with exactly the loss and the parameters of an undisturbed run.

Install: pip install "./packages/grain-core[jax,orbax]" flax optax
Run:     python examples/train_nnx.py            once, in a temporary folder
         python examples/train_nnx.py my-run     kill it (Ctrl-C, kill -9), then run it again
"""

from __future__ import annotations

import hashlib
import pathlib
import sys
import tempfile

import jax
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx

import grain

RECORDS, EPOCHS, BATCH_SIZE, SAVE_EVERY = 1000, 3, 50, 4
STEPS = RECORDS // BATCH_SIZE * EPOCHS


def spirals() -> list[dict[str, np.ndarray]]:
    """Return points on three spirals, and the number of each point's spiral."""
    label = np.arange(RECORDS) % 3
    radius = np.linspace(0.1, 1, RECORDS)
    angle = 5 * radius + 2 * np.pi / 3 * label
    points = radius * np.stack([np.cos(angle), np.sin(angle)])
    return [{"x": x, "label": y} for x, y in zip(points.T.astype(np.float32), label, strict=True)]


def jitter(record: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Add noise that differs in every epoch and is the same in every run."""
    return record | {"x": record["x"] + rng.normal(scale=0.02, size=2).astype(np.float32)}


def batches() -> grain.IterDataset:
    """Return batches, shuffled again in every epoch, and prefetched to the device."""
    ds = grain.MapDataset.source(spirals()).seed(42).shuffle().repeat(EPOCHS)
    ds = ds.random_map(jitter).batch(BATCH_SIZE).to_iter_dataset()
    return grain.experimental.device_put(ds, jax.devices()[0])


@nnx.jit
def train_step(
    model: nnx.Module, optimizer: nnx.Optimizer, batch: dict[str, jax.Array]
) -> jax.Array:
    """Run one step of gradient descent; return the loss before it."""

    def loss_of(model: nnx.Module) -> jax.Array:
        losses = optax.softmax_cross_entropy_with_integer_labels(model(batch["x"]), batch["label"])
        return losses.mean()

    loss, gradients = nnx.value_and_grad(loss_of)(model)
    optimizer.update(model, gradients)
    return loss


def train(folder: pathlib.Path) -> None:
    """Train from the last checkpoint in the folder, or from the start, to the end."""
    rngs = nnx.Rngs(0)
    model = nnx.Sequential(nnx.Linear(2, 32, rngs=rngs), nnx.relu, nnx.Linear(32, 3, rngs=rngs))
    optimizer = nnx.Optimizer(model, optax.adam(0.02), wrt=nnx.Param)
    iterator = iter(batches())

    options = ocp.CheckpointManagerOptions(save_interval_steps=SAVE_EVERY, max_to_keep=2)
    with ocp.CheckpointManager(folder.absolute() / "checkpoints", options=options) as manager:
        done = manager.latest_step() or 0
        if done:
            state = ocp.args.StandardRestore(nnx.state((model, optimizer)))
            data = grain.checkpoint.CheckpointRestore(iterator)
            saved = manager.restore(done, args=ocp.args.Composite(state=state, data=data))
            nnx.update((model, optimizer), saved.state)
            print(f"resumed after step {done}", flush=True)

        for step, batch in enumerate(iterator, start=done + 1):
            loss = train_step(model, optimizer, batch)
            print(f"step {step}/{STEPS} loss {float(loss)}", flush=True)
            if manager.should_save(step):
                state = ocp.args.StandardSave(nnx.state((model, optimizer)))
                data = grain.checkpoint.CheckpointSave(iterator)
                manager.save(step, args=ocp.args.Composite(state=state, data=data))

    parameters = [np.asarray(leaf) for leaf in jax.tree.leaves(nnx.state(model, nnx.Param))]
    np.savez(folder / "parameters.npz", *parameters)
    digest = hashlib.sha256(b"".join(array.tobytes() for array in parameters))
    print(f"parameters {digest.hexdigest()}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            train(pathlib.Path(temporary))
