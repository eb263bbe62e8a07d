"""JSON-lines files as data sources for grain."""

from __future__ import annotations

from grain_jsonl.index import write_index
from grain_jsonl.source import JsonLinesDataSource, JsonLinesFileError
from grain_jsonl.version import __version__

__all__ = ["JsonLinesDataSource", "JsonLinesFileError", "__version__", "write_index"]
