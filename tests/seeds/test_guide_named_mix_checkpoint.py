"""The guide's "named components for checkpoint recovery across topology changes"."""

from __future__ import annotations

import pytest

import grain

source_a = [{"label": i % 2, "value": i} for i in range(20)]
source_b = [{"label": i % 2, "value": 100 + i} for i in range(20)]


def test_named_components_resume_in_a_changed_mixture() -> None:
    ds1 = grain.MapDataset.source(source_a).filter(lambda x: x["label"] == 0).to_iter_dataset()
    ds2 = grain.MapDataset.source(source_b).filter(lambda x: x["label"] == 1).to_iter_dataset()
    mixed = grain.IterDataset.mix(
        {"class_0": ds1, "class_1": ds2},
        weights={"class_0": 0.5, "class_1": 0.5},
    )
    ds_iter = iter(mixed)
    assert [next(ds_iter)["value"] for _ in range(6)] == [0, 101, 2, 103, 4, 105]
    state = ds_iter.get_state()

    # Another component, other weights.
    ds3 = grain.MapDataset.source(source_a).to_iter_dataset()
    changed = grain.IterDataset.mix(
        {"class_0": ds1, "class_1": ds2, "all": ds3},
        weights={"class_0": 0.25, "class_1": 0.25, "all": 0.5},
    )
    changed_iter = iter(changed)
    with pytest.warns(grain.checkpoint.ChangedMixtureWarning, match=r"\+ all"):
        changed_iter.set_state(state)
    values = [next(changed_iter)["value"] for _ in range(8)]
    assert [value for value in values if value >= 100] == [107, 109]
    assert sorted(value for value in values if value < 100) == [0, 1, 2, 3, 6, 8]
