"""Arrays in memory: split, shuffle, augment, batch, and repeat for several epochs.

Install: pip install ./packages/grain-core
Run:     python examples/numpy_arrays.py
"""

from __future__ import annotations

import numpy as np

import grain

EPOCHS, BATCH_SIZE = 2, 48


def make_data() -> tuple[np.ndarray, np.ndarray]:
    """Return pictures of 8 by 8 pixels, darker or brighter, and their labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 200)
    images = rng.normal(loc=labels[:, None, None], scale=0.5, size=(200, 8, 8))
    return images.astype(np.float32), labels


def flip(record: dict, rng: np.random.Generator) -> dict:
    """Mirror about half of the pictures; `rng` selects the same ones in every run."""
    if rng.random() < 0.5:
        return record | {"image": record["image"][:, ::-1]}
    return record


def main() -> None:
    """Build the pipelines and read them as a training loop does."""
    images, labels = make_data()
    # Any object with a length and an index is a source; `zip` pairs two sources.
    pairs = grain.MapDataset.source(images).zip(grain.MapDataset.source(labels))
    records = pairs.map(lambda pair: {"image": pair[0], "label": pair[1]})
    train, validation = records.train_validation_split(validation=0.2, seed=0)
    print(f"{len(train)} pictures to learn from, {len(validation)} to judge by")

    # Each epoch has another order, and its last batch is smaller.
    batches = train.seed(42).shuffle().random_map(flip).batch(BATCH_SIZE).repeat(EPOCHS)
    for number, batch in enumerate(batches):
        print(f"batch {number}: {batch['image'].shape}, labels {batch['label'][:8]} ...")

    # A dataset is indexed like a list: look at any batch without reading the ones before it.
    print("batch 7 once more:", batches[7]["label"][:8])
    print(f"the first of the {len(validation)}: label {validation[0]['label']}")


if __name__ == "__main__":
    main()
