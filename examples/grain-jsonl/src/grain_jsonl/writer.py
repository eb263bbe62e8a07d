"""Writing elements as JSON lines, as `grain convert` does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np


def write_elements(path: str | os.PathLike[str], elements: Iterable[Any]) -> int:
    """Writes one line for each element, replacing the file, and returns how many there were.

    Numpy's numbers and arrays become JSON's numbers and lists. What JSON has no words for, bytes
    above all, is an error that says which element has it.
    """
    count = 0
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for element in elements:
            try:
                line = json.dumps(element, default=_plain, ensure_ascii=False)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"Element {count} cannot be written as JSON: {error}. Leave that part out, or"
                    " convert to a format that holds it."
                ) from error
            file.write(line + "\n")
            count += 1
    return count


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufU":
        return value.tolist()
    kind = f"{type(value).__name__}"
    if isinstance(value, np.ndarray):
        kind = f"array of {value.dtype}"
    raise TypeError(f"it holds a value of type {kind}")
