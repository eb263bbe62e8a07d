"""Renaming the features of an element."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from grain import transforms


@dataclasses.dataclass(frozen=True)
class Rekey(transforms.Map):
    """A transformation that renames the features of a dictionary.

    Attributes:
        names: The new name of each feature, by its old name.
        keep_others: Whether features that are not named stay, with their names.

    >>> Rekey({"inputs": "tokens"}).map({"inputs": 1, "id": 2})
    {'tokens': 1, 'id': 2}
    >>> Rekey({"inputs": "tokens"}, keep_others=False).map({"inputs": 1, "id": 2})
    {'tokens': 1}
    """

    names: Mapping[str, str]
    keep_others: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.names, Mapping):
            raise TypeError(
                "rekey needs a dictionary from old names to new ones, got "
                f"{self.names!r} of type {type(self.names).__name__}."
            )
        if len(set(self.names.values())) < len(self.names):
            raise ValueError(f"rekey would give two features the same name: {dict(self.names)}.")

    def map(self, element: Any) -> dict[str, Any]:
        """Return the element with new names, in its old order."""
        if not isinstance(element, Mapping):
            raise TypeError(f"rekey needs dictionaries, got {type(element).__name__}.")
        missing = [name for name in self.names if name not in element]
        if missing:
            raise KeyError(f"rekey renames {missing}, but the element has {sorted(element)}.")
        renamed: dict[str, Any] = {}
        for name, value in element.items():
            if name not in self.names and not self.keep_others:
                continue
            new = self.names.get(name, name)
            if new in renamed:
                raise ValueError(
                    f"rekey gives the name {new!r} to two features of {list(element)}."
                )
            renamed[new] = value
        return renamed

    def output_spec(self, input_spec: Any) -> Any:
        """Return the spec of elements with new names."""
        return self.map(input_spec)
