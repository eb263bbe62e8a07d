"""Evaluation on all of a finite dataset by several hosts: equal steps, padding, each element once.

103 elements do not fill equal batches of 4 hosts. `shard_batches` pads them, and a mask says which rows
count, so that a sum over all hosts is exact.

Install: pip install ./packages/grain-core
Run:     python examples/evaluate.py
"""

from __future__ import annotations

import numpy as np

import grain

COUNT, HOSTS, BATCH_SIZE = 103, 4, 8


def host_sums(rows: grain.MapDataset, host: int) -> tuple[int, float, int]:
    """Return the number of steps, the sum of errors and the number of elements of one host."""
    shard = grain.ShardOptions(shard_index=host, shard_count=HOSTS)
    batches = rows.shard_batches(shard, BATCH_SIZE, remainder="pad")
    steps, error, count = 0, 0.0, 0
    for batch in batches:
        assert batch["x"].shape == (BATCH_SIZE, 3), "every batch of every host has one shape"
        wrong = np.abs(batch["x"].sum(axis=1) - batch["target"])
        error += float((wrong * batch["mask"]).sum())
        count += int(batch["mask"].sum())
        steps += 1
    return steps, error, count


def main() -> None:
    """Compare the mean over all hosts with that of one pass over the data."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(COUNT, 3))
    rows = grain.MapDataset.source({"x": x, "target": x.sum(axis=1) + rng.normal(size=COUNT)})
    sums = [host_sums(rows, host) for host in range(HOSTS)]
    for host, (steps, _, count) in enumerate(sums):
        print(f"host {host}: {steps} steps, {count} elements")
    mean = sum(error for _, error, _ in sums) / sum(count for _, _, count in sums)
    expected = np.mean([abs(row["x"].sum() - row["target"]) for row in rows])
    print(f"mean error {mean:.6f}, in one pass {expected:.6f}")


if __name__ == "__main__":
    main()
