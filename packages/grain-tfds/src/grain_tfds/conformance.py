"""Conformance cases of this package, run by `grain conformance tfds`."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from grain.testing import Case
from grain_tfds.source import TfdsDataSource

_EXAMPLES = 13


def cases() -> list[Case]:
    """Return the cases: a slice of a small dataset that TFDS writes."""
    return [
        Case(
            name="part of a split",
            spec="tfds",
            prepare=write,
            make=part,
            make_larger=larger,
            elements=_elements()[2:],
        )
    ]


class TinyConformance(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
    """A dataset of vectors and text."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        return tfds.core.DatasetInfo(
            builder=self,
            disable_shuffling=True,
            features=tfds.features.FeaturesDict(
                {
                    "vector": tfds.features.Tensor(shape=(2,), dtype=np.float32),
                    "text": tfds.features.Text(),
                }
            ),
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        examples = {"train": _EXAMPLES, "larger": 20 * _EXAMPLES}
        return {split: self._generate_examples(count) for split, count in examples.items()}

    def _generate_examples(self, count: int) -> Iterator[tuple[int, Any]]:
        for number in range(count):
            yield (
                number,
                {
                    "vector": np.array([number, number + 0.5], np.float32),
                    "text": f"example {number}",
                },
            )


def _elements() -> list[Any]:
    return [
        {
            "text": f"example {number}".encode(),
            "vector": np.array([number, number + 0.5], np.float32),
        }
        for number in range(_EXAMPLES)
    ]


def write(directory: str) -> None:
    """Prepare the dataset by TFDS's own functions."""
    tfds.display_progress_bar(False)
    with contextlib.redirect_stdout(io.StringIO()):  # TFDS prints its progress
        TinyConformance(data_dir=directory, file_format="array_record").download_and_prepare()


def part(directory: str) -> TfdsDataSource:
    """Open all examples except the first two."""
    return TfdsDataSource("tiny_conformance", split="train[2:]", data_dir=directory)


def larger(directory: str) -> TfdsDataSource:
    """Open a longer split, to check that pickles do not grow with the data."""
    return TfdsDataSource("tiny_conformance", split="larger", data_dir=directory)
