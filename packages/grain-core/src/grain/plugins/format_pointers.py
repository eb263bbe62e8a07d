"""What to write for files of formats that no plugin opens by their suffix."""

from __future__ import annotations

import os

_TABLE = "grain.MapDataset.source takes the rows of a data frame"
_IMAGES = (
    "images are read by a function: `grain.MapDataset.source(paths).map(decode)`, as"
    " examples/image_folder.py does"
)
_POINTERS = {
    (".tfrecord", ".tfrecords"): "TFRecord files are read in order, by"
    " `grain.experimental.TFRecordIterDataset(path)`",
    (".jsonl", ".ndjson"): f"{_TABLE}: `pandas.read_json(path, lines=True)`; the plugin in"
    " examples/grain-jsonl reads large files by index",
    (".json",): f"{_TABLE}: `pandas.read_json(path)`",
    (".csv",): f"{_TABLE}: `pandas.read_csv(path)`",
    (".tsv",): f"{_TABLE}: `pandas.read_csv(path, sep='\\t')`",
    (".xlsx", ".xls"): f"{_TABLE}: `pandas.read_excel(path)`",
    (".arrow", ".feather", ".ipc"): f"{_TABLE}: `pyarrow.feather.read_table(path)`",
    (".pq", ".parq"): "Parquet files of another suffix are opened by scheme: `parquet://` before an"
    " absolute path, or `grain.sources.ParquetDataSource(path)`",
    (".npy",): "arrays are sources: `grain.MapDataset.source(numpy.load(path, mmap_mode='r'))`",
    (".npz",): "arrays are columns: `grain.MapDataset.source(dict(numpy.load(path)))`",
    (".h5", ".hdf5"): "datasets of h5py are sources: `grain.MapDataset.source(file['name'])`",
    (
        ".txt",
    ): "lines of text are a list: `grain.MapDataset.source(open(path).read().splitlines())`",
    (".tar",): "members of a tar file are read by a function, as examples/images_from_tar.py does",
    (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"): _IMAGES,
}


def pointer_for(path: str) -> str:
    """Return a sentence on how to read a file, from its suffix; empty where there is none.

    >>> pointer_for("train.csv")
    'grain.MapDataset.source takes the rows of a data frame: `pandas.read_csv(path)`.'
    """
    lower = path.lower()
    for suffixes, pointer in _POINTERS.items():
        if lower.endswith(suffixes):
            return f"{pointer[:1]}{pointer[1:]}."
    if os.path.isdir(path) and _has_images(path):
        return f"It is a folder with images, and {_IMAGES}."
    return ""


def _has_images(folder: str) -> bool:
    suffixes = next(key for key, pointer in _POINTERS.items() if pointer is _IMAGES)
    for number, (_, _, files) in enumerate(os.walk(folder)):
        if any(file.lower().endswith(suffixes) for file in files):
            return True
        if number >= 20:  # Of a large tree, some folders will do.
            break
    return False
