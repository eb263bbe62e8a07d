"""Operations as text: their names, and the arguments that decide on the elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from grain.dataset.fingerprint.stable_text import stable_text


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """An operation as it might be written; arguments that are not given or False are left out."""
    given = {
        key: value for key, value in arguments.items() if value is not None and value is not False
    }
    return f"{name}({', '.join(f'{key}={stable_text(value)}' for key, value in given.items())})"


def _transform(name: str) -> Callable[[Any], tuple[str, dict[str, Any]]]:
    return lambda ds: (name, {"transform": ds._transform, "seed": getattr(ds, "_seed", None)})


def _attributes(name: str, **attributes: str) -> Callable[[Any], tuple[str, dict[str, Any]]]:
    return lambda ds: (name, {key: getattr(ds, attr) for key, attr in attributes.items()})


def _slice(dataset: Any) -> tuple[str, dict[str, Any]]:
    start, stop, step = dataset._start, dataset._stop, dataset._step
    # To the end, wherever that is: a longer source does not change it.
    end = None if step > 0 and stop == dataset._parent_length else stop
    return "slice", {"start": start or None, "stop": end, "step": None if step == 1 else step}


def _layout(layout: Any) -> dict[str, Any]:
    return {
        "length_struct": {
            "/".join(p): n for p, n in zip(layout.paths, layout.lengths, strict=True)
        },
        "padding": [pad for pad in layout.paddings if not np.array_equal(pad, 0)] or None,
        "alignment": [a for a in layout.alignments if a != 1] or None,
        "segmented": None if all(layout.segmented) else list(layout.segmented),
    }


def _pack(dataset: Any) -> tuple[str, dict[str, Any]]:
    return type(dataset).__name__.removesuffix("IterDataset"), {
        **_layout(dataset._layout),
        "num_packing_bins": dataset._num_bins,
        "seed": dataset._seed or None,
        "shuffle_bins": dataset._shuffle,
        "shuffle_bins_group_by_feature": dataset._group_by,
        "max_sequences_per_bin": dataset._max_sequences,
    }


def _concat_split(dataset: Any) -> tuple[str, dict[str, Any]]:
    return "ConcatThenSplit", {
        **_layout(dataset._layout),
        "split_full_length_features": dataset._split_full,
        "bos_features": [name for _, name in dataset._bos_features] or None,
        "bos_token_id": dataset._bos_token,
    }


_BATCH = _attributes(
    "batch", batch_size="_batch_size", drop_remainder="_drop_remainder", batch_fn="_batch_fn"
)
_WINDOW = {"window_size": "_window_size", "seed": "_seed"}

# By the names of their classes, for the classes know this file.
ARGUMENTS: dict[str, Callable[[Any], tuple[str, dict[str, Any]]]] = {
    "BatchIterDataset": _BATCH,
    "BatchMapDataset": _BATCH,
    "CacheIterDataset": _attributes("cache"),
    "ConcatThenSplitIterDataset": _concat_split,
    "ConcatenateMapDataset": _attributes("concatenate"),
    "FilterIterDataset": _transform("filter"),
    "FilterMapDataset": _transform("filter"),
    "FlatMapIterDataset": _transform("flat_map"),
    "FlatMapMapDataset": _transform("flat_map"),
    "GlobalStepsIterDataset": _attributes(
        "elastic", global_batch_size="_size", remainder="_remainder"
    ),
    "LimitIterDataset": _attributes("limit", count="_count"),
    "MapIterDataset": _transform("map"),
    "MapMapDataset": _transform("map"),
    "MapWithIndexIterDataset": _transform("map_with_index"),
    "MapWithIndexMapDataset": _transform("map_with_index"),
    "OperationIterDataset": _attributes("operation", operation="_operation"),
    "PackIterDataset": _pack,
    "PickMapDataset": _attributes("slice", picked="_picked"),
    "RandomMapIterDataset": _transform("random_map"),
    "RandomMapMapDataset": _transform("random_map"),
    "RebatchIterDataset": _attributes(
        "rebatch", batch_size="_batch_size", drop_remainder="_drop_remainder"
    ),
    "RepeatIterDataset": _attributes("repeat", num_epochs="_num_epochs"),
    "RepeatMapDataset": lambda ds: (
        "repeat",
        {"num_epochs": ds._num_epochs, "same_each_epoch": not ds._reseed},
    ),
    "SelectedMapDataset": _attributes("select_from_datasets", selection_map="_selection"),
    "ShardBatchesMapDataset": _attributes(
        "shard_batches",
        shard="_shard",
        batch_size="_batch_size",
        remainder="_remainder",
        batch_fn="_batch_fn",
    ),
    "ShuffleMapDataset": _attributes("shuffle", seed="_seed"),
    "SliceMapDataset": _slice,
    "SplitMapDataset": _attributes("split", seed="_seed", first="_first", length="_length"),
    "UnbatchIterDataset": _attributes("unbatch"),
    "WindowShuffleIterDataset": _attributes("window_shuffle", **_WINDOW),
    "WindowShuffleMapDataset": _attributes(
        "window_shuffle", **_WINDOW, within_epochs="_within_epochs"
    ),
    "WithSeedIterDataset": _attributes("seed", seed="_own_seed"),
    "WithSeedMapDataset": _attributes("seed", seed="_own_seed"),
    "ZipIterDataset": _attributes("zip", strict="_strict"),
    "ZipMapDataset": _attributes("zip"),
}
