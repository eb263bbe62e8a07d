"""Writing elements as JSON lines, as `grain convert` does."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterable
from typing import Any

import numpy as np


def write_elements(path: str | os.PathLike[str], elements: Iterable[Any]) -> int:
    """Writes one line for each element, and returns how many there were.

    The file is made or replaced, and appears whole or not at all.

    Numpy's numbers and arrays become JSON's numbers and lists. What JSON has no words for, bytes
    above all, is an error that says which element has it.
    """
    path = os.fspath(path)
    unfinished = f"{path}.{uuid.uuid4().hex}.part"
    try:
        with open(unfinished, "wb") as file:
            count = 0
            for element in elements:
                file.write(_line(count, element))
                count += 1
        os.replace(unfinished, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        if isinstance(error, OSError) and error.filename is None:
            error.add_note(f"This was raised while {path} was written; nothing of it is left.")
        raise
    return count


def _line(number: int, element: Any) -> bytes:
    try:
        return json.dumps(element, default=_plain, ensure_ascii=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Element {number} cannot be written as JSON: {error}. Leave that part out, or"
            " convert to a format that holds it."
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufU":
        return value.tolist()
    kind = f"{type(value).__name__}"
    if isinstance(value, np.ndarray):
        kind = f"array of {value.dtype}"
    raise TypeError(f"it holds a value of type {kind}")
