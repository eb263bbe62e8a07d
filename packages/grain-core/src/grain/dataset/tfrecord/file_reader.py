"""Reading of TFRecord files record by record, for programs that open the files in their own way.

A subclass of `TFRecordFileReader` assigns `_reader`, any binary file; a subclass of `TFRecordFileIterator`
assigns `_reader`, any reader with `__next__`, `tell` and `seek`.
"""

from __future__ import annotations

import struct
from typing import IO, Any

from grain.dataset.iterator import DatasetIterator, state_field
from grain.dataset.tfrecord.crc32c import masked_crc32c

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")


class TFRecordFileReader:
    """An iterator over the records of one uncompressed file; checksums are verified."""

    _reader: IO[bytes]

    def __init__(self, path: str):
        self._reader = open(path, "rb")  # noqa: SIM115 - closed with the reader

    def __iter__(self) -> TFRecordFileReader:
        return self

    def __next__(self) -> bytes:
        header = self._reader.read(_HEADER.size)
        if not header:
            raise StopIteration
        length, checksum = _HEADER.unpack(self._checked(header, _HEADER.size))
        if masked_crc32c(header[:8]) != checksum:
            raise self._invalid("the checksum of its length is wrong")
        body = self._checked(self._reader.read(length + _CHECKSUM.size), length + _CHECKSUM.size)
        record = body[:length]
        if masked_crc32c(record) != _CHECKSUM.unpack_from(body, length)[0]:
            raise self._invalid("the checksum of its data is wrong")
        return record

    def _checked(self, found: bytes, count: int) -> bytes:
        if len(found) < count:
            raise self._invalid(f"{count} bytes are needed, {len(found)} are left")
        return found

    def _invalid(self, reason: str) -> ValueError:
        return ValueError(f"Not a valid TFRecord before byte {self.tell()}: {reason}.")

    def tell(self) -> int:
        """Return the offset of the next record."""
        return self._reader.tell()

    def seek(self, offset: int) -> None:
        """Go to the record at an offset."""
        self._reader.seek(offset)

    def close(self) -> None:
        """Close the file."""
        self._reader.close()


class TFRecordFileIterator(DatasetIterator[bytes]):
    """An iterator over the records of a reader; its state is the offset of the next record."""

    def __init__(self, path: str):
        super().__init__()
        self._reader: Any = TFRecordFileReader(path)

    def __next__(self) -> bytes:
        self._assert_not_closed()
        record: bytes = next(self._reader)
        return record

    def get_state(self) -> dict[str, int]:
        return {"reader_offset": self._reader.tell()}

    def set_state(self, state: dict[str, int]) -> None:
        self._reader.seek(int(state_field(state, "reader_offset", self)))

    def close(self) -> None:
        """Close the file."""
        super().close()
        self._reader.close()
