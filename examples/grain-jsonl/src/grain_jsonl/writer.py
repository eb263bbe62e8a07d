"""Writer of elements as JSON lines, used by `grain convert`."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Iterable
from typing import Any

import numpy as np


def write_elements(path: str | os.PathLike[str], elements: Iterable[Any]) -> int:
    """Write one line for each element and return their number.

    Numpy's numbers and arrays become JSON's numbers and lists. A value that JSON cannot represent,
    such as bytes, is an error that names the element.

    Args:
        path: The file to create or replace, atomically.
        elements: The elements.
    """
    path = os.fspath(path)
    temporary = f"{path}.{uuid.uuid4().hex}.part"
    try:
        with open(temporary, "wb") as file:
            count = 0
            for element in elements:
                file.write(_line(count, element))
                count += 1
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename is None:
            error.add_note(f"raised while writing {path}; no partial file is left.")
        raise
    return count


def _line(number: int, element: Any) -> bytes:
    try:
        return json.dumps(element, default=_plain, ensure_ascii=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Element {number} cannot be written as JSON: {error}. Leave the value out, or"
            " convert to a format that can hold it."
        ) from error


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufU":
        return value.tolist()
    kind = f"{type(value).__name__}"
    if isinstance(value, np.ndarray):
        kind = f"array of {value.dtype}"
    raise TypeError(f"it holds a value of type {kind}")
