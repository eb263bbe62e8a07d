"""Pipelines over the source have one stream and one state with every executor."""

from __future__ import annotations

import pytest
import tensorflow_datasets as tfds
from tests.source_pipelines import PipelinesOverASource

import grain
from grain_tfds import TfdsDataSource


@pytest.fixture(params=["TfdsDataSource", "tfds.data_source"])
def source(request, data_dir, skip_image):
    make = TfdsDataSource if request.param == "TfdsDataSource" else tfds.data_source
    return make("tiny_pictures", split="test", data_dir=data_dir, decoders=skip_image)


class TestPipelines(PipelinesOverASource):
    @staticmethod
    def function(example):
        return example["vector"]


def test_grain_exports_and_opens_the_source(data_dir, skip_image):
    assert grain.sources.TfdsDataSource is TfdsDataSource
    opened = grain.sources.open(
        "tfds://tiny_pictures", split="test", data_dir=data_dir, decoders=skip_image
    )
    assert isinstance(opened, TfdsDataSource)
    assert len(opened) == 5
