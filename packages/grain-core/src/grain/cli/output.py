"""Output of commands: aligned tables and JSON."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from typing import Any


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""Return rows in aligned columns under a header, with terminal control sequences escaped.

    Example:
        >>> print(table(["NAME", "STATUS"], [["parquet", "loaded"], ["a", "failed"]]))
        NAME     STATUS
        parquet  loaded
        a        failed
        >>> print(table(["NAME", "STATUS"], [["a\x1b[31m", "failed"]]))
        NAME       STATUS
        a\x1b[31m  failed
    """
    lines = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def counted(number: int, noun: str) -> str:
    """Return a number with a noun in singular or plural.

    Example:
        >>> counted(1, "case"), counted(2, "case")
        ('1 case', '2 cases')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    r"""Return a text with terminal control sequences escaped; lines stay lines.

    Example:
        >>> printable("a\x1b[31mb")
        'a\\x1b[31mb'
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def stdout_to_stderr() -> contextlib.AbstractContextManager[Any]:
    """Redirect the output of imported plugins to stderr; stdout is for the command's results."""
    return contextlib.redirect_stdout(sys.stderr)


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    # Characters that the encoding lacks must be escaped by the rules of JSON.
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    print(json.dumps(value, indent=2, ensure_ascii=not is_unicode))
