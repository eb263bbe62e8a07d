"""Errors of Parquet files; each message names the file and what to do."""

from __future__ import annotations

import pyarrow as pa


class ParquetFileError(pa.ArrowInvalid):  # type: ignore[misc]
    """A file that cannot be read as Parquet, or has changed."""


def conversion_error(origin: str, error: Exception) -> ParquetFileError:
    """Return the error for a column whose values cannot be converted, such as invalid text.

    Args:
        origin: Column and file.
        error: The error of decoding or of arrow.
    """
    return ParquetFileError(
        f"Cannot convert {origin}: {error}. Text must be valid UTF-8; write the column again, as"
        " binary if it is not text, or leave it out."
    )
