"""How commands print: aligned columns for people, JSON for programs."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from typing import Any


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows in aligned columns under a header; the last column is as long as it is.

    Example:
        >>> print(table(["NAME", "STATUS"], [["parquet", "loaded"], ["a", "failed"]]))
        NAME     STATUS
        parquet  loaded
        a        failed
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def kept_clean() -> contextlib.AbstractContextManager[Any]:
    """Sends to stderr what plugins print as they are imported, so that stdout is ours alone."""
    return contextlib.redirect_stdout(sys.stderr)


def print_json(value: Any) -> None:
    """Prints a value as JSON that a person can read as well."""
    # What an encoding lacks must be escaped by JSON's rules.
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    print(json.dumps(value, indent=2, ensure_ascii=not is_unicode))
