"""Rows of a fixed length that sequences are packed into, with segment ids and positions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from grain.dataset.element_spec import ShapeDtypeStruct
from grain.options import checked_int

Array = np.ndarray[Any, Any]
Path = tuple[str, ...]

_TEXT = "US"
# From this number of sequences on, their marks are computed by arrays.
_MANY_PIECES = 12


class Layout:
    """The features of a row, their lengths and the values of free cells.

    A feature is found by its path in the element; nested features are possible only below a meta
    feature, since segment ids are named after features.

    Attributes:
        paths: The path of each feature in an element.
        lengths: The number of cells of each feature.
        paddings: The values of free cells.
        alignments: Numbers at multiples of which sequences start.
        is_aligned: Whether there are other multiples than those of 1.
        segmented: For each feature, whether it gets segment ids and positions.
        mark_names: The names of segment ids and positions of each feature.
        loose: Meta features without a length; their values are returned as a list.
        positions: The numbers 0, 1, 2, …, to copy from.
    """

    def __init__(
        self,
        length_struct: Any,
        *,
        meta_features: Collection[str] = (),
        pack_alignment_struct: Any = None,
        padding_struct: Any = None,
    ):
        if isinstance(meta_features, (str, bytes)):
            kind = "string" if isinstance(meta_features, str) else "bytes"
            raise TypeError(
                f"meta_features must be a sequence of feature names, got the {kind} "
                f"{meta_features!r}; write ({meta_features!r},)."
            )
        if not isinstance(meta_features, Collection):
            raise TypeError(
                f"meta_features must be a sequence of feature names, got {meta_features!r} of type "
                f"{type(meta_features).__name__}."
            )
        lengths = flatten(length_struct, "length_struct")
        if not lengths:
            raise ValueError(
                "length_struct must name at least one feature and its length, got an empty one."
            )
        for path in lengths:
            if len(path) > 1 and path[0] not in meta_features:
                # Message kept from google/grain 0.2.18
                raise ValueError(
                    f"Failed to extract segment ids for {path[0]!r}, which is nested rather than np.ndarray. "
                    "Perhaps it should be marked as a meta feature?"
                )
        self.paths = list(lengths)
        self.lengths = [
            checked_int(f"length_struct[{shown(path)}]", length, least=0)
            for path, length in lengths.items()
        ]
        self.paddings = _for_each(self.paths, padding_struct, "padding_struct", 0)
        self.alignments = [
            checked_int(f"pack_alignment_struct[{shown(path)}]", alignment, least=1)
            for path, alignment in zip(
                self.paths,
                _for_each(self.paths, pack_alignment_struct, "pack_alignment_struct", 1),
                strict=True,
            )
        ]
        self.is_aligned = any(alignment > 1 for alignment in self.alignments)
        self.segmented = [path[0] not in meta_features for path in self.paths]
        known = {path[0] for path in self.paths}
        self.loose = [name for name in meta_features if name not in known]
        self.positions = np.arange(max(self.lengths), dtype=np.int32)
        self._names = [path[0] for path in self.paths]
        self.mark_names = [(f"{name}_segment_ids", f"{name}_positions") for name in self._names]
        self._flat = all(len(path) == 1 for path in self.paths)

    def values(self, element: Any) -> list[Array]:
        """Return the features of an element, each as an array of at least one dimension."""
        out = []
        try:
            if self._flat:
                for name in self._names:
                    value = element[name]
                    if type(value) is not np.ndarray or not value.ndim:
                        value = as_sequence(value, name)
                    out.append(value)
            else:
                for path in self.paths:
                    value = element
                    for name in path:
                        value = value[name]
                    out.append(as_sequence(value, path[-1]))
        except (KeyError, TypeError, IndexError) as error:
            raise self._misfit(element, error) from None
        return out

    def loose_values(self, element: Any) -> list[Any]:
        """Return the values of the meta features that have no length."""
        try:
            return [element[name] for name in self.loose]
        except (KeyError, TypeError, IndexError) as error:
            raise self._misfit(element, error) from None

    def _misfit(self, element: Any, error: Exception) -> Exception:
        wanted = ", ".join([*map(shown, self.paths), *map(repr, self.loose)])
        if isinstance(element, Mapping):
            return type(error)(
                f"Packing needs the features {wanted}, but the element has {sorted(element)}."
            )
        return TypeError(
            f"Packing needs elements that are dictionaries with the features {wanted}, got "
            f"{type(element).__name__}."
        )

    def fillers(self, values: Sequence[Array]) -> list[Array]:
        """Return the free cells of each feature of a row whose first sequences are `values`.

        Arrays packed with them must have the same type, and the same shape except for the first
        dimension.
        """
        return [
            np.full((length, *value.shape[1:]), padding, value.dtype)
            if padding != 0
            else np.zeros((length, *value.shape[1:]), value.dtype)
            for length, padding, value in zip(self.lengths, self.paddings, values, strict=True)
        ]

    def fitted(self, values: list[Array], fillers: list[Array]) -> list[Array]:
        """Return arrays that can be packed with others, or raise an error that names the reason."""
        for feature, filler in enumerate(fillers):
            value = values[feature]
            if value.dtype is filler.dtype and value.ndim == 1 and filler.ndim == 1:
                continue
            if value.shape[1:] != filler.shape[1:]:
                raise ValueError(
                    f"Cannot pack values of shape {value.shape} of the feature "
                    f"{shown(self.paths[feature])} into cells of shape {filler.shape}: all "
                    "dimensions but the first must agree."
                )
            if value.dtype != filler.dtype and filler.dtype.kind not in _TEXT:
                values[feature] = value.astype(filler.dtype)
        return values

    def fingerprint_arguments(self) -> dict[str, Any]:
        """Return the arguments that decide on packed elements."""
        return {
            "length_struct": {
                "/".join(path): length
                for path, length in zip(self.paths, self.lengths, strict=True)
            },
            "padding": [pad for pad in self.paddings if not np.array_equal(pad, 0)] or None,
            "alignment": [alignment for alignment in self.alignments if alignment != 1] or None,
            "segmented": None if all(self.segmented) else list(self.segmented),
        }

    def packed_spec(self, parent: Any) -> dict[str, Any]:
        """Return the spec of a packed element, given the spec of the elements."""
        if self.loose:
            raise NotImplementedError(
                f"The meta features {self.loose} are lists that differ in length from element to "
                "element; they have no spec."
            )
        spec: dict[str, Any] = {}
        ids = np.dtype(np.int32)
        for path, length, segmented in zip(self.paths, self.lengths, self.segmented, strict=True):
            given, made = parent, spec
            for name in path[:-1]:
                given, made = given[name], made.setdefault(name, {})
            given = given[path[-1]]
            made[path[-1]] = ShapeDtypeStruct((length, *given.shape[1:]), given.dtype)
            if segmented:
                spec[f"{path[0]}_segment_ids"] = ShapeDtypeStruct((length,), ids)
                spec[f"{path[0]}_positions"] = ShapeDtypeStruct((length,), ids)
        return spec


class Row:
    """The sequences of one packed element; arrays are made of them when it is complete.

    Attributes:
        pieces: The sequences of each feature. Segment `i` is piece `i - 1` of every feature.
        starts: The cells where they start.
        listed: Values of the meta features that have no length.
    """

    __slots__ = ("listed", "pieces", "starts")

    def __init__(self, layout: Layout) -> None:
        self.pieces: list[list[Array]] = [[] for _ in layout.lengths]
        self.starts: list[list[int]] = [[] for _ in layout.lengths]
        self.listed: list[list[Any]] = [[] for _ in layout.loose]

    @property
    def count(self) -> int:
        """How many sequences there are."""
        return len(self.pieces[0])

    def add(self, starts: Sequence[int], values: Sequence[Array]) -> None:
        """Add a sequence of each feature."""
        for feature, value in enumerate(values):
            self.starts[feature].append(starts[feature])
            self.pieces[feature].append(value)

    def cells(self, feature: int, filler: Array) -> Array:
        """Return the values of a feature, with the filler in free cells."""
        parts = self.pieces[feature]
        if not parts:
            return filler.copy()
        at = sum(map(len, parts))
        if at < self.starts[feature][-1] + len(parts[-1]):
            parts, at = self._with_gaps(feature, filler)
        if at < len(filler):
            parts = [*parts, filler[at:]]
        return np.concatenate(parts)

    def _with_gaps(self, feature: int, filler: Array) -> tuple[list[Array], int]:
        parts = []
        at = 0
        for start, piece in zip(self.starts[feature], self.pieces[feature], strict=True):
            if start > at:
                parts.append(filler[: start - at])
            parts.append(piece)
            at = start + len(piece)
        return parts, at

    def marks(self, layout: Layout) -> list[tuple[Array, Array] | None]:
        """Return the segment ids and positions of each feature; None for meta features."""
        if len(layout.segmented) == 1 and layout.segmented[0]:
            sizes = list(map(len, self.pieces[0]))
            return [_marks(layout.lengths[0], self.starts[0], sizes, layout.positions)]
        found: list[tuple[Array, Array] | None] = []
        # Features are often equally long, such as tokens and their weights: marks are made once.
        made: list[tuple[tuple[int, list[int], list[int]], tuple[Array, Array]]] = []
        for feature, segmented in enumerate(layout.segmented):
            if not segmented:
                found.append(None)
                continue
            sizes = list(map(len, self.pieces[feature]))
            cells = (layout.lengths[feature], self.starts[feature], sizes)
            for known_cells, (ids, positions) in made:
                if cells == known_cells:
                    found.append((ids.copy(), positions.copy()))
                    break
            else:
                marks = _marks(*cells, layout.positions)
                made.append((cells, marks))
                found.append(marks)
        return found


def _marks(length: int, starts: list[int], sizes: list[int], numbers: Array) -> tuple[Array, Array]:
    """Return segment ids and positions of sequences at some cells of a row."""
    ids, positions = np.empty(length, np.int32), np.empty(length, np.int32)
    segment = at = 0
    if len(starts) >= _MANY_PIECES and sum(sizes) == starts[-1] + sizes[-1]:
        at = starts[-1] + sizes[-1]
        counts = np.array(sizes)
        np.subtract(numbers[:at], np.repeat(starts, counts), out=positions[:at])
        ids[:at] = np.repeat(np.arange(1, len(starts) + 1, dtype=np.int32), counts)
    else:
        for start, size in zip(starts, sizes, strict=True):
            segment += 1
            if start > at:
                ids[at:start] = positions[at:start] = 0
            at = start + size
            ids[start:at] = segment
            positions[start:at] = numbers[:size]
    if at < length:
        ids[at:] = positions[at:] = 0
    return ids, positions


def flatten(struct: Any, argument: str) -> dict[Path, Any]:
    """Return the leaves of nested dictionaries with text keys, by path."""
    if not isinstance(struct, Mapping):
        raise TypeError(
            f"{argument} must be a dictionary from feature names, such as {{'tokens': 2048}}, got "
            f"{struct!r} of type {type(struct).__name__}."
        )
    found: dict[Path, Any] = {}
    for name, value in struct.items():
        if isinstance(value, Mapping):
            for path, leaf in flatten(value, argument).items():
                found[(name, *path)] = leaf
        else:
            found[(name,)] = value
    return found


def _for_each(paths: list[Path], struct: Any, argument: str, default: Any) -> list[Any]:
    if struct is None:
        return [default] * len(paths)
    given = flatten(struct, argument)
    if set(given) != set(paths):
        raise ValueError(
            f"{argument} must have the features of length_struct, which are "
            f"{', '.join(map(shown, paths))}; it has {', '.join(map(shown, given)) or 'none'}."
        )
    return [default if given[path] is None else given[path] for path in paths]


def shown(path: Path) -> str:
    """Return a path as messages show it."""
    return "/".join(map(str, path)).join("''")


def as_sequence(value: Any, name: str) -> Array:
    """Return a feature as an array of at least one dimension."""
    array = np.asarray(value)
    if array.dtype == object and not isinstance(value, np.ndarray):
        raise TypeError(
            f"Feature {name!r} must be an array, got {type(value).__name__}. Perhaps it should be "
            "marked as a meta feature without a length?"
        )
    return array.reshape(1) if not array.ndim else array
