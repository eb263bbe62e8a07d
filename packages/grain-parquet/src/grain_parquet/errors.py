"""What can go wrong with a Parquet file, each error naming the file and what to do."""

from __future__ import annotations

import pyarrow as pa


class ParquetFileError(pa.ArrowInvalid):  # type: ignore[misc]
    """A file that cannot be read as Parquet, or is not the file it was."""
