"""Writing ArrayRecord files."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable
from typing import Any

from array_record.python import array_record_module

from grain_arrayrecord.records import encode_record


def write_array_record(
    path: str | os.PathLike[str],
    records: Iterable[bytes],
    *,
    group_size: int = 1,
    compression: str = "",
    options: str = "",
) -> int:
    """Writes `records` to `path` and returns how many there were.

    Args:
        path: The file to make or replace. It appears whole or not at all.
        records: The records, as bytes.
        group_size: How many records are compressed together. 1 is the fastest to read at random;
            more makes small records of one kind take less room.
        compression: "zstd", "zstd:9", "brotli:5", "snappy" or "uncompressed"; the format's own
            default is zstd.
        options: Further options of the format's writer, such as "transpose:true".

    Example:
        write_array_record("/data/a.array_record", (pickle.dumps(e) for e in examples))
    """
    if group_size < 1:
        raise ValueError(f"group_size must be at least 1, got {group_size}.")
    path = os.fspath(path)
    settings = ",".join(filter(None, (f"group_size:{group_size}", compression, options)))
    unfinished = f"{path}.{uuid.uuid4().hex}.part"
    count = 0
    try:
        writer = array_record_module.ArrayRecordWriter(unfinished, settings)
        for record in records:
            if not isinstance(record, bytes):
                raise TypeError(
                    f"Record {count} must be bytes, got {type(record).__name__}: serialize it "
                    "first, for instance with pickle.dumps or json.dumps(...).encode()."
                )
            writer.write(record)
            count += 1
        writer.close()
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise
    return count


def write_elements(path: str | os.PathLike[str], elements: Iterable[Any], **options: Any) -> int:
    """Writes any elements: bytes as they are, others as `encode_record` makes records of them.

    Options are those of `write_array_record`. `decode_record` gives the elements back.
    """
    records = (e if isinstance(e, bytes) else encode_record(e) for e in elements)
    return write_array_record(path, records, **options)
