"""The files that cases read, created once from fixed seeds in a folder that all peers use."""

from __future__ import annotations

import dataclasses
import io
import pathlib
import shutil
import tarfile

import numpy as np

VERSION = 1
"""Increased when the files change, so that a folder from an earlier run is created again."""

IMAGE_FILE_SIDE = 256
SHARDS = 4


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """Number of items of each kind; `Data` describes them."""

    images: int = 512
    small_files: int = 4000
    lines: int = 20_000
    records: int = 100_000
    rows: int = 200_000


@dataclasses.dataclass(frozen=True)
class Data:
    """Paths of the files."""

    folder: pathlib.Path

    @property
    def array_record(self) -> str:
        """100 000 records of 1 KiB, one in a group."""
        return str(self.folder / "records.array_record")

    @property
    def parquet(self) -> str:
        """200 000 rows of a number, a fraction and a text, 10 000 in a row group."""
        return str(self.folder / "table.parquet")

    @property
    def image_files(self) -> list[str]:
        """JPEG files of 256 by 256 pixels."""
        return sorted(map(str, (self.folder / "images").glob("*.jpg")))

    @property
    def image_shards(self) -> list[str]:
        """The JPEG files in tar files."""
        return sorted(map(str, self.folder.glob("images-*.tar")))

    @property
    def small_files(self) -> list[str]:
        """`.npy` files of 1 KiB."""
        return sorted(map(str, (self.folder / "small").glob("*.npy")))

    @property
    def small_shards(self) -> list[str]:
        """The `.npy` files in tar files."""
        return sorted(map(str, self.folder.glob("small-*.tar")))

    def lines(self) -> list[str]:
        """Lines of 5 to 300 words of a made-up language."""
        return (self.folder / "text.txt").read_text().splitlines()


def make(folder: pathlib.Path, sizes: Sizes | None = None) -> Data:
    """Create the files unless they exist completely, and return their paths."""
    data, sizes = Data(folder), sizes or Sizes()
    mark = folder / f"complete-{VERSION}"
    if mark.exists():
        return data
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_images(data, sizes.images)
    write_small_files(data, sizes.small_files)
    write_text(data, sizes.lines)
    write_array_record(data, sizes.records)
    write_parquet(data, sizes.rows)
    mark.touch()
    return data


def write_images(data: Data, count: int) -> None:
    """Write smooth random images, which compress as photographs do."""
    from PIL import Image

    (data.folder / "images").mkdir()
    rng = np.random.default_rng(0)
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 255, (32, 32, 3), dtype=np.uint8))
        image = coarse.resize((IMAGE_FILE_SIDE, IMAGE_FILE_SIDE), Image.Resampling.BICUBIC)
        image.save(data.folder / f"images/{number:05d}.jpg", quality=90)
    write_shards(data.folder, "images", data.image_files)


def write_small_files(data: Data, count: int) -> None:
    """Write many small files."""
    (data.folder / "small").mkdir()
    for number in range(count):
        np.save(data.folder / f"small/{number:05d}.npy", np.full((256,), number, np.float32))
    write_shards(data.folder, "small", data.small_files)


def write_shards(folder: pathlib.Path, name: str, files: list[str]) -> None:
    """Write the same files into tar files, for peers that read tar files."""
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{name}-{shard}.tar", "w") as tar:
            for file in files[shard::SHARDS]:
                tar.add(file, arcname=pathlib.Path(file).name)


def write_text(data: Data, count: int) -> None:
    """Write words whose frequencies fall as those of a language do."""
    rng = np.random.default_rng(0)
    text = io.StringIO()
    for length in rng.integers(5, 300, count):
        words = np.minimum(rng.zipf(1.3, length), 30_000)
        text.write(" ".join(f"w{word}" for word in words) + "\n")
    (data.folder / "text.txt").write_text(text.getvalue())


def write_array_record(data: Data, count: int) -> None:
    """Write incompressible records."""
    from array_record.python import array_record_module

    rng = np.random.default_rng(0)
    writer = array_record_module.ArrayRecordWriter(data.array_record, "group_size:1")
    for _ in range(count):
        writer.write(rng.bytes(1024))
    writer.close()


def write_parquet(data: Data, count: int) -> None:
    """Write three columns of different types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "id": np.arange(count),
        "x": np.random.default_rng(0).random(count),
        "text": [f"w{i} " * 8 for i in range(count)],
    }
    pq.write_table(pa.table(columns), data.parquet, row_group_size=10_000)
