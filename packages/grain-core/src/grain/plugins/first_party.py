"""The plugins that this project publishes, and the core's reserved names."""

from __future__ import annotations

from typing import NamedTuple


class KnownPlugin(NamedTuple):
    """A published plugin, with what its absence needs to be explained."""

    name: str
    distribution: str
    public_names: tuple[str, ...]
    schemes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()


KNOWN_PLUGINS = (
    KnownPlugin(
        name="arrayrecord",
        distribution="grain-arrayrecord",
        public_names=("ArrayRecordDataSource",),
        schemes=("arrayrecord",),
        suffixes=(".array_record", ".arrayrecord"),
    ),
    KnownPlugin(
        name="parquet",
        distribution="grain-parquet",
        public_names=("ParquetDataSource", "ParquetIterDataset"),
        schemes=("parquet",),
        suffixes=(".parquet",),
    ),
    KnownPlugin(
        name="tfds",
        distribution="grain-tfds",
        public_names=("TfdsDataSource",),
        schemes=("tfds",),
    ),
    KnownPlugin(
        name="inmemory",
        distribution="grain-inmemory",
        public_names=("InMemoryDataSource", "SharedMemoryDataSource"),
    ),
    KnownPlugin(
        name="ray",
        distribution="grain-ray",
        public_names=(),
    ),
)

KNOWN_NAMES = tuple(name for plugin in KNOWN_PLUGINS for name in plugin.public_names)
"""Every public name of a published plugin, installed or not."""

OWN_NAMES = {
    "ColumnarDataSource": "grain.sources",
    "RandomAccessDataSource": "grain.sources",
    "RangeDataSource": "grain.sources",
    "open": "grain.sources",
    "Batch": "grain.transforms",
    "DatasetSelectionMap": "grain.transforms",
    "Filter": "grain.transforms",
    "FlatMap": "grain.transforms",
    "Map": "grain.transforms",
    "MapWithIndex": "grain.transforms",
    "RandomMap": "grain.transforms",
    "TfRandomMap": "grain.transforms",
    "Transformation": "grain.transforms",
    "Transformations": "grain.transforms",
}
"""The public names that modules of the core define, by module: no plugin may claim them.

They are listed here because the modules need not be loaded, and may be another project's where that was
installed over this one.
"""
