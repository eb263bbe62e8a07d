"""Seeds of datasets."""

from __future__ import annotations

import pytest

import grain


def test_no_seed_is_like_not_calling_seed() -> None:
    ds = grain.MapDataset.range(9).seed(None)
    assert list(ds) == list(range(9))
    assert list(ds.to_iter_dataset().seed(None)) == list(range(9))
    with pytest.raises(ValueError, match="requires a seed"):
        ds.shuffle()
    assert list(ds.shuffle(3)) == list(grain.MapDataset.range(9).shuffle(3))
    # One that is further down counts.
    seeded = grain.MapDataset.range(9).seed(5)
    assert sorted(seeded.seed(None).shuffle()) == list(range(9))
