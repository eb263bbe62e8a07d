"""Packing: several short sequences in one row, by first fit or best fit over a set of bins."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grain._exceptions import add_note
from grain.dataset.chunk import END, Chunk
from grain.dataset.element_spec import get_element_spec
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.node import written_form
from grain.dataset.packing.bin_search import (
    BestFitSearch,
    BinSearch,
    ChosenBinSearch,
    FirstFitSearch,
    Flags,
)
from grain.dataset.packing.packed_row import Array, Layout, Row, shown
from grain.dataset.parent_cursor import ParentCursor
from grain.dataset.validation import checked_iter_parent
from grain.index.permutation import IndexArray
from grain.options import checked_int


class PackIterDataset(IterDataset[dict[str, Any]], abc.ABC):
    """Sequences packed into bins; a set of bins is returned when an element fits into none of them.

    Each feature comes with `<name>_segment_ids`, which number the sequences of a bin from 1 on with
    0 for padding, and with `<name>_positions` inside each sequence.

    Args:
        parent: A dataset of dictionaries of arrays. An array that is longer than its bin is an error;
            trim elements with `map` before.
        length_struct: The length of each feature of a bin.
        num_packing_bins: Number of bins that are filled at the same time.
        seed: Seed of the order in which the bins of a set are returned.
        shuffle_bins: Whether that order is random, or the order in which bins were started.
        shuffle_bins_group_by_feature: Feature by whose mean of distinct non-zero values the bins of a
            set are sorted, with random order only among equals.
        meta_features: Features that get neither segment ids nor positions. One that is not in
            `length_struct` is returned as the list of the packed elements' values.
        pack_alignment_struct: Numbers at multiples of which sequences start.
        padding_struct: Values of free cells, 0 if not given.
        max_sequences_per_bin: Most sequences of a bin.
    """

    def __init__(
        self,
        parent: IterDataset[Any],
        *,
        length_struct: Any,
        num_packing_bins: int,
        seed: int = 0,
        shuffle_bins: bool = True,
        shuffle_bins_group_by_feature: str | None = None,
        meta_features: Sequence[str] = (),
        pack_alignment_struct: Any = None,
        padding_struct: Any = None,
        max_sequences_per_bin: int | None = None,
    ):
        super().__init__(checked_iter_parent(type(self).__name__, parent))
        self.layout = Layout(
            length_struct,
            meta_features=meta_features,
            pack_alignment_struct=pack_alignment_struct,
            padding_struct=padding_struct,
        )
        self.num_bins = checked_int("num_packing_bins", num_packing_bins, least=1)
        self.bin_seed = checked_int("seed", seed, least=0)
        self.shuffles_bins = shuffle_bins
        self.max_sequences = None
        if max_sequences_per_bin is not None:
            self.max_sequences = checked_int(
                "max_sequences_per_bin", max_sequences_per_bin, least=-(2**63)
            )
            if self.max_sequences <= 0:
                # Message kept from google/grain 0.2.18
                raise ValueError(
                    "If specified, `max_sequences_per_bin` must be a positive integer, but got "
                    f"{max_sequences_per_bin}."
                )
        self.group_by = shuffle_bins_group_by_feature
        if shuffle_bins_group_by_feature is not None and shuffle_bins:
            paths = [*self.layout.paths, *((name,) for name in self.layout.loose)]
            if (shuffle_bins_group_by_feature,) not in paths:
                raise KeyError(
                    f"shuffle_bins_group_by_feature is {shuffle_bins_group_by_feature!r}, which is "
                    f"not one of the features {', '.join(map(shown, paths))}."
                )

    @abc.abstractmethod
    def choose_bin(self, fits: Flags, used: IndexArray) -> int:
        """Return the bin of an element: one where it fits, if there is one."""

    def search_bins(self) -> BinSearch:
        """Return the search in an empty set of bins."""
        return ChosenBinSearch(self.layout.lengths, self.num_bins, self.choose_bin)

    def make_iterator(
        self, parents: Sequence[DatasetIterator[Any]]
    ) -> DatasetIterator[dict[str, Any]]:
        return PackDatasetIterator(parents[0], self)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "fingerprint_name" not in cls.__dict__:
            # Checkpoints of a user's subclass hold the name of its class.
            cls.fingerprint_name = cls.__name__.removesuffix("IterDataset")
        if "choose_bin" in cls.__dict__ and "search_bins" not in cls.__dict__:
            # A base class may search in another way than this class chooses.
            cls.search_bins = PackIterDataset.search_bins  # type: ignore[method-assign]

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {
            **self.layout.fingerprint_arguments(),
            "num_packing_bins": self.num_bins,
            "seed": self.bin_seed or None,
            "shuffle_bins": self.shuffles_bins,
            "shuffle_bins_group_by_feature": self.group_by,
            "max_sequences_per_bin": self.max_sequences,
        }

    def written_call(self) -> str:
        strategy = {"FirstFitPack": "first_fit", "BestFitPack": "best_fit"}.get(
            str(self.fingerprint_name), type(self).__qualname__
        )
        lengths = self.fingerprint_arguments()["length_struct"]
        return written_form.call("pack", lengths, strategy=strategy, num_packing_bins=self.num_bins)

    def infer_element_spec(self) -> Any:
        return self.layout.packed_spec(get_element_spec(self._parent))


class FirstFitPackIterDataset(PackIterDataset):
    """Elements packed into the first bin where all of their features fit.

    >>> import grain, numpy as np
    >>> documents = [{"tokens": np.arange(1, n + 1)} for n in (3, 2, 1)]
    >>> ds = FirstFitPackIterDataset(
    ...     grain.MapDataset.source(documents).to_iter_dataset(),
    ...     length_struct={"tokens": 4},
    ...     num_packing_bins=2,
    ...     shuffle_bins=False,
    ... )
    >>> for row in ds:
    ...     print(row["tokens"], row["tokens_segment_ids"], row["tokens_positions"])
    [1 2 3 1] [1 1 1 2] [0 1 2 0]
    [1 2 0 0] [1 1 0 0] [0 1 0 0]
    """

    fingerprint_name = "FirstFitPack"

    def choose_bin(self, fits: Flags, used: IndexArray) -> int:
        del used
        return int(fits.argmax())

    def search_bins(self) -> BinSearch:
        return FirstFitSearch(self.layout.lengths, self.num_bins)


class BestFitPackIterDataset(PackIterDataset):
    """Elements packed into the fullest bin where all of their features fit.

    The arguments are those of `FirstFitPackIterDataset`. Nearly full bins are filled first, which
    wastes fewer cells.
    """

    fingerprint_name = "BestFitPack"

    def choose_bin(self, fits: Flags, used: IndexArray) -> int:
        return int(np.where(fits, used, -1).argmax())

    def search_bins(self) -> BinSearch:
        return BestFitSearch(self.layout.lengths, self.num_bins)


class _BinSet:
    """Bins that are filled at the same time."""

    def __init__(self, dataset: PackIterDataset, before: Callable[[], Any], values: list[Array]):
        self.before = before
        """Function of the parent's state before the first element of this set."""
        self.rows: list[Row] = []
        self._dataset = dataset
        self._layout = dataset.layout
        self.fillers = self._layout.fillers(values)
        self._search = dataset.search_bins()

    def add(self, values: list[Array], loose: list[Any]) -> bool:
        """Pack an element; return False if it fits into no bin."""
        layout, rows, search = self._layout, self.rows, self._search
        sizes = list(map(len, values))
        number = search.find(sizes)
        if number < 0:
            return False
        # Bins may take long to fill: a view must not keep a larger array alive.
        own = layout.fitted(
            [value if value.base is None else value.copy() for value in values], self.fillers
        )
        if number == len(rows):
            rows.append(Row(layout))
        row = rows[number]
        starts = [
            length - room[number] for length, room in zip(layout.lengths, search.rooms, strict=True)
        ]
        row.add(starts, own)
        if layout.is_aligned:
            sizes = [
                -(-(start + size) // alignment) * alignment - start
                for start, size, alignment in zip(starts, sizes, layout.alignments, strict=True)
            ]
        search.take(number, sizes)
        if loose:
            for values_so_far, value in zip(row.listed, loose, strict=True):
                values_so_far.append(value)
        if row.count == self._dataset.max_sequences:
            search.close(number)
        return True


class PackDatasetIterator(ChunkIterator[dict[str, Any]]):
    """An iterator that fills sets of bins and returns them.

    The state is the parent's before the first element of the set that is being returned, the number of
    bins of that set that were returned, and the number of all; restoring packs that set again.
    """

    def __init__(self, parent: DatasetIterator[Any], dataset: PackIterDataset):
        super().__init__(parent)
        self._dataset = dataset
        self._cursor = ParentCursor(parent)
        self._begin(next_row=0, counter=0)

    def __str__(self) -> str:
        return f"{type(self).__name__}(packing={type(self._dataset).__name__})"

    def _begin(self, next_row: int, counter: int) -> None:
        self._cursor.reset()
        self._filling: _BinSet | None = None
        self._ready: list[dict[str, Any]] = []
        # The parent's state before the set that is being returned, and before the next one.
        self._before: Callable[[], Any] = self._cursor.end()
        self._after = self._before
        self._next_row = next_row
        self._counter = counter

    def _pull(self, limit: int) -> Chunk:
        while self._next_row >= len(self._ready):
            rows = self._fill()
            if rows is None:
                return END
            self._ready = rows
        first, total = self._next_row, len(self._ready)
        rows = self._ready[first : first + max(1, limit)]
        chunk = self._chunk_of(rows, first, total)
        self._next_row += len(rows)
        self._counter += len(rows)
        if self._next_row == total:
            self._ready, self._next_row, self._before = [], 0, self._after
        return chunk

    def _chunk_of(self, rows: list[dict[str, Any]], first: int, total: int) -> Chunk:
        counter, before, after = self._counter, self._before, self._after

        def state_after(offset: int) -> Any:
            given = first + offset + 1
            whole = given == total
            return _state(after if whole else before, 0 if whole else given, counter + offset + 1)

        return Chunk(rows, state_after)

    def _fill(self) -> list[dict[str, Any]] | None:
        """Pack elements until one fits into no bin; return None when there are no more."""
        layout = self._dataset.layout
        while elements := self._cursor.pull():
            filling = self._filling
            for offset, element in enumerate(elements):
                try:
                    values = layout.values(element)
                    loose = layout.loose_values(element) if layout.loose else []
                    if filling is not None and filling.add(values, loose):
                        continue
                    packed = self._start_set(offset, values, loose)
                except Exception as error:
                    # The element that failed is lost; the others stay packed.
                    self._cursor.keep(offset + 1)
                    add_note(
                        error,
                        f"raised in {self._dataset}, over {self._dataset.describe_sources()}.",
                    )
                    raise
                if packed is not None:
                    self._cursor.keep(offset + 1)
                    return self._arranged(packed)
                filling = self._filling
        last, self._filling = self._filling, None
        self._after = self._cursor.end()
        return self._arranged(last) if last is not None else None

    def _start_set(self, offset: int, values: list[Array], loose: list[Any]) -> _BinSet | None:
        """Pack an element into a new set; return the set that had no room for it, if there is one."""
        full = self._filling
        _check_lengths(self._dataset.layout, values)
        fresh = _BinSet(self._dataset, self._cursor.before(offset), values)
        fresh.add(values, loose)
        self._filling = fresh
        if full is not None:
            self._after = fresh.before
        else:
            self._before = fresh.before
        return full

    def _arranged(self, packed: _BinSet) -> list[dict[str, Any]]:
        """Return the bins of a set as elements, in the order in which they are yielded."""
        dataset = self._dataset
        elements = [_element(dataset.layout, row, packed.fillers) for row in packed.rows]
        if not dataset.shuffles_bins:
            return elements
        start = self._counter - self._next_row
        order = np.random.default_rng(dataset.bin_seed + start).permuted(np.arange(len(elements)))
        if dataset.group_by is not None:
            means = np.array([_group(element[dataset.group_by]) for element in elements])
            # The random numbers decide among equals.
            order = np.lexsort((order, means))
        return [elements[number] for number in order.tolist()]

    def _live_state(self) -> Any:
        return _state(self._before, self._next_row, self._counter)

    def _restore(self, state: Any) -> None:
        next_row = checked_int(
            "`next_row` of a state", state_field(state, "next_row", self), least=0
        )
        counter = checked_int("`counter` of a state", state_field(state, "counter", self), least=0)
        if not next_row <= min(counter, self._dataset.num_bins):
            raise ValueError(
                f"`next_row` of the state for {self} counts the bins of one set that were returned, of "
                f"{self._dataset.num_bins} at most and of {counter} in all, got {next_row}."
            )
        self._parent.restore_as_parent(state_field(state, "parent", self))
        self._begin(next_row, counter)


def _state(parent: Callable[[], Any], next_row: int, counter: int) -> dict[str, Any]:
    return {"parent": parent(), "next_row": next_row, "counter": counter}


def _check_lengths(layout: Layout, values: list[Array]) -> None:
    exceeding = [
        (path, len(value), length)
        for path, value, length in zip(layout.paths, values, layout.lengths, strict=True)
        if len(value) > length
    ]
    if exceeding:
        # Message kept from google/grain 0.2.18
        error = ValueError(
            "Inputs to PackedBatch must be truncated to max length. Exceeds: (feature_path, "
            f"feature_length, max_length) = {exceeding}"
        )
        path, _, length = exceeding[0]
        error.add_note(
            f"Cut them before packing, for instance with `.map(lambda e: e | {{{path[-1]!r}: "
            f"e[{path[-1]!r}][:{length}]}})`, drop them with `.filter`, or split them over rows "
            'with `.pack(..., strategy="concat_then_split")`.'
        )
        raise error


def _group(cells: Array) -> float:
    values = np.unique(cells)
    values = values[values != 0]
    return float(values.mean()) if values.size else 0.0


def _element(layout: Layout, row: Row, fillers: list[Array]) -> dict[str, Any]:
    """Return a bin as an element."""
    element: dict[str, Any] = {}
    for feature, path in enumerate(layout.paths):
        at = element
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = row.cells(feature, fillers[feature])
    for name, listed in zip(layout.loose, row.listed, strict=True):
        element[name] = listed
    for names, marked in zip(layout.mark_names, row.marks(layout), strict=True):
        if marked is not None:
            element[names[0]], element[names[1]] = marked
    return dict(sorted(element.items()))
