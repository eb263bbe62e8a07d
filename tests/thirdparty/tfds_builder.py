"""A small dataset of TFDS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds


class TinyThirdParty(tfds.core.GeneratorBasedBuilder):
    """Numbers and texts."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        features = {
            "number": tfds.features.Scalar(np.int64),
            "row": tfds.features.Tensor(shape=(2,), dtype=np.float32),
        }
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(features), disable_shuffling=True
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[int, Any]]:
        for number in range(12):
            yield number, {"number": number, "row": np.array([number, 0.5], np.float32)}
