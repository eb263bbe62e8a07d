"""Writer of ArrayRecord files."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable
from typing import Any

from array_record.python import array_record_module

from grain_arrayrecord.record_encoding import encode_record


def write_array_record(
    path: str | os.PathLike[str],
    records: Iterable[bytes],
    *,
    group_size: int = 1,
    compression: str = "",
    options: str = "",
) -> int:
    """Write `records` to `path` and return their number.

    Args:
        path: The file to create or replace, atomically.
        records: The records, as bytes.
        group_size: Number of records that are compressed together. 1 is fastest for random access;
            more saves space for small, similar records.
        compression: "zstd", "zstd:9", "brotli:5", "snappy" or "uncompressed"; the format's
            default is zstd.
        options: Further options of the format's writer, such as "transpose:true".

    Example:
        write_array_record("/data/a.array_record", (pickle.dumps(e) for e in examples))
    """
    if group_size < 1:
        raise ValueError(f"group_size must be at least 1, got {group_size}.")
    path = os.fspath(path)
    settings = ",".join(filter(None, (f"group_size:{group_size}", compression, options)))
    temporary = f"{path}.{uuid.uuid4().hex}.part"
    count = 0
    try:
        writer = array_record_module.ArrayRecordWriter(temporary, settings)
        for record in records:
            if not isinstance(record, bytes):
                raise TypeError(
                    f"Record {count} must be bytes, got {type(record).__name__}: serialize it "
                    "first, for instance with pickle.dumps or json.dumps(...).encode()."
                )
            writer.write(record)
            count += 1
        writer.close()
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return count


def write_elements(path: str | os.PathLike[str], elements: Iterable[Any], **options: Any) -> int:
    """Write elements and return their number: bytes as they are, others by `encode_record`.

    `decode_record` restores the elements.

    Args:
        path: The file to create or replace.
        elements: The elements.
        options: Keyword arguments of `write_array_record`.
    """
    records = (e if isinstance(e, bytes) else encode_record(e) for e in elements)
    return write_array_record(path, records, **options)
