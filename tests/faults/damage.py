"""Fuzzing of readers: files with seeded damage, in a process of their own.

    python -m tests.faults.damage FORMAT SEED COUNT

prints one line of JSON. A damaged file has to give its data unchanged, or an error that names the file.
Other data is allowed only where the damaged bytes have no checksum.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import random
import resource
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.parity.encoding import encode

import grain

from .interrupts import Hang, no_hang

ROOT = Path(__file__).parents[2]
# No reader of a file of some kilobytes needs more memory than this.
MEMORY = 4 << 30
ROWS = 40


@dataclasses.dataclass
class Report:
    """Outcomes of damaged files of one format.

    Attributes:
        unchanged: files that read as before: the damage hit bytes that carry no data.
        errors: files that gave an error which names them.
        wrong: files that gave other data.
        bad: files that hung, or gave an error without their name, or other data in spite of a checksum.
    """

    format: str
    files: int = 0
    unchanged: int = 0
    errors: int = 0
    wrong: int = 0
    bad: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Format:
    """A file format: how a file is written and read, and whether it carries checksums.

    Attributes:
        checksums: whether there are checksums.
        covered: returns how many bytes at the start of a file they cover.
    """

    write: Callable[[Path, random.Random], None]
    read: Callable[[Path], Any]
    checksums: bool
    covered: Callable[[bytes], int] = len


# --- files ---------------------------------------------------------------------------------------


def _records(rng: random.Random) -> list[bytes]:
    return [rng.randbytes(rng.randrange(1, 90)) for _ in range(ROWS)]


def masked_crc32c(data: bytes) -> int:
    """Return the checksum of TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _tfrecord(rng: random.Random) -> bytes:
    parts = []
    for data in _records(rng):
        length = struct.pack("<Q", len(data))
        checksums = (struct.pack("<I", masked_crc32c(part)) for part in (length, data))
        parts += [length, next(checksums), data, next(checksums)]
    return b"".join(parts)


def _write_tfrecord(pack: Callable[[bytes], bytes]) -> Callable[[Path, random.Random], None]:
    return lambda path, rng: path.write_bytes(pack(_tfrecord(rng))) and None


def _write_parquet(checksums: bool) -> Callable[[Path, random.Random], None]:
    def write(path: Path, rng: random.Random) -> None:
        table = pa.table(
            {
                "number": [rng.randrange(2**40) for _ in range(ROWS)],
                "text": [rng.randbytes(rng.randrange(20)).hex() for _ in range(ROWS)],
                "list": [[rng.random() for _ in range(rng.randrange(4))] for _ in range(ROWS)],
            }
        )
        options = {"row_group_size": 16, "write_page_checksum": checksums}
        pq.write_table(table, path, compression=rng.choice(["none", "snappy", "zstd"]), **options)

    return write


def _write_array_record(path: Path, rng: random.Random) -> None:
    import grain_arrayrecord

    grain_arrayrecord.write_array_record(
        path, _records(rng), group_size=rng.choice([1, 4]), compression=rng.choice(["", "snappy"])
    )


def _write_json_lines(path: Path, rng: random.Random) -> None:
    rows = [{"number": rng.randrange(99), "text": rng.randbytes(9).hex()} for _ in range(ROWS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _read_source(kind: str) -> Callable[[Path], Any]:
    def read(path: Path) -> Any:
        source = getattr(grain.sources, kind)(str(path))
        found = [encode(source[index]) for index in range(len(source))]
        many = getattr(source, "__getitems__", None)
        if many is not None and [encode(x) for x in many(list(range(len(source))))] != found:
            raise AssertionError("reads of one and of many records differ")
        return found

    return read


def _read_stream(kind: str) -> Callable[[Path], Any]:
    return lambda path: [encode(x) for x in getattr(grain.experimental, kind)(str(path))]


def _before_the_footer(data: bytes) -> int:
    """Return where the footer of a Parquet file starts: checksums cover pages only."""
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


FORMATS = {
    "TFRecord": Format(_write_tfrecord(bytes), _read_stream("TFRecordIterDataset"), True),
    "TFRecord, gzip": Format(
        _write_tfrecord(lambda data: gzip.compress(data, mtime=0)),
        _read_stream("TFRecordIterDataset"),
        True,
    ),
    "TFRecord, zlib": Format(
        _write_tfrecord(zlib.compress), _read_stream("TFRecordIterDataset"), True
    ),
    "ArrayRecord": Format(_write_array_record, _read_source("ArrayRecordDataSource"), True),
    "Parquet with checksums": Format(
        _write_parquet(checksums=True),
        _read_source("ParquetDataSource"),
        True,
        _before_the_footer,
    ),
    "Parquet": Format(_write_parquet(checksums=False), _read_source("ParquetDataSource"), False),
    "Parquet, streamed": Format(
        _write_parquet(checksums=True),
        _read_stream("ParquetIterDataset"),
        True,
        _before_the_footer,
    ),
    "JSON lines": Format(_write_json_lines, _read_source("JsonLinesDataSource"), False),
}


# --- damage --------------------------------------------------------------------------------------


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with one seeded kind of damage."""
    start = rng.randrange(len(data))
    stop = min(len(data), start + rng.choice([1, 4, 64, 1000]))
    match rng.randrange(7):
        case 0 | 1:
            flipped = data[start] ^ 1 << rng.randrange(8)
            return data[:start] + bytes([flipped]) + data[start + 1 :]
        case 2:
            return data[:start]
        case 3:
            return data[:start] + bytes(stop - start) + data[stop:]
        case 4:
            return data[:start] + rng.randbytes(stop - start) + data[stop:]
        case 5:
            return data[:start] + data[stop:]
        case _:
            return data[:stop] + data[start:]


def run(name: str, seed: int, count: int) -> Report:
    """Damage files of one format, and read them."""
    form, report = FORMATS[name], Report(name)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            rng = random.Random(f"{name} {seed} {number}")
            path = Path(folder) / f"file-{number}"
            form.write(path, rng)
            whole = path.read_bytes()
            expected = form.read(path)
            broken = damaged(whole, rng)
            path.write_bytes(broken)
            report.files += 1
            label = f"{name}, seed {seed}, file {number}"
            try:
                with no_hang():
                    found = form.read(path)
            except (Exception, Hang) as error:
                text = " ".join([str(error), *getattr(error, "__notes__", ())])
                if isinstance(error, (Hang, MemoryError)) or str(path) not in text:
                    report.bad.append(f"{label}: {type(error).__name__}: {text[:300]}")
                else:
                    report.errors += 1
            else:
                if found == expected:
                    report.unchanged += 1
                else:
                    report.wrong += 1
                    # Whole records at the end may be missing from a file that is cut between two.
                    cut = whole.startswith(broken) and found == expected[: len(found)]
                    covered = form.covered(whole) if form.checksums else 0
                    hit = broken[:covered] != whole[:covered]
                    if hit and not (cut and name == "TFRecord"):
                        report.bad.append(f"{label}: other data in spite of a checksum")
            path.unlink()
    return report


def run_apart(name: str, seed: int, count: int, timeout: float = 600) -> Report:
    """Read damaged files in a process of their own, which may crash."""
    command = [sys.executable, "-m", "tests.faults.damage", name, str(seed), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=ROOT)
    if done.returncode:
        report = Report(name, count)
        report.bad.append(f"{name}: exit code {done.returncode}: {done.stderr[-2000:]}")
        return report
    return Report(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(dataclasses.asdict(run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
