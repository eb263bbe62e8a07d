"""The peers: their names, dependencies and imports, and the modules of their programs."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, cast

from benchmarks.data import Data


class Programs(Protocol):
    """A module with the cases in one peer's API."""

    LACKS: Mapping[str, str]
    """Cases without a counterpart, each with the reason."""

    @staticmethod
    def programs(data: Data) -> Mapping[str, Callable[[], Iterable[Any]]]:
        """Return functions that create the pipelines of the cases, by name."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Peer:
    """A library that is measured.

    Attributes:
        name: Its name on the command line and in the results.
        title: Its name in the report.
        module: The module of its programs, beside this file.
        imports: The statement that imports what a pipeline needs.
        distributions: Distributions whose versions are reported.
        group: The dependency group of the root `pyproject.toml` that installs it.
        notes: Remarks on its programs.
        is_limit: Whether it is no library but the limit: the same work in loops written by hand.
    """

    name: str
    title: str
    module: str
    imports: str
    distributions: tuple[str, ...]
    group: str
    notes: str = ""
    is_limit: bool = False

    def programs(self) -> Programs:
        """Import the programs, and thereby the library."""
        module = importlib.import_module(f"{__name__}.{self.module}")
        return cast(Programs, module)


OURS = "grain"

ALL = [
    Peer(
        name=OURS,
        title="this project",
        module="grain_api",
        imports="from grain import MapDataset",
        distributions=("grain-core", "grain-arrayrecord", "grain-parquet", "numpy"),
        group="bench-grain",
    ),
    Peer(
        name="google-grain",
        title="google/grain",
        module="grain_api",
        imports="from grain import MapDataset",
        distributions=("grain", "array-record", "numpy"),
        group="bench-google-grain",
        notes="The same programs as this project, from the same file.",
    ),
    Peer(
        name="torch",
        title="torch DataLoader",
        module="torch_loader",
        imports="import torch.utils.data",
        distributions=("torch", "numpy"),
        group="bench-torch",
        notes=(
            "Indices are drawn with replacement, which avoids the list of all indices that "
            "`shuffle=True` creates; only the cases of growing length and of the first batch use "
            "`shuffle=True`. Filters are an `IterableDataset` written by hand. Batches are "
            "tensors."
        ),
    ),
    Peer(
        name="datasets",
        title="Hugging Face datasets",
        module="hf_datasets",
        imports="import datasets",
        distributions=("datasets", "pyarrow", "numpy"),
        group="bench-datasets",
        notes=(
            "Tables have 10^6 rows, not 10^7, so that they are created in reasonable time. Functions "
            "run on access (`with_transform`) or while streaming, never ahead of time into a "
            "cache. A streamed shuffle is one within a buffer of 1000."
        ),
    ),
    Peer(
        name="spdl",
        title="SPDL",
        module="spdl_pipeline",
        imports="import spdl.pipeline",
        distributions=("spdl-core", "numpy"),
        group="bench-spdl",
        notes=(
            "Its source yields whole batches of indices, which is fastest; where a case has "
            "single elements, each is a task. Worker processes are a process pool as the executor "
            "of a stage."
        ),
    ),
    Peer(
        name="webdataset",
        title="WebDataset",
        module="web_dataset",
        imports="import webdataset",
        distributions=("webdataset", "torch", "numpy"),
        group="bench-webdataset",
        notes=(
            "Reads tar files from start to end and shuffles within a buffer of 1000, which is less "
            "work than a global shuffle."
        ),
    ),
    Peer(
        name="loop",
        title="of a plain loop",
        module="plain_loop",
        imports="import numpy",
        distributions=("numpy",),
        group="bench-loop",
        notes=(
            "Loops of Python and numpy that do the work of a case and nothing else: indices drawn with "
            "replacement, no states, no workers; files are decoded by a thread for each processor, and "
            "16 threads wait."
        ),
        is_limit=True,
    ),
]

BY_NAME = {peer.name: peer for peer in ALL}
