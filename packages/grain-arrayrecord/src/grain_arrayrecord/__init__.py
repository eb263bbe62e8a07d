"""ArrayRecord files as data sources for grain.

Names are imported on first use, so that discovering the plugin does not load the format's library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from grain_arrayrecord.version import __version__

if TYPE_CHECKING:
    from grain_arrayrecord.errors import (
        ArrayRecordFileError,
        ArrayRecordFileNotFoundError,
        ArrayRecordPermissionError,
        RecordIndexError,
    )
    from grain_arrayrecord.record_encoding import decode_record, encode_record
    from grain_arrayrecord.shards import FileInstruction
    from grain_arrayrecord.source import ArrayRecordDataSource
    from grain_arrayrecord.writer import write_array_record

__all__ = [
    "ArrayRecordDataSource",
    "ArrayRecordFileError",
    "ArrayRecordFileNotFoundError",
    "ArrayRecordPermissionError",
    "FileInstruction",
    "RecordIndexError",
    "__version__",
    "decode_record",
    "encode_record",
    "write_array_record",
]

_HOMES = {
    "ArrayRecordDataSource": "source",
    "ArrayRecordFileError": "errors",
    "ArrayRecordFileNotFoundError": "errors",
    "ArrayRecordPermissionError": "errors",
    "FileInstruction": "shards",
    "RecordIndexError": "errors",
    "decode_record": "record_encoding",
    "encode_record": "record_encoding",
    "write_array_record": "writer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
