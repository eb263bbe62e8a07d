"""Records and their metadata."""

from __future__ import annotations

import numpy as np

import grain


def test_metadata_without_its_key_keeps_the_rest():
    rng = np.random.default_rng(1)
    metadata = grain.RecordMetadata(index=3, record_key=4, rng=rng)
    assert metadata.remove_record_key() == grain.RecordMetadata(index=3, record_key=None, rng=rng)
    assert metadata.record_key == 4


def test_records_can_be_read():
    record = grain.Record(grain.RecordMetadata(index=3, record_key=4), "data")
    assert str(record) == (
        "Record(metadata=RecordMetadata(index=3, record_key=4, rng=None), data=data)"
    )
