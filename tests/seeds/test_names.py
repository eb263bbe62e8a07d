"""Every name that the documents use exists where they use it."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

import grain
import grain.python

AT_TOP_LEVEL = (
    "Batch",
    "DataLoader",
    "DatasetIterator",
    "IndexSampler",
    "IterDataset",
    "MapDataset",
    "MapTransform",
    "MultiprocessingOptions",
    "NoSharding",
    "RandomAccessDataSource",
    "RandomMapTransform",
    "ReadOptions",
    "Sampler",
    "ShardByJaxProcess",
    "ShardOptions",
    "Transformation",
    "checkpoint",
    "load",
    "python",
    "sharding",
    "sources",
    "transforms",
    # Brought by a plugin or by Orbax; see BROUGHT_BY.
    "ArrayRecordDataSource",
    "GrainCheckpointHandler",
    "GrainCheckpointRestore",
    "GrainCheckpointSave",
    "InMemoryDataSource",
    "OrbaxCheckpointHandler",
)

IN_MODULES = (
    "checkpoint.CheckpointHandler",
    "checkpoint.CheckpointRestore",
    "checkpoint.CheckpointSave",
    "sharding.NoSharding",
    "sharding.ShardByJaxProcess",
    "sharding.ShardOptions",
    "sources.RandomAccessDataSource",
    "transforms.Batch",
    "transforms.Filter",
    "transforms.FlatMap",
    "transforms.Map",
    "transforms.MapWithIndex",
    "transforms.RandomMap",
    "transforms.Transformation",
    "python.ArrayRecordDataSource",
    "python.Batch",
    "python.BatchTransform",
    "python.DataLoader",
    "python.FilterTransform",
    "python.GrainCheckpointHandler",
    "python.GrainCheckpointRestore",
    "python.GrainCheckpointSave",
    "python.InMemoryDataSource",
    "python.IndexSampler",
    "python.MapTransform",
    "python.NoSharding",
    "python.RandomAccessDataSource",
    "python.RandomMapTransform",
    "python.ReadOptions",
    "python.ShardOptions",
)

BROUGHT_BY = {
    "ArrayRecordDataSource": "grain_arrayrecord",
    "InMemoryDataSource": "grain_inmemory",
    "CheckpointRestore": "orbax.checkpoint",
    "CheckpointSave": "orbax.checkpoint",
    "GrainCheckpointRestore": "orbax.checkpoint",
    "GrainCheckpointSave": "orbax.checkpoint",
}


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("path", AT_TOP_LEVEL + IN_MODULES)
def test_every_name_in_the_documents_exists(path: str) -> None:
    folder, _, name = path.rpartition(".")
    needed = BROUGHT_BY.get(name)
    if needed and not _is_installed(needed):
        pytest.skip(f"{path} comes with {needed}, which is not installed")
    module = importlib.import_module(f"grain.{folder}" if folder else "grain")
    assert getattr(module, name) is not None


def test_every_name_in_the_snippets_is_listed() -> None:
    used = set()
    for file in set(Path(__file__).parent.glob("test_*.py")) - {Path(__file__)}:
        text = file.read_text()
        legacy = "import grain.python as grain" in text
        for name in re.findall(r"(?<!import )\bgrain\.([A-Za-z]\w*)", text):
            used.add(f"python.{name}" if legacy else name)
    listed = {*AT_TOP_LEVEL, *IN_MODULES}
    assert used - listed == set()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("MapTransform", "Map"),
        ("RandomMapTransform", "RandomMap"),
        ("Batch", "Batch"),
        ("Transformation", "Transformation"),
    ],
)
def test_old_names_are_aliases_of_the_new_classes(old: str, new: str) -> None:
    assert getattr(grain, old) is getattr(grain.transforms, new)
    assert getattr(grain.python, old) is getattr(grain.transforms, new)
