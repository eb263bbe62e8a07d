"""`fit` of Keras over a pipeline: another order in each epoch, workers, and a state to save.

Install: pip install "./packages/grain-core[jax]" keras
Run:     python examples/keras_fit.py
"""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

import grain

EPOCHS, BATCH_SIZE = 4, 32


def main() -> None:
    """Train a small model, and evaluate it on the rest of the data."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(640, 4)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(np.float32)
    rows = grain.MapDataset.source(grain.sources.ColumnarDataSource((x, y)))
    train, validation = rows.train_validation_split(validation=128, seed=0)
    batches = train.seed(0).shuffle().batch(BATCH_SIZE)
    model = keras.Sequential(
        [keras.layers.Input((4,)), keras.layers.Dense(1, activation="sigmoid")]
    )
    model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
    # `fit` iterates over a dataset again in each epoch, which has the same order: give it one stream.
    with iter(batches.repeat(EPOCHS).to_iter_dataset().mp_prefetch(num_workers=1)) as iterator:
        history = model.fit(
            (batch for batch in iterator),
            steps_per_epoch=len(batches),
            epochs=EPOCHS,
            shuffle=False,
            verbose=0,
        )
        print(f"{len(history.history['loss'])} epochs, state {iterator.get_state()}")
    held_out = validation.batch(BATCH_SIZE)
    _, accuracy = model.evaluate((batch for batch in held_out), steps=len(held_out), verbose=0)
    print(f"accuracy above 0.9: {accuracy > 0.9}")


if __name__ == "__main__":
    main()
