"""Packing without padding: sequences are joined and split at exactly the length of a row."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from grain._exceptions import add_note
from grain.dataset.chunk import END, Chunk
from grain.dataset.element_spec import get_element_spec
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.node import written_form
from grain.dataset.packing.packed_row import Array, Layout, Row, shown
from grain.dataset.parent_cursor import ParentCursor
from grain.dataset.validation import checked_iter_parent
from grain.options import checked_int, checked_type

Slices = tuple[tuple[int, int], ...]


class BOSHandling(enum.Enum):
    """The handling of the first token of each piece of a packed sequence."""

    DO_NOTHING = 1
    """It stays unchanged; the default."""
    REPLACE_FIRST_TOKEN_WITH_BOS = 2
    """It becomes `bos_token_id`, so that every piece starts like a document."""


class ConcatThenSplitIterDataset(IterDataset[dict[str, Any]]):
    """Sequences joined and split at exactly the target length; the rest starts the next row.

    Each feature comes with `<name>_segment_ids` and `<name>_positions`, as with
    `FirstFitPackIterDataset`. Padding is only in the last row, and in rows that end early because a
    meta feature has no room.

    Args:
        parent: A dataset of dictionaries of arrays.
        length_struct: The length of each feature of a row; it names all features of the elements.
        meta_features: Features that are not split, and get neither segment ids nor positions. When
            an element is split, both pieces carry them.
        split_full_length_features: When False, an element that has the full length already is
            returned in one piece, after the row being filled.
        bos_handling: The handling of the first token of each piece.
        bos_features: The features whose first tokens are replaced.
        bos_token_id: The replacement.

    >>> import grain, numpy as np
    >>> documents = [{"tokens": np.arange(1, n + 1)} for n in (3, 4)]
    >>> ds = ConcatThenSplitIterDataset(
    ...     grain.MapDataset.source(documents).to_iter_dataset(), length_struct={"tokens": 4}
    ... )
    >>> for row in ds:
    ...     print(row["tokens"], row["tokens_segment_ids"], row["tokens_positions"])
    [1 2 3 1] [1 1 1 2] [0 1 2 0]
    [2 3 4 0] [1 1 1 0] [0 1 2 0]
    """

    fingerprint_name = "ConcatThenSplit"

    def __init__(
        self,
        parent: IterDataset[Any],
        *,
        length_struct: Mapping[str, int],
        meta_features: Collection[str] = (),
        split_full_length_features: bool = True,
        bos_handling: BOSHandling = BOSHandling.DO_NOTHING,
        bos_features: Collection[str] = (),
        bos_token_id: int | None = None,
    ):
        super().__init__(checked_iter_parent("ConcatThenSplitIterDataset", parent))
        layout = Layout(length_struct, meta_features=meta_features)
        nested = [path for path in layout.paths if len(path) > 1]
        if nested:
            raise TypeError(
                f"length_struct must be an unnested dictionary, but {shown(nested[0])} is nested."
            )
        for path, length in zip(layout.paths, layout.lengths, strict=True):
            if length < 1:
                raise ValueError(f"length_struct[{shown(path)}] must be positive, got {length}")
        self.layout = layout
        self.names = [path[0] for path in layout.paths]
        self._name_set = frozenset(self.names)
        self._meta = [
            (feature, name)
            for feature, name in enumerate(self.names)
            if not layout.segmented[feature]
        ]
        self.splits_full_rows = checked_type(
            "split_full_length_features",
            split_full_length_features,
            (bool, np.bool_),
            "True or False",
        )
        self.bos_token = _checked_bos(bos_handling, bos_features, bos_token_id, meta_features)
        unknown = sorted(set(bos_features) - set(self.names))
        if unknown:
            raise ValueError(
                f"bos_features {unknown} are not among the features of length_struct, which are "
                f"{self.names}."
            )
        self.bos_features = [
            (feature, name)
            for feature, name in enumerate(self.names)
            if self.bos_token is not None and name in bos_features
        ]

    def make_iterator(
        self, parents: Sequence[DatasetIterator[Any]]
    ) -> DatasetIterator[dict[str, Any]]:
        return ConcatThenSplitDatasetIterator(parents[0], self)

    def features_of(self, element: Any) -> list[Array]:
        """Return the features of an element, which must be exactly those of the layout."""
        if type(element) is not dict and not isinstance(element, Mapping):
            shown = None if element is None else type(element).__name__
            # Message kept from google/grain 0.2.18
            raise ValueError(f"Parent elements must be unnested dictionaries but got {shown}.")
        if element.keys() != self._name_set:
            structure = {name: _described(value) for name, value in element.items()}
            lengths = dict(zip(self.names, self.layout.lengths, strict=True))
            # Message kept from google/grain 0.2.18
            raise ValueError(
                f"Parent element has structure {structure} but target sequence length is "
                f"{lengths}. There must be a sequence length for each feature."
            )
        values = self.layout.values(element)
        for feature, name in self._meta:
            if len(values[feature]) > self.layout.lengths[feature]:
                raise ValueError(
                    f"Meta feature {name!r} has {len(values[feature])} values, but length_struct "
                    f"has room for {self.layout.lengths[feature]}; meta features cannot be split."
                )
        return values

    def fills_row(self, values: list[Array]) -> bool:
        """Return whether an element fills a row alone, and fits into it."""
        lengths = list(map(len, values))
        pairs = list(zip(lengths, self.layout.lengths, strict=True))
        return any(has == room for has, room in pairs) and all(has <= room for has, room in pairs)

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {
            **self.layout.fingerprint_arguments(),
            "split_full_length_features": self.splits_full_rows,
            "bos_features": [name for _, name in self.bos_features] or None,
            "bos_token_id": self.bos_token,
        }

    def written_call(self) -> str:
        lengths = self.fingerprint_arguments()["length_struct"]
        return written_form.call("pack", lengths, strategy="concat_then_split")

    def infer_element_spec(self) -> Any:
        return self.layout.packed_spec(get_element_spec(self._parent))


def _checked_bos(
    handling: BOSHandling,
    features: Collection[str],
    token: int | None,
    meta_features: Collection[str],
) -> int | None:
    if not isinstance(handling, BOSHandling):
        raise TypeError(
            f"bos_handling must be a grain.experimental.BOSHandling, got {handling!r} of type "
            f"{type(handling).__name__}."
        )
    if isinstance(features, str):
        raise TypeError(
            f"bos_features must be a collection of feature names, got the string {features!r}."
        )
    if handling is BOSHandling.DO_NOTHING:
        if token is not None or features:
            # Message kept from google/grain 0.2.18
            raise ValueError(
                f"bos_handling={handling} indicates that BOS handling is not used. So bos_token_id "
                "and bos_features should not be set."
            )
        return None
    if token is None:
        # Message kept from google/grain 0.2.18
        raise ValueError(f"bos_token_id must be set if bos_handling is {handling}.")
    if set(features) & set(meta_features):
        # Message kept from google/grain 0.2.18
        raise ValueError(
            f"bos_features and meta_features should not overlap. bos_features: {features}, "
            f"meta_features: {meta_features}"
        )
    return token


def _described(value: Any) -> str:
    array = np.asarray(value)
    kind = array.dtype if isinstance(value, (np.ndarray, np.generic)) else type(value).__name__
    return f"{kind}{list(array.shape)}"


class _Joined:
    """A row that is being filled."""

    def __init__(self, dataset: ConcatThenSplitIterDataset, fillers: list[Array]):
        self._dataset = dataset
        self.layout = dataset.layout
        self._fillers = fillers
        self._row = Row(self.layout)
        self._used = [0] * len(fillers)

    def take_whole(self, values: list[Array]) -> bool:
        """Take an element if there is room for all of it."""
        used = self._used
        ends = []
        for value, start, length in zip(values, used, self.layout.lengths, strict=True):
            end = start + len(value)
            if end > length:
                return False
            ends.append(end)
        self._row.add(used, self.layout.fitted(values, self._fillers))
        self._used = ends
        return True

    def take(self, values: list[Array], slices: Slices) -> Slices | None:
        """Take as much of an element as there is room for.

        Return the rest: None if nothing is left, and `slices` again if nothing could be taken.
        """
        layout, used = self.layout, self._used
        ends = []
        whole, some = True, False
        for feature, (start, end) in enumerate(slices):
            fitting = start + layout.lengths[feature] - used[feature]
            if fitting < end:
                if not layout.segmented[feature]:
                    return slices
                whole = False
            else:
                fitting = end
            if fitting > start and layout.segmented[feature]:
                some = True
            ends.append(fitting)
        if not whole and not some:
            return slices
        row, values = self._row, layout.fitted(values, self._fillers)
        for feature, end in enumerate(ends):
            start = slices[feature][0]
            row.starts[feature].append(used[feature])
            row.pieces[feature].append(values[feature][start:end])
            used[feature] += end - start
        if whole:
            return None
        return tuple(
            [
                (end, stop) if cut else (start, stop)
                for (start, stop), end, cut in zip(slices, ends, layout.segmented, strict=True)
            ]
        )

    def element(self) -> dict[str, Any]:
        """Return the row as an element."""
        row, layout = self._row, self.layout
        element: dict[str, Any] = {}
        marks = row.marks(layout)
        for feature, name in enumerate(self._dataset.names):
            element[name] = row.cells(feature, self._fillers[feature])
            marked = marks[feature]
            if marked is not None:
                ids_name, positions_name = layout.mark_names[feature]
                element[ids_name], element[positions_name] = marked
        for feature, name in self._dataset.bos_features:
            pieces = zip(row.starts[feature], row.pieces[feature], strict=True)
            begins = [start for start, piece in pieces if len(piece)]
            element[name][begins] = self._dataset.bos_token
        return element


class _RestartPoint:
    """A moment when no more was held than the rest of one element: packing can restart here."""

    __slots__ = ("before", "slices")

    def __init__(self, before: Callable[[], Any], slices: Slices | None):
        self.before = before
        """Function of the parent's state before the element whose rest is held."""
        self.slices = slices
        """The rest of that element; None if nothing was held at all."""


def _state(
    dataset: ConcatThenSplitIterDataset, restart: _RestartPoint, given: int
) -> dict[str, Any]:
    """Return the state when `given` rows were returned since a restart point."""
    return {
        "parent_state": restart.before(),
        "remainder_slices": {
            name: [-1, -1] if restart.slices is None else list(restart.slices[feature])
            for feature, name in enumerate(dataset.names)
            if dataset.layout.segmented[feature]
        },
        "elements_from_buffer_after_checkpoint": given,
    }


class ConcatThenSplitDatasetIterator(ChunkIterator[dict[str, Any]]):
    """An iterator that joins and splits; its state refers to the last restart point."""

    def __init__(self, parent: DatasetIterator[Any], dataset: ConcatThenSplitIterDataset):
        super().__init__(parent)
        self._dataset = dataset
        self._cursor = ParentCursor(parent)
        self._begin(None, 0)

    def _begin(self, cut_out: Mapping[str, Any] | None, given: int) -> None:
        self._cursor.reset()
        self._restart_point = _RestartPoint(self._cursor.end(), self._as_slices(cut_out))
        self._since_restart = 0
        # The state after the row that was returned last.
        self._last = (self._restart_point, given)
        self._skip = given
        # The rest of the next element, if a part of it was returned before the state was saved.
        self._cut_out = cut_out
        self._joined: _Joined | None = None
        self._fillers: list[Array] = []
        self._full: list[dict[str, Any]] = []
        self._ready: list[tuple[dict[str, Any], tuple[_RestartPoint, int]]] = []

    def _as_slices(self, cut_out: Mapping[str, Any] | None) -> Slices | None:
        if cut_out is None:
            return None
        return tuple(tuple(cut_out.get(name, (0, 0))) for name in self._dataset.names)

    def _pull(self, limit: int) -> Chunk:
        while len(self._ready) < max(1, limit):
            try:
                elements = self._cursor.pull()
            except Exception as error:
                return self._fail_after_ready(error)
            if not elements:
                self._finish_row()
                break
            for offset, element in enumerate(elements):
                try:
                    self._add(offset, element)
                except Exception as error:
                    # The element that failed is lost; the elements before it stay joined.
                    self._cursor.keep(offset + 1)
                    add_note(
                        error,
                        f"raised in {self._dataset}, over {self._dataset.describe_sources()}.",
                    )
                    return self._fail_after_ready(error)
                if len(self._ready) >= limit:
                    self._cursor.keep(offset + 1)
                    break
        taken, self._ready = self._ready[: max(1, limit)], self._ready[max(1, limit) :]
        return self._chunk_of(taken)

    def _fail_after_ready(self, error: Exception) -> Chunk:
        taken, self._ready = self._ready, []
        return self._fail_after(error, self._chunk_of(taken))

    def _chunk_of(self, taken: list[tuple[dict[str, Any], tuple[_RestartPoint, int]]]) -> Chunk:
        if not taken:
            return END
        self._last = taken[-1][1]
        # Does not hold the iterator: a reference cycle would keep a dropped iterator alive.
        dataset, states = self._dataset, [state for _, state in taken]
        return Chunk([row for row, _ in taken], lambda offset: _state(dataset, *states[offset]))

    def _add(self, offset: int, element: Any) -> None:
        """Append an element to the row being filled, and finish as many rows as it fills."""
        dataset = self._dataset
        cut_out, self._cut_out = self._cut_out, None
        values = dataset.features_of(element)
        is_rest = cut_out is not None
        if cut_out is not None:
            slices = self._rest_of(values, cut_out)
        else:
            if not dataset.splits_full_rows and dataset.fills_row(values):
                alone = _Joined(dataset, self._fillers_for(values))
                alone.take_whole(values)
                self._full.append(alone.element())
                return
            if self._joined is not None and self._joined.take_whole(values):
                return
            slices = tuple([(0, len(value)) for value in values])
        while True:
            if self._joined is None:
                self._joined = _Joined(dataset, self._fillers_for(values))
            rest = self._joined.take(values, slices)
            if rest is None:
                return
            self._finish_row()
            is_rest = is_rest or rest != slices
            self._restart_point = _RestartPoint(
                self._cursor.before(offset), rest if is_rest else None
            )
            self._since_restart = 0
            slices = rest

    def _fillers_for(self, values: list[Array]) -> list[Array]:
        """Return the fillers of a row that starts with an element; mostly those of the row before."""
        known = self._fillers
        if not known or any(
            value.dtype is not filler.dtype or value.shape[1:] != filler.shape[1:]
            for value, filler in zip(values, known, strict=True)
        ):
            known = self._fillers = self._dataset.layout.fillers(values)
        return known

    def _rest_of(self, values: list[Array], cut_out: Mapping[str, Any]) -> Slices:
        """Return the slices of a restored state, checked against their element."""
        slices = []
        for name, value in zip(self._dataset.names, values, strict=True):
            start, end = cut_out.get(name, (0, len(value)))
            if not 0 <= start <= end <= len(value):
                raise ValueError(
                    f"The state for {self} names cells {start}..{end} of {name!r}, but the element "
                    f"has {len(value)}: the data differs from the data of the checkpoint."
                )
            slices.append((int(start), int(end)))
        return tuple(slices)

    def _finish_row(self) -> None:
        """Append the row being filled, and then the elements of full length, to the rows that are ready."""
        rows = self._full
        if self._joined is not None:
            rows = [self._joined.element(), *rows]
        self._joined, self._full = None, []
        for row in rows:
            self._since_restart += 1
            if self._skip:
                # Returned before the restored state was saved.
                self._skip -= 1
            else:
                self._ready.append((row, (self._restart_point, self._since_restart)))

    def _live_state(self) -> Any:
        return _state(self._dataset, *self._last)

    def _restore(self, state: Any) -> None:
        cut_out = self._checked_cut_out(state_field(state, "remainder_slices", self))
        name = "elements_from_buffer_after_checkpoint"
        given = checked_int(f"`{name}` of a state", state_field(state, name, self), least=0)
        self._parent.restore_as_parent(state_field(state, "parent_state", self))
        self._begin(cut_out, given)

    def _checked_cut_out(self, slices: Any) -> Mapping[str, Any] | None:
        """Return the rest of an element that a state names, or None if it names none."""
        try:
            pairs = [tuple(map(operator.index, (start, end))) for start, end in slices.values()]
        except (AttributeError, TypeError, ValueError):
            pairs = [(0, -1)]
        if all(start < 0 for start, _ in pairs):
            return None
        if not all(0 <= start <= end for start, end in pairs):
            raise ValueError(
                f"`remainder_slices` of the state for {self} must map the names of features to the "
                f"first and last cell of a rest, got {slices!r:.200}."
            )
        checked: Mapping[str, Any] = slices
        return checked
