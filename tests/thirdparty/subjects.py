"""Sources of other libraries as subjects of the conformance checks, each used as its users would."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from typing import Any

import numpy as np

from grain.plugins import Capability
from grain.testing import Case

COUNT = 12
MATRIX = np.arange(COUNT * 3, dtype=np.float32).reshape(COUNT, 3)
SAFE = frozenset({Capability.THREAD_SAFE})
BATCHED = frozenset({Capability.BATCHED_READ, Capability.THREAD_SAFE})


def _path(directory: str, name: str) -> str:
    return os.path.join(directory, name)


# numpy


def write_array(directory: str) -> None:
    MATRIX.tofile(_path(directory, "rows.bin"))


def memory_map(directory: str) -> Any:
    return np.memmap(_path(directory, "rows.bin"), np.float32, "r", shape=MATRIX.shape)


# Hugging Face datasets


def write_datasets(directory: str) -> None:
    import datasets

    datasets.disable_progress_bars()
    table = {"number": list(range(COUNT)), "text": [f"row {n}" for n in range(COUNT)]}
    datasets.Dataset.from_dict(table).save_to_disk(_path(directory, "data"))


def hugging_face(directory: str) -> Any:
    import datasets

    return datasets.load_from_disk(_path(directory, "data"))


# TFDS


def write_tfds(directory: str) -> None:
    import tensorflow_datasets as tfds

    tfds.display_progress_bar(False)
    with contextlib.redirect_stdout(io.StringIO()):
        _builder(directory).download_and_prepare()


def _builder(directory: str) -> Any:
    from tests.thirdparty.tfds_builder import TinyThirdParty

    return TinyThirdParty(data_dir=directory, file_format="array_record")


def tfds_source(directory: str) -> Any:
    return _builder(directory).as_data_source(split="train")


# Lance


def write_lance(directory: str) -> None:
    import lance
    import pyarrow as pa

    lance.write_dataset(pa.table({"number": np.arange(COUNT)}), _path(directory, "data.lance"))


def lance_rows(directory: str) -> Any:
    from lance.torch.data import SafeLanceDataset

    return SafeLanceDataset(_path(directory, "data.lance"))


# Bagz


def write_bagz(directory: str) -> None:
    import bagz

    with bagz.Writer(_path(directory, "data.bagz")) as writer:
        for number in range(COUNT):
            writer.write(b"record %d" % number)


def bagz_reader(directory: str) -> Any:
    import bagz

    return bagz.Reader(_path(directory, "data.bagz"))


# Zarr and HDF5


def write_zarr(directory: str) -> None:
    import zarr

    array = zarr.create_array(
        _path(directory, "data.zarr"), shape=MATRIX.shape, chunks=(4, 3), dtype=MATRIX.dtype
    )
    array[:] = MATRIX


def zarr_array(directory: str) -> Any:
    import zarr

    return zarr.open_array(_path(directory, "data.zarr"), mode="r")


def write_hdf5(directory: str) -> None:
    import h5py

    with h5py.File(_path(directory, "data.h5"), "w") as file:
        file["rows"] = MATRIX


def hdf5_dataset(directory: str) -> Any:
    import h5py

    return h5py.File(_path(directory, "data.h5"), "r")["rows"]


# Data frames


class PandasRows:
    """The rows of a data frame of pandas, as users write it."""

    def __init__(self, frame: Any):
        self._frame = frame

    def __len__(self) -> int:
        return len(self._frame)

    def __getitem__(self, index: int) -> Any:
        return self._frame.iloc[index].to_dict()


class PolarsRows:
    """The rows of a data frame of polars, as users write it."""

    def __init__(self, frame: Any):
        self._frame = frame

    def __len__(self) -> int:
        return len(self._frame)

    def __getitem__(self, index: int) -> Any:
        return self._frame.row(index, named=True)


def pandas_rows() -> Any:
    import pandas as pd

    return PandasRows(pd.DataFrame({"number": range(COUNT), "text": list("abcdef") * 2}))


def polars_rows() -> Any:
    import polars as pl

    return PolarsRows(pl.DataFrame({"number": range(COUNT), "text": list("abcdef") * 2}))


# PyTorch


def tensor_dataset() -> Any:
    import torch

    return torch.utils.data.TensorDataset(torch.tensor(MATRIX), torch.arange(COUNT))


def torch_subset() -> Any:
    import torch

    return torch.utils.data.Subset(tensor_dataset(), list(range(0, COUNT, 2)))


def concatenated() -> Any:
    import torch

    return torch.utils.data.ConcatDataset([tensor_dataset(), torch_subset()])


# WebDataset


def write_webdataset(directory: str) -> None:
    with tarfile.open(_path(directory, "data.tar"), "w") as file:
        for number in range(COUNT):
            data = b"%d" % number
            member = tarfile.TarInfo(f"{number:06}.cls")
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))


def webdataset_list(directory: str) -> Any:
    import webdataset

    stream = webdataset.WebDataset(_path(directory, "data.tar"), shardshuffle=False)
    return [(sample["__key__"], sample["cls"]) for sample in stream.decode()]


def cases() -> list[Case]:
    """Return a case for each source; capabilities are those that its documentation promises."""

    def case(name: str, make: Any, prepare: Any = None, **options: Any) -> Case:
        options.setdefault("capabilities", SAFE)
        return Case(name=name, make=make, prepare=prepare, **options)

    return [
        case("numpy.memmap", memory_map, write_array, elements=list(MATRIX)),
        case("datasets.Dataset", hugging_face, write_datasets, length=COUNT, capabilities=BATCHED),
        case("tfds.data_source", tfds_source, write_tfds, length=COUNT, capabilities=BATCHED),
        case(
            "lance (SafeLanceDataset)", lance_rows, write_lance, length=COUNT, capabilities=BATCHED
        ),
        case("bagz.Reader", bagz_reader, write_bagz, length=COUNT),
        case("zarr.Array", zarr_array, write_zarr, elements=list(MATRIX)),
        case("h5py.Dataset", hdf5_dataset, write_hdf5, elements=list(MATRIX)),
        case("pandas.DataFrame, by row", pandas_rows, length=COUNT),
        case("polars.DataFrame, by row", polars_rows, length=COUNT),
        case("torch TensorDataset", tensor_dataset, length=COUNT),
        case("torch Subset", torch_subset, length=COUNT // 2, capabilities=BATCHED),
        case("torch ConcatDataset", concatenated, length=COUNT + COUNT // 2),
        case("webdataset, as a list", webdataset_list, write_webdataset, length=COUNT),
    ]
