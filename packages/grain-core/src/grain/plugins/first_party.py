"""The plugins that this project publishes and how to install them, and the core's reserved names."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable
from typing import NamedTuple

from grain.plugins.metadata import CORE, Distribution, headers_of, installed_distributions
from grain.plugins.uris import unquoted


class KnownPlugin(NamedTuple):
    """A published plugin, with what its absence needs to be explained."""

    name: str
    distribution: str
    public_names: tuple[str, ...]
    schemes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()

    @property
    def install(self) -> str:
        """Return the command that installs it from the package index.

        The bound excludes another project's grain-core, of a version below 1, that the index has.

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


def install_command(known: KnownPlugin) -> str:
    """Return the command that installs a plugin: from the checkout of the core, or from the index."""
    folder = package_beside_core(known.distribution)
    return known.install if folder is None else f'pip install "{folder}"'


def package_beside_core(
    name: str, distributions: Iterable[Distribution] | None = None
) -> str | None:
    """Return a package beside the core: in the checkout or the folder of wheels it was installed from."""
    for distribution in installed_distributions() if distributions is None else distributions:
        if CORE in headers_of(distribution)["name"]:
            break
    else:
        return None
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        url = origin["url"]
        if not url.startswith("file://"):
            return None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    beside = os.path.dirname(unquoted(url.removeprefix("file://")))
    if "dir_info" not in origin:
        wheels = glob.glob(
            os.path.join(glob.escape(beside), f"{name.replace('-', '_')}-[0-9]*.whl")
        )
        return max(wheels, default=None)
    folder = os.path.join(beside, name)
    return folder if os.path.isfile(os.path.join(folder, "pyproject.toml")) else None
