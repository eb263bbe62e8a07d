"""Records of TFRecord files, read without TensorFlow."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import sys
import weakref
import zlib
from collections.abc import Sequence
from typing import IO, Any, cast

from grain.dataset.chunk import END, Chunk
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.node import ExecutionTrait, lines
from grain.dataset.tfrecord.crc32c import masked_crc32c
from grain.options import checked_int

# A record is its length, the checksum of that, its bytes, and the checksum of those.
_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_CHUNK = 1 << 20
_MAX_READ = 64 << 20
# Raised for compressed files that are damaged.
_DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error)
_GZIP_MAGIC = b"\x1f\x8b"


class TFRecordIterDataset(IterDataset[bytes]):
    """The records of a TFRecord file, as bytes, in order.

    Checksums are verified. Files that were compressed as a whole, with gzip or zlib, are recognised by
    their first bytes.

    Args:
        path: The file. For several files, pass one dataset of each to `InterleaveIterDataset`.
    """

    def __init__(self, path: str):
        super().__init__()
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(
                f"path must be the path of one TFRecord file, got {path!r} of type "
                f"{type(path).__name__}. For several files, pass one dataset of each to "
                "grain.experimental.InterleaveIterDataset."
            )
        self._path = os.fspath(path)
        if not self._path:
            raise ValueError("path must be the path of a TFRecord file, got an empty one.")

    execution_trait = ExecutionTrait.SOURCE

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[bytes]:
        del parents
        return TFRecordDatasetIterator(self._path)

    def __str__(self) -> str:
        return f"TFRecordIterDataset(path={self._path!r})"

    def fingerprint(self) -> list[lines.Line]:
        return [lines.Line("file", str(self._path))]


class TFRecordDatasetIterator(ChunkIterator[bytes]):
    """An iterator over records; its state is the offset of the next one in the uncompressed file."""

    def __init__(self, path: str):
        super().__init__()
        self._path = path
        self._file = _open(path)
        # A dropped iterator closes its file as well.
        weakref.finalize(self, self._file.close)
        self._offset = 0
        # The bytes that were read from `_offset` on.
        self._ahead = b""

    def __str__(self) -> str:
        return f"TFRecordDatasetIterator(path={self._path!r})"

    def _pull(self, limit: int) -> Chunk:
        records: list[bytes] = []
        ends: list[int] = []
        taken = 0
        error: Exception | None = None
        while len(records) < max(1, limit) and taken < _CHUNK:
            try:
                record = self._record(taken)
            except ValueError as found:
                error = found
                break
            if record is None:
                break
            records.append(record)
            taken += _HEADER.size + len(record) + _CHECKSUM.size
            ends.append(self._offset + taken)
        self._offset += taken
        self._ahead = self._ahead[taken:]
        chunk = Chunk(records, lambda offset: {"reader_offset": ends[offset]}) if records else END
        return chunk if error is None else self._fail_after(error, chunk)

    def _record(self, start: int) -> bytes | None:
        """Return the record at `start` of the bytes that were read; None at the end of the file."""
        header = self._bytes(start, _HEADER.size)
        if not header:
            return None
        length, checksum = _HEADER.unpack(self._checked(header, _HEADER.size, start, "header"))
        if masked_crc32c(header[: _LENGTH.size]) != checksum:
            raise self._invalid("the checksum of its length is wrong", start)
        size = length + _CHECKSUM.size
        body = self._checked(
            self._bytes(start + _HEADER.size, size), size, start, f"record of {length} bytes"
        )
        record = body[:length]
        if masked_crc32c(record) != _CHECKSUM.unpack_from(body, length)[0]:
            raise self._invalid("the checksum of its data is wrong", start)
        return record

    def _bytes(self, start: int, count: int) -> bytes:
        """Return `count` bytes at `start`, reading more of the file as needed."""
        end = start + count
        while len(self._ahead) < end:
            # Not all at once: a damaged length may be far larger than the file.
            missing = min(end - len(self._ahead), max(_MAX_READ, len(self._ahead)))
            try:
                more = self._file.read(max(_CHUNK, missing))
            except _DAMAGED as error:
                raise self._invalid(f"it cannot be decompressed ({error})", start) from error
            if not more:
                break
            self._ahead += more
        return self._ahead[start:end]

    def _checked(self, found: bytes, count: int, start: int, what: str) -> bytes:
        if len(found) < count:
            raise self._invalid(
                f"its {what} is truncated: {count} bytes are needed, {len(found)} are left",
                start,
            )
        return found

    def _invalid(self, reason: str, start: int) -> ValueError:
        return ValueError(
            f"Not a valid TFRecord at byte {self._offset + start} of {self._path}: {reason}. The "
            "file is damaged, truncated, or no TFRecord file."
        )

    def _live_state(self) -> Any:
        return {"reader_offset": self._offset}

    def _restore(self, state: Any) -> None:
        found = state_field(state, "reader_offset", self)
        offset = checked_int("`reader_offset` of a state", found, least=0)
        reached = self._seek(min(offset, sys.maxsize))
        if reached < offset:
            raise ValueError(
                f"`reader_offset` of the state for {self} is {offset}, but the file has {reached} bytes: "
                "it was truncated or replaced after the state was saved, or the state is of another file."
            )
        self._offset, self._ahead = offset, b""

    def _seek(self, offset: int) -> int:
        """Move to an offset of the uncompressed file; return it, or the file's length if that is less."""
        if isinstance(self._file, io.FileIO):
            # A plain file can be moved beyond its end.
            status = os.fstat(self._file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size < offset:
                return status.st_size
        try:
            return self._file.seek(offset)
        except _DAMAGED as error:
            reason = f"it cannot be decompressed ({error})"
            raise self._invalid(reason, offset - self._offset) from error

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._file.close()


def _open(path: str) -> IO[bytes]:
    """Open a file for reading, decompressed if it is compressed."""
    file = open(path, "rb", buffering=0)  # noqa: SIM115 - the iterator closes it
    try:
        start = file.read(_HEADER.size)
        file.seek(0)
        # The checksum of the first length distinguishes it from a compressed file.
        if len(start) == _HEADER.size:
            checksum = _HEADER.unpack(start)[1]
            if masked_crc32c(start[: _LENGTH.size]) == checksum:
                return file
        if start.startswith(_GZIP_MAGIC):
            file.close()
            return cast("IO[bytes]", gzip.open(path, "rb"))
        if len(start) >= 2 and start[0] & 15 == 8 and int.from_bytes(start[:2], "big") % 31 == 0:
            return io.BufferedReader(_ZlibFile(file))
    except BaseException:
        file.close()
        raise
    return file


class _ZlibFile(io.RawIOBase):
    """A file compressed as one zlib stream."""

    def __init__(self, file: IO[bytes]):
        super().__init__()
        self._file = file
        self._start()

    def _start(self) -> None:
        self._file.seek(0)
        self._inflate = zlib.decompressobj()
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        while not self._inflate.eof:
            compressed = self._inflate.unconsumed_tail or self._file.read(_CHUNK)
            found = self._inflate.decompress(compressed, len(view))
            if found:
                view[: len(found)] = found
                self._position += len(found)
                return len(found)
            if not compressed:
                raise EOFError("The compressed data ends before the end of its stream.")
        return 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        target = offset + (self._position if whence == io.SEEK_CUR else 0)
        if target < self._position:
            self._start()
        while self._position < target and self.readinto(
            bytearray(min(_CHUNK, target - self._position))
        ):
            pass
        return self._position

    def close(self) -> None:
        self._file.close()
        super().close()
