"""What can go wrong with an ArrayRecord file, each error naming the file and what to do.

The mixed-in base classes keep code working that catches what other readers of this format raise.
"""

from __future__ import annotations


class RecordIndexError(IndexError, ValueError):
    """An index outside of the source."""


class ArrayRecordFileError(RuntimeError):
    """A file that cannot be read as ArrayRecord, or is not the file it was."""


class ArrayRecordFileNotFoundError(FileNotFoundError, ArrayRecordFileError):
    """A path or pattern with no file behind it."""


class ArrayRecordPermissionError(PermissionError, ArrayRecordFileError):
    """A file that this user may not read."""
