"""Features of a fixed length: longer ones are trimmed, shorter ones padded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from grain import transforms
from grain.dataset.element_spec import ShapeDtypeStruct
from grain.options import checked_int


@dataclasses.dataclass(frozen=True)
class PadOrTrim(transforms.Map):
    """A transformation of arrays to a fixed length along their first dimension.

    Attributes:
        lengths: The length of each feature by its name, or one length for elements that are arrays.
            Other features stay unchanged.
        pad_value: The padding, one value or one for each feature.

    >>> PadOrTrim({"tokens": 4}).map({"tokens": np.array([7, 8]), "id": 1})
    {'tokens': array([7, 8, 0, 0]), 'id': 1}
    >>> PadOrTrim(2, pad_value=-1).map(np.array([7, 8, 9]))
    array([7, 8])
    """

    lengths: Mapping[str, int] | int
    pad_value: Any = 0

    def __post_init__(self) -> None:
        if isinstance(self.lengths, Mapping):
            for name, length in self.lengths.items():
                checked_int(f"lengths[{name!r}]", length, least=0)
            if isinstance(self.pad_value, Mapping):
                unknown = sorted(set(self.pad_value) - set(self.lengths))
                if unknown:
                    raise ValueError(
                        f"pad_value names {unknown}, which are not among the features "
                        f"{sorted(self.lengths)} that have a length."
                    )
        else:
            checked_int("lengths", self.lengths, least=0)
            if isinstance(self.pad_value, Mapping):
                raise TypeError(
                    f"pad_value must be one value where lengths is one length, got {self.pad_value!r} "
                    f"with lengths={self.lengths}; pass both by feature."
                )

    def map(self, element: Any) -> Any:
        """Return the element with its features trimmed or padded."""
        if not isinstance(self.lengths, Mapping):
            return _fit(element, self.lengths, self.pad_value)
        if not isinstance(element, Mapping):
            raise TypeError(
                f"pad_or_trim has lengths of the features {sorted(self.lengths)}, but the element "
                f"is no dictionary: {type(element).__name__}."
            )
        missing = [name for name in self.lengths if name not in element]
        if missing:
            raise KeyError(f"pad_or_trim changes {missing}, but the element has {sorted(element)}.")
        fitted = dict(element)
        for name, length in self.lengths.items():
            fitted[name] = _fit(element[name], length, self._value(name))
        return fitted

    def _value(self, name: str) -> Any:
        if isinstance(self.pad_value, Mapping):
            return self.pad_value.get(name, 0)
        return self.pad_value

    def output_spec(self, input_spec: Any) -> Any:
        """Return the spec of padded or trimmed elements."""
        if not isinstance(self.lengths, Mapping):
            return ShapeDtypeStruct((self.lengths, *input_spec.shape[1:]), input_spec.dtype)
        spec = dict(input_spec)
        for name, length in self.lengths.items():
            spec[name] = ShapeDtypeStruct((length, *spec[name].shape[1:]), spec[name].dtype)
        return spec


def _fit(value: Any, length: int, pad_value: Any) -> Any:
    array = np.asarray(value)
    if not array.ndim:
        raise TypeError(
            f"pad_or_trim needs arrays with at least one dimension, got {type(value).__name__}."
        )
    if len(array) >= length:
        return array[:length]
    fitted = np.full((length, *array.shape[1:]), pad_value, array.dtype)
    fitted[: len(array)] = array
    return fitted
