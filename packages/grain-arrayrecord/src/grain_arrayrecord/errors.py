"""Errors of ArrayRecord files; each message names the file and what to do.

The additional base classes keep code working that catches the errors of other readers of this format.
"""

from __future__ import annotations


class RecordIndexError(IndexError, ValueError):
    """An index outside of the source."""


class ArrayRecordFileError(RuntimeError):
    """A file that cannot be read as ArrayRecord, or has changed."""


class ArrayRecordFileNotFoundError(FileNotFoundError, ArrayRecordFileError):
    """A path or pattern that matches no file."""


class ArrayRecordPermissionError(PermissionError, ArrayRecordFileError):
    """A file without read permission for this user."""
