"""Names known without looking: those of the plugins this project publishes, and the core's own."""

from __future__ import annotations

from typing import NamedTuple


class KnownPlugin(NamedTuple):
    """A published plugin, described well enough to say what to install."""

    name: str
    distribution: str
    public_names: tuple[str, ...]
    schemes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()

    @property
    def install(self) -> str:
        """The command that installs it from the package index.

        The bound keeps pip from taking the other grain-core, of a version below 1, that the index has.

        Example:
            >>> KNOWN_PLUGINS[0].install
            'pip install "grain-core[arrayrecord]>=1,<2"'
        """
        return f'pip install "grain-core[{self.name}]>=1,<2"'


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
)

KNOWN_NAMES = tuple(name for plugin in KNOWN_PLUGINS for name in plugin.public_names)
"""Every public name of a published plugin, installed or not."""

OWN_NAMES = {
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
"""The public names that modules of the core define themselves, and which module: no plugin may claim them.

They stand here, since the modules need not be loaded, and may be another project's where that was installed
over this one.
"""
