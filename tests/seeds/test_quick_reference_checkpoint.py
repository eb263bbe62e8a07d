"""The quick reference's advice on checkpoints: the iterator, a Flax NNX model and its optimizer in one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import grain

jax = pytest.importorskip("jax")
nnx = pytest.importorskip("flax.nnx")
optax = pytest.importorskip("optax")
ocp = pytest.importorskip("orbax.checkpoint")


class Augment(grain.RandomMapTransform):
    def random_map(self, data, rng):
        return {
            "image": data["image"] + rng.normal(size=4).astype(np.float32),
            "label": data["label"],
        }


def make_run():
    rng = np.random.default_rng(0)
    items = [
        {"image": rng.normal(size=4).astype(np.float32), "label": int(label)}
        for label in rng.integers(0, 2, 60)
    ]
    data_loader = grain.DataLoader(
        data_source=items,
        operations=[Augment(), grain.Batch(batch_size=8)],
        sampler=grain.IndexSampler(num_records=len(items), shuffle=True, num_epochs=None, seed=42),
        shard_options=grain.NoSharding(),
    )
    model = nnx.Linear(4, 2, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-1), wrt=nnx.Param)
    return iter(data_loader), model, optimizer


@nnx.jit
def train_step(model, optimizer, batch):
    def loss_fn(model):
        logits = model(batch["image"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    optimizer.update(model, nnx.grad(loss_fn)(model))


def train(data_iterator, model, optimizer, steps):
    for _ in range(steps):
        train_step(model, optimizer, next(data_iterator))


def kernel(model):
    return np.asarray(model.kernel[...])


def test_training_resumes_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    assert grain.OrbaxCheckpointHandler is grain.checkpoint.CheckpointHandler
    data_iterator, model, optimizer = make_run()
    train(data_iterator, model, optimizer, 10)
    with ocp.CheckpointManager(tmp_path / "checkpoints") as mngr:
        mngr.save(
            10,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(nnx.to_pure_dict(nnx.state((model, optimizer)))),
                data=grain.checkpoint.CheckpointSave(data_iterator),
            ),
        )
        mngr.wait_until_finished()
    train(data_iterator, model, optimizer, 5)

    resumed, fresh_model, fresh_optimizer = make_run()
    abstract = nnx.state((fresh_model, fresh_optimizer))
    with ocp.CheckpointManager(tmp_path / "checkpoints") as mngr:
        restored = mngr.restore(
            mngr.latest_step(),
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore(nnx.to_pure_dict(abstract)),
                data=grain.checkpoint.CheckpointRestore(resumed),
            ),
        )
    nnx.replace_by_pure_dict(abstract, restored["state"])
    nnx.update((fresh_model, fresh_optimizer), abstract)
    train(resumed, fresh_model, fresh_optimizer, 5)
    assert resumed.get_state() == data_iterator.get_state()
    assert np.array_equal(kernel(fresh_model), kernel(model))
