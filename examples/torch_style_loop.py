"""A training loop as PyTorch users write it: a loader, epochs, `state_dict` and `load_state_dict`.

Only numpy is needed; batches become tensors with `torch.from_numpy`, which copies nothing.

Install: pip install ./packages/grain-core
Run:     python examples/torch_style_loop.py
"""

from __future__ import annotations

import json
import pathlib
import tempfile

import numpy as np

import grain


class Points:
    """A dataset in the style of PyTorch: a length and an index."""

    def __init__(self, size: int) -> None:
        self._x = np.random.default_rng(0).normal(size=(size, 3)).astype(np.float32)

    def __len__(self) -> int:
        return len(self._x)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.float32]:
        x = self._x[index]
        return x, np.float32(x @ [1, -2, 3] + 0.5)

    def __repr__(self) -> str:  # Stored in checkpoints and compared on restore.
        return f"Points({len(self)})"


def make_loader(epochs: int) -> grain.DataLoader:
    """Return the loader, `DataLoader(dataset, batch_size=20, shuffle=True)` in PyTorch."""
    points = Points(200)
    sampler = grain.IndexSampler(len(points), shuffle=True, seed=0, num_epochs=epochs)
    return grain.DataLoader(data_source=points, sampler=sampler, operations=[grain.Batch(20)])


def train(
    weights: np.ndarray, batches: grain.DataLoaderIterator, steps: int | None = None
) -> float:
    """Run steps of least squares; update the weights in place and return the last loss."""
    loss = float("nan")
    for step, (x, y) in enumerate(batches, start=1):
        error = x @ weights[:3] + weights[3] - y
        loss = float(np.mean(error**2))
        weights -= 0.1 * np.append(x.T @ error, error.sum()) / len(y)
        if step == steps:
            break
    return loss


def main(file: pathlib.Path) -> None:
    """Train without a break, then again with one."""
    undisturbed = np.zeros(4)
    loss = train(undisturbed, iter(make_loader(epochs=5)))
    print(f"undisturbed: loss {loss:.2e}, weights {undisturbed.round(3)}")

    weights, batches = np.zeros(4), iter(make_loader(epochs=5))
    loss = train(weights, batches, steps=13)
    file.write_text(json.dumps({"weights": weights.tolist(), "data": batches.state_dict()}))
    print(f"stopped:     loss {loss:.2e}, weights {weights.round(3)}")

    saved = json.loads(file.read_text())
    weights, batches = np.array(saved["weights"]), iter(make_loader(epochs=5))
    batches.load_state_dict(saved["data"])
    loss = train(weights, batches)
    print(f"resumed:     loss {loss:.2e}, weights {weights.round(3)}")
    print("the same weights:", np.array_equal(weights, undisturbed))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(pathlib.Path(temporary) / "checkpoint.json")
