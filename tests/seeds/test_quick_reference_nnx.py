"""The quick reference's training loop, with Flax NNX and Optax."""

# ruff: noqa: B007, RET504  (the snippets stand here as they stand in the document)

from __future__ import annotations

import numpy as np
import pytest

import grain

jax = pytest.importorskip("jax")
nnx = pytest.importorskip("flax.nnx")
optax = pytest.importorskip("optax")


class Scale(grain.MapTransform):
    def map(self, data):
        return {"image": data["image"].astype(np.float32) / 255.0, "label": data["label"]}


def test_a_model_learns_from_the_loader() -> None:
    num_steps = 30
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    items = [{"image": np.full(4, 200 * label, np.uint8), "label": label} for label in labels]
    model = nnx.Linear(4, 2, rngs=nnx.Rngs(0))

    # 1. Setup Model and Optimizer
    # Assumes `model` is an nnx.Module initialized with nnx.Rngs
    optimizer = nnx.Optimizer(model, optax.adam(1e-1), wrt=nnx.Param)

    # 2. Define the JITted training step
    @nnx.jit
    def train_step(model, optimizer, batch):
        def loss_fn(model):
            # Your loss logic here, e.g.:
            logits = model(batch["image"])
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()
            return loss

        # Get gradients
        grads = nnx.grad(loss_fn)(model)
        # IMPORTANT: Update optimizer by passing both model and grads
        optimizer.update(model, grads)
        return model  # Return the updated model

    # 3. Create configured grain.DataLoader
    data_loader = grain.DataLoader(
        data_source=items,
        operations=[Scale(), grain.Batch(batch_size=32)],
        sampler=grain.IndexSampler(num_records=len(items), shuffle=True, num_epochs=None, seed=42),
        shard_options=grain.NoSharding(),
    )
    data_iterator = iter(data_loader)

    # 4. Training Loop
    for step in range(num_steps):
        try:
            batch = next(data_iterator)
        except StopIteration:
            break

        # Pass model, optimizer, and batch to train step
        model = train_step(model, optimizer, batch)

    images = np.stack([item["image"] for item in items]).astype(np.float32) / 255.0
    predicted = np.argmax(np.asarray(model(images)), axis=1)
    assert (predicted == labels).mean() > 0.95
