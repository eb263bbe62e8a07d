"""The blog post's sampler and loader, through the older module."""

from __future__ import annotations

from typing import Any

import grain.python as grain


class Shout(grain.MapTransform):
    def map(self, element: str) -> str:
        return element.upper()


def test_a_sampler_and_a_loader_yield_two_epochs() -> None:
    source: Any = list("abcde")
    transformations = [Shout()]

    index_sampler = grain.IndexSampler(
        num_records=5,
        num_epochs=2,
        shard_options=grain.ShardOptions(shard_index=0, shard_count=1, drop_remainder=True),
        shuffle=True,
        seed=0,
    )

    data_loader = grain.DataLoader(
        data_source=source, operations=transformations, sampler=index_sampler, worker_count=0
    )

    assert "".join(data_loader) == "AEBCDBCDAE"
