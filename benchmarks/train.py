"""A JAX training step fed by one loader: how long steps take, and how long they wait for data.

    python -m benchmarks.train PEER

Answers each line `{"workers": n, "steps": m}` with a line `{"seconds": s, "waiting": w}`, like
`benchmarks.serve`. The same images, functions and network for every peer; `benchmarks.training` runs them.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

from benchmarks.serve import explain, private_stdout, write_line

SIDE = 64
BATCH = 128
IMAGES = 4096
CLASSES = 10
HIDDEN = 64
WARM_UP = 8


class Pictures:
    """Small images in memory, as a user's source."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.pixels = rng.integers(0, 256, (IMAGES, SIDE, SIDE, 3), dtype=np.uint8)
        self.labels = rng.integers(0, CLASSES, IMAGES)

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: Any) -> dict[str, Any]:
        return {"image": self.pixels[index], "label": self.labels[index]}

    def __repr__(self) -> str:
        return f"Pictures({IMAGES})"


def augment(element: dict[str, Any]) -> dict[str, Any]:
    """Crop, flip and scale an image; by its content, so that it is the same work for all."""
    image = element["image"]
    top, left, flip = (int(value) % 9 for value in image[0, 0])
    image = image[top : top + SIDE - 8, left : left + SIDE - 8]
    if flip > 4:
        image = image[:, ::-1]
    scaled = (image.astype(np.float32) - np.float32(127.5)) * np.float32(1 / 127.5)
    return {"image": scaled, "label": np.int64(element["label"])}


def with_grain(workers: int) -> Iterator[Any]:
    """Feed by this project, or by google/grain: the programs are the same."""
    import grain

    ds: Any = grain.MapDataset.source(Pictures()).shuffle(1).repeat().map(augment).batch(BATCH)
    ds = ds.to_iter_dataset()
    if workers:
        ds = ds.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    return iter(ds)


def with_torch(workers: int) -> Iterator[Any]:
    """Feed by torch's DataLoader."""
    from torch.utils.data import DataLoader

    from benchmarks.peers.torch_loader import Mapped

    loader = DataLoader(
        Mapped(Pictures(), augment),
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    for batch in itertools.chain.from_iterable(itertools.repeat(loader)):
        yield {name: value.numpy() for name, value in batch.items()}


def with_datasets(workers: int) -> Iterator[Any]:
    """Feed by Hugging Face datasets; its rows go to torch's DataLoader for workers."""
    import datasets

    if workers:
        raise LookupError("leaves worker processes to torch's DataLoader")
    source = Pictures()
    features = datasets.Features(
        {
            "image": datasets.Array3D((SIDE, SIDE, 3), "uint8"),
            "label": datasets.Value("int64"),
        }
    )
    columns = {"image": source.pixels, "label": source.labels}
    table = datasets.Dataset.from_dict(columns, features=features).with_format("numpy")
    for epoch in itertools.count():
        for batch in table.shuffle(seed=epoch).iter(BATCH, drop_last_batch=True):
            made = [
                augment({"image": image, "label": label})
                for image, label in zip(batch["image"], batch["label"], strict=True)
            ]
            yield {name: np.stack([element[name] for element in made]) for name in made[0]}


def without_loader(workers: int) -> Iterator[Any]:
    """Return one batch again and again."""
    if workers:
        raise LookupError("has no workers")
    source = Pictures()
    made = [augment(source[index]) for index in range(BATCH)]
    return itertools.repeat({name: np.stack([e[name] for e in made]) for name in made[0]})


LOADERS: dict[str, Callable[[int], Iterator[Any]]] = {
    "loop": without_loader,
    "grain": with_grain,
    "google-grain": with_grain,
    "torch": with_torch,
    "datasets": with_datasets,
}


def make_step() -> tuple[Callable[[Any, Any], Any], Any]:
    """Return a compiled training step of a small network, and its parameters."""
    import jax
    import jax.numpy as jnp

    inputs = (SIDE - 8) ** 2 * 3
    keys = jax.random.split(jax.random.key(0), 2)
    parameters = [
        jax.random.normal(keys[0], (inputs, HIDDEN)) * 0.01,
        jax.random.normal(keys[1], (HIDDEN, CLASSES)) * 0.1,
    ]

    def loss(parameters: Any, batch: Any) -> Any:
        hidden = jax.nn.relu(batch["image"].reshape(BATCH, -1) @ parameters[0])
        scores = jax.nn.log_softmax(hidden @ parameters[1])
        return -jnp.mean(jnp.take_along_axis(scores, batch["label"][:, None], 1))

    @jax.jit
    def step(parameters: Any, batch: Any) -> Any:
        slopes = jax.grad(loss)(parameters, batch)
        return [value - 0.01 * slope for value, slope in zip(parameters, slopes, strict=True)]

    return step, parameters


def train(batches: Iterator[Any], step: Any, parameters: Any, steps: int) -> tuple[float, float]:
    """Return the seconds of some steps, and those among them in which a step waited for its batch."""
    import jax

    waiting = 0.0
    started = 0.0
    for number in range(steps + WARM_UP):
        if number == WARM_UP:
            waiting, started = 0.0, time.perf_counter()
        asked = time.perf_counter()
        batch = next(batches)
        waiting += time.perf_counter() - asked
        if batch["image"].shape != (BATCH, SIDE - 8, SIDE - 8, 3):
            raise ValueError(f"a batch of shape {batch['image'].shape}")
        parameters = jax.block_until_ready(step(parameters, batch))
    return time.perf_counter() - started, waiting


def main() -> None:
    """Run the command line of the module docstring."""
    peer = sys.argv[1]
    out = private_stdout()
    if peer == "google-grain":
        from absl import flags

        flags.FLAGS(sys.argv[:1])
    step, parameters = make_step()
    write_line(out, ready={})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            batches = LOADERS[peer](request["workers"])
            try:
                seconds, waiting = train(batches, step, parameters, request["steps"])
            finally:
                close = getattr(batches, "close", None)
                if close is not None:
                    close()
                del batches
        except LookupError as error:
            write_line(out, lacks=str(error))
        except Exception as error:
            write_line(out, error=explain(error))
        else:
            write_line(out, value=seconds, waiting=waiting)


if __name__ == "__main__":
    main()
