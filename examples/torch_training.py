"""A PyTorch model trained from a pipeline, stopped and resumed with its optimizer and the data.

Install: pip install ./packages/grain-core torch
Run:     python examples/torch_training.py
"""

from __future__ import annotations

import io

import numpy as np
import torch

import grain

EPOCHS, BATCH_SIZE, STOP_AFTER = 3, 32, 17


def pipeline() -> grain.IterDataset:
    """Return batches of arrays; tensors are made in the loop, without a copy."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(320, 8)).astype(np.float32)
    data = {"x": x, "y": x.sum(axis=1, keepdims=True)}
    return (
        grain.MapDataset.source(data)
        .shuffle(seed=0)
        .batch(BATCH_SIZE)
        .repeat(EPOCHS)
        .to_iter_dataset()
    )


def run(saved: bytes | None, stop_after: int | None) -> tuple[bytes, float]:
    """Train from a saved state up to a step; return the state and the last loss."""
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    iterator, step, loss = iter(pipeline()), 0, torch.tensor(0.0)
    if saved is not None:
        state = torch.load(io.BytesIO(saved))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        iterator.set_state(state["data"])
        step = state["step"]
    for batch in iterator:
        x, y = (torch.from_numpy(batch[name]) for name in ("x", "y"))
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step == stop_after:
            break
    file = io.BytesIO()
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "data": iterator.get_state(),
            "step": step,
        },
        file,
    )
    return file.getvalue(), float(loss.detach())


def main() -> None:
    """Train in one go, and in two, and compare the last losses."""
    _, undisturbed = run(None, None)
    saved, _ = run(None, STOP_AFTER)
    _, resumed = run(saved, None)
    print(
        f"last loss, undisturbed and resumed after {STOP_AFTER} steps, equal: {undisturbed == resumed}"
    )


if __name__ == "__main__":
    main()
