"""The cases with Hugging Face datasets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import datasets
import numpy as np

from benchmarks import work
from benchmarks.cases import ALL, LENGTHS
from benchmarks.data import Data

ALL_INDICES = "keeps all rows and their shuffled indices in memory or in a file"

LACKS: Mapping[str, str] = {
    "random_map": "has no random generator for each element",
    "images_batch": "records are rows of an Arrow table, not made by a Python object",
    "large_arrays": "records are rows of an Arrow table, not made by a Python object",
    "latency_threads": "reads rows of a local Arrow table",
    "length_1e9": ALL_INDICES,
    "length_1e12": ALL_INDICES,
    **{case.name: "leaves worker processes to torch's DataLoader" for case in ALL if case.workers},
}

datasets.disable_progress_bars()
# Otherwise a table of an earlier run would be read from a file.
datasets.disable_caching()

ROWS = 10**6
BUFFER = 1000
Batch = dict[str, Any]


@functools.cache
def ints(n: int = ROWS) -> datasets.Dataset:
    """Return the numbers below n as a table."""
    return datasets.Dataset.from_dict({"x": np.arange(n)})


def add_one(batch: Batch) -> Batch:
    """Apply the function to each element of a batch."""
    return {"x": np.asarray([work.add_one(x) for x in batch["x"]])}


def stream(dataset: datasets.Dataset) -> datasets.IterableDataset:
    """Return a table as a shuffled stream."""
    return dataset.to_iterable_dataset().shuffle(seed=1, buffer_size=BUFFER)


def even(example: Batch) -> bool:
    """Apply the filter to a row."""
    return work.is_even(example["x"])


def joined(batch: Batch, *, length: int) -> Batch:
    """Join and split the tokens of many documents, as the library's guides do."""
    tokens = np.concatenate([np.asarray(row) for row in batch["tokens"]])
    rows = len(tokens) // length
    return {"tokens": list(tokens[: rows * length].reshape(rows, length))}


def tokenize(batch: Batch) -> Batch:
    """Return lines of text as token numbers."""
    return {"tokens": [work.token_ids(line) for line in batch["text"]]}


def read_images(batch: Batch) -> Batch:
    """Crop images that the library has decoded."""
    images = [work.crop(np.asarray(image.convert("RGB"))) for image in batch["image"]]
    return {"image": np.stack(images)}


def read_arrays(batch: Batch) -> Batch:
    """Read small arrays by file name."""
    return {"x": np.stack([work.read_array(path) for path in batch["path"]])}


def mixed() -> Any:
    """Mix three streams by weight."""
    streams = [stream(ints()) for _ in range(3)]
    mixture = datasets.interleave_datasets(streams, probabilities=[0.5, 0.3, 0.2], seed=0)
    return mixture.with_format("numpy").batch(128)


def packed_documents() -> Any:
    """Join documents and split them into rows."""
    table = datasets.Dataset.from_dict({"tokens": [d["tokens"] for d in work.documents()]})
    join = functools.partial(joined, length=work.ROW_LENGTH)
    return table.to_iterable_dataset().map(join, batched=True).with_format("numpy")


def packed_text(data: Data) -> Any:
    """Tokenize and join lines, split them into rows and batch."""
    table = datasets.Dataset.from_dict({"text": data.lines()})
    tokens = stream(table).map(tokenize, batched=True, remove_columns=["text"])
    join = functools.partial(joined, length=work.TEXT_ROW_LENGTH)
    return tokens.map(join, batched=True).with_format("numpy").batch(8, drop_last_batch=True)


def decoded(data: Data) -> Any:
    """Return images from files, decoded by the library."""
    table = datasets.Dataset.from_dict({"image": data.image_files})
    table = table.cast_column("image", datasets.Image())
    return table.shuffle(seed=1).with_transform(read_images).iter(32, drop_last_batch=True)


def parquet_rows(data: Data) -> Any:
    """Stream the rows of a Parquet file."""
    table = datasets.load_dataset("parquet", data_files=data.parquet, split="train", streaming=True)
    return table.with_format("numpy").batch(128, drop_last_batch=True)


def shuffled(n: int) -> Any:
    """Return shuffled numbers in batches, from a new table."""
    table = ints.__wrapped__(n)
    return table.shuffle(seed=1).with_format("numpy").iter(128, drop_last_batch=True)


def programs(data: Data) -> Mapping[str, Callable[[], Iterable[Any]]]:
    """Return all cases that the library supports."""
    ordinary = functools.cache(lambda: ints().shuffle(seed=42).with_transform(add_one))
    paths = functools.cache(
        lambda: datasets.Dataset.from_dict({"path": data.small_files}).shuffle(seed=1)
    )
    made: dict[str, Callable[[], Iterable[Any]]] = {
        "range_batch": lambda: ints().with_format("numpy").iter(128, drop_last_batch=True),
        "shuffle_map_batch": lambda: ordinary().iter(128, drop_last_batch=True),
        "filter_iter_batch": lambda: stream(ints()).filter(even).with_format("numpy").batch(128),
        "mix3": mixed,
        "pack_concat_split": packed_documents,
        "text_pack": lambda: packed_text(data),
        "image_decode": lambda: decoded(data),
        "parquet_iter": lambda: parquet_rows(data),
        "small_files": lambda: paths().with_transform(read_arrays).iter(64, drop_last_batch=True),
        "first_batch": lambda: (
            ints.__wrapped__().shuffle(seed=42).with_transform(add_one).iter(128)
        ),
    }
    for name, length in LENGTHS.items():
        made[name] = functools.partial(shuffled, length)
    return made
