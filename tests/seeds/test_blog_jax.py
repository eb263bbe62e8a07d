"""The blog post's CIFAR-10 source, with jax."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import grain.python as grain

jnp = pytest.importorskip("jax.numpy")


class CIFAR10DataSource(grain.RandomAccessDataSource):
    def read_cifar(self, path: str):
        inputs = []
        labels = []
        for i in range(1, 6):
            with open(path + "data_batch_" + str(i), "rb") as f:
                data = pickle.load(f, encoding="bytes")
                inputs.append(jnp.array(data[b"data"]))
                labels.append(jnp.array(data[b"labels"]))

        return jnp.concatenate(inputs).reshape(-1, 3, 32, 32), jnp.concatenate(labels)

    def __init__(self, data_dir: str = "data/"):
        super().__init__()
        self.data = self.read_cifar(data_dir + "cifar-10-batches-py/")

    def __getitem__(self, idx):
        return self.data[idx]

    def __len__(self):
        return len(self.data)


@pytest.fixture
def data_dir(tmp_path: Path) -> str:
    """Write five files of two images, in the layout of the download."""
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for i in range(1, 6):
        batch = {b"data": np.full((2, 3072), i, np.uint8), b"labels": [i, i + 1]}
        (folder / f"data_batch_{i}").write_bytes(pickle.dumps(batch))
    return f"{tmp_path}/"


def test_a_loader_reads_a_source_of_jax_arrays(data_dir: str) -> None:
    source = CIFAR10DataSource(data_dir)
    # As in the post, the source holds two records: all images, and all labels.
    assert len(source) == 2

    index_sampler = grain.IndexSampler(
        num_records=len(source),
        num_epochs=2,
        shard_options=grain.ShardOptions(shard_index=0, shard_count=1, drop_remainder=True),
        shuffle=False,
        seed=0,
    )
    data_loader = grain.DataLoader(
        data_source=source, operations=[], sampler=index_sampler, worker_count=0
    )

    shapes = [np.asarray(element).shape for element in data_loader]
    assert shapes == [(10, 3, 32, 32), (10,), (10, 3, 32, 32), (10,)]
