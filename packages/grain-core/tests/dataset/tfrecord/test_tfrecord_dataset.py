"""TFRecord files, made here byte by byte."""

from __future__ import annotations

import gzip
import io
import pathlib
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grain.dataset.tfrecord.crc32c import crc32c, masked_crc32c
from grain.experimental import InterleaveIterDataset, TFRecordIterDataset

RECORDS = [b"a", b"", b"hello" * 3, random.Random(1).randbytes(5000), b"x" * 100]


def bit_by_bit(data: bytes) -> int:
    """The checksum straight from its definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def mask(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def encoded(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return (
        length
        + struct.pack("<I", mask(bit_by_bit(length)))
        + record
        + struct.pack("<I", mask(bit_by_bit(record)))
    )


PLAIN = b"".join(map(encoded, RECORDS))
COMPRESSIONS = {"none": lambda data: data, "gzip": gzip.compress, "zlib": zlib.compress}


@pytest.fixture(params=COMPRESSIONS.values(), ids=COMPRESSIONS.keys())
def path(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "records"
    file.write_bytes(request.param(PLAIN))
    return file


def test_the_checksum_is_that_of_the_standard() -> None:
    # Test vectors of RFC 3720.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"") == 0


@settings(deadline=None)
@given(st.binary(max_size=3000))
def test_checksums_of_all_lengths_agree_with_the_definition(data: bytes) -> None:
    assert crc32c(data) == bit_by_bit(data)
    assert masked_crc32c(data) == mask(bit_by_bit(data))


@pytest.mark.parametrize("length", [23, 24, 511, 512, 513, 1024, 1025])
def test_checksums_at_the_ends_of_blocks(length: int) -> None:
    data = random.Random(length).randbytes(length)
    assert crc32c(data) == bit_by_bit(data)


def test_records_come_in_order_and_resume_at_every_step(
    path: pathlib.Path, resumes: Callable[..., Any]
) -> None:
    assert resumes(lambda: TFRecordIterDataset(str(path))) == RECORDS


def test_the_state_is_the_place_in_the_uncompressed_file(path: pathlib.Path) -> None:
    iterator = iter(TFRecordIterDataset(path))
    offset = 0
    for record in RECORDS:
        assert iterator.get_state() == {"reader_offset": offset}
        assert next(iterator) == record
        offset += len(record) + 16


def test_records_longer_than_what_is_read_at_a_time(tmp_path: pathlib.Path) -> None:
    record = bytes(3 << 20)
    length = struct.pack("<Q", len(record))
    body = length + struct.pack("<I", masked_crc32c(length)) + record
    (tmp_path / "big").write_bytes((body + struct.pack("<I", masked_crc32c(record))) * 2)
    assert [len(r) for r in TFRecordIterDataset(str(tmp_path / "big"))] == [3 << 20] * 2


def test_an_empty_file_has_no_records(tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty").touch()
    assert list(TFRecordIterDataset(str(tmp_path / "empty"))) == []


@pytest.mark.parametrize("place", range(17))
def test_a_changed_bit_is_an_error_that_names_file_and_place(
    place: int, tmp_path: pathlib.Path
) -> None:
    damaged = bytearray(PLAIN)
    start = 17 + 16  # The third record.
    damaged[start + place] ^= 4
    file = tmp_path / "damaged"
    file.write_bytes(damaged)
    iterator = iter(TFRecordIterDataset(str(file)))
    assert [next(iterator), next(iterator)] == [b"a", b""]
    with pytest.raises(ValueError, match=f"Not a valid TFRecord at byte {start} of {file}"):
        next(iterator)


@pytest.mark.parametrize("left", [1, 11, 12, 13, 16])
def test_a_file_that_was_cut_short_is_an_error(left: int, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "cut"
    file.write_bytes(PLAIN[:left])
    with pytest.raises(ValueError, match="truncated"):
        list(TFRecordIterDataset(str(file)))


def test_a_missing_file_is_an_error_when_it_is_opened(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError):
        iter(TFRecordIterDataset(str(tmp_path / "none")))


def test_several_paths_are_refused_when_built() -> None:
    with pytest.raises(TypeError, match="InterleaveIterDataset"):
        TFRecordIterDataset(["a", "b"])  # type: ignore[arg-type]


def test_a_closed_iterator_has_closed_its_file(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []

    def spy(*arguments: Any, **options: Any) -> Any:
        opened.append(io.open(*arguments, **options))  # noqa: SIM115, UP020
        return opened[-1]

    monkeypatch.setattr("builtins.open", spy)
    iterator = iter(TFRecordIterDataset(str(path)))
    next(iterator)
    assert not all(file.closed for file in opened)
    iterator.close()
    assert all(file.closed for file in opened)


def test_files_interleave_and_resume(path: pathlib.Path, resumes: Callable[..., Any]) -> None:
    files = [TFRecordIterDataset(str(path))] * 3
    elements = resumes(lambda: InterleaveIterDataset(files, cycle_length=2))
    assert sorted(elements) == sorted(RECORDS * 3)


@pytest.mark.parametrize(
    "offset",
    [-1, len(PLAIN) + 1, 10**18, 2**63 - 1, 2**63, 10**30, None, 1.5, 1.0, True, "0", [], {}],
    ids=repr,
)
def test_an_offset_that_the_file_does_not_have_is_refused(path: pathlib.Path, offset: Any) -> None:
    iterator = iter(TFRecordIterDataset(path))
    assert next(iterator) == RECORDS[0]
    with pytest.raises((TypeError, ValueError), match="`reader_offset` of"):
        iterator.set_state({"reader_offset": offset})
    assert iterator.get_state() == {"reader_offset": 17}
    assert list(iterator) == RECORDS[1:]


def test_the_end_of_a_file_is_an_offset_like_others(path: pathlib.Path) -> None:
    iterator = iter(TFRecordIterDataset(path))
    iterator.set_state({"reader_offset": len(PLAIN)})
    assert list(iterator) == []


def test_a_state_of_a_file_that_was_truncated_is_refused_with_both_lengths(
    tmp_path: pathlib.Path,
) -> None:
    file = tmp_path / "shorter"
    file.write_bytes(PLAIN[:33])
    with pytest.raises(ValueError, match=rf"is {len(PLAIN)}, but the file has 33 bytes: .*trunc"):
        iter(TFRecordIterDataset(file)).set_state({"reader_offset": len(PLAIN)})


def test_a_compressed_file_that_cannot_be_read_to_the_offset_is_named(
    tmp_path: pathlib.Path,
) -> None:
    record = random.Random(2).randbytes(1 << 20)
    length = struct.pack("<Q", len(record))
    body = length + struct.pack("<I", masked_crc32c(length)) + record
    encoded_record = body + struct.pack("<I", masked_crc32c(record))
    file = tmp_path / "cut"
    file.write_bytes(gzip.compress(encoded_record * 3, compresslevel=0)[: -(1 << 19)])
    iterator = iter(TFRecordIterDataset(file))
    assert next(iterator) == record
    offset = 3 * len(encoded_record)
    with pytest.raises(ValueError, match=f"at byte {offset} of {file}: it cannot be decompressed"):
        iterator.set_state({"reader_offset": offset})
    assert iterator.get_state() == {"reader_offset": len(encoded_record)}
