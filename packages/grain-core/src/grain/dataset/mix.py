"""Mixtures of datasets in given proportions, by index and in order; named ones may change at an index."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from grain._exceptions import note_component
from grain._policy import current_policy
from grain.dataset.chunk import END, Chunk
from grain.dataset.fingerprint.changes import allowed_changes, difference, warn_of_mixture
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import (
    ChunkIterator,
    DatasetIterator,
    captured_state,
    state_field,
)
from grain.dataset.map_dataset import MapDataset
from grain.dataset.node import computed_once, lines, written_form
from grain.dataset.selection import ManyParentsMapDataset, checked_parents
from grain.index.mixing import Mixture, count_taken, integer_weights, mixed_length
from grain.index.permutation import IndexArray
from grain.options import checked_int

T = TypeVar("T")


def _checked_weights(weights: Sequence[float] | None, count: int) -> list[int]:
    if not count:
        raise ValueError("`mix` needs at least one dataset, got none.")
    if weights is None:
        return [1] * count
    if isinstance(weights, (str, bytes)) or not hasattr(weights, "__len__"):
        raise TypeError(f"`mix` needs weights as a sequence of numbers, got {weights!r}.")
    plain = set(map(type, weights)) <= {int, float}
    if not plain:
        for weight in weights:
            if not hasattr(weight, "__float__"):
                raise TypeError(
                    f"`mix` needs weights that are numbers, got {weight!r} of type "
                    f"{type(weight).__name__} in {weights!r}."
                )
    if len(weights) != count:
        raise ValueError(f"`mix` got {count} datasets but {len(weights)} weights: {weights}.")
    # A mixture of many datasets usually has few different weights.
    distinct = set(weights) if plain else None
    if not (distinct and min(distinct) > 0 and math.isfinite(sum(distinct))):
        if any(weight == 0 for weight in weights):
            # Message kept from google/grain 0.2.18
            raise ValueError("Must specify all non-zero proportions for mixing.")
        if not all(0 < weight < float("inf") for weight in weights):
            raise ValueError(
                f"Weights for mixing must be positive and finite, got {list(weights)}."
            )
    try:
        return integer_weights(weights, distinct)
    except OverflowError:
        raise ValueError(
            f"Weights for mixing differ by too large a factor, got {list(weights)}."
        ) from None


def _checked_lengths(datasets: Sequence[Any]) -> list[int]:
    lengths = list(map(len, datasets))
    if 0 not in lengths:
        return lengths
    empty = [number for number, length in enumerate(lengths) if not length]
    named = ", ".join(f"{number} ({datasets[number]})" for number in empty)
    # Message kept from google/grain 0.2.18
    raise ValueError(
        "All datasets must have positive length for mixing, but dataset(s) at index "
        f"{named} have length 0."
    )


def _by_position(
    datasets: Any, weights: Any
) -> tuple[list[str] | None, Sequence[Any], Sequence[float] | None]:
    """Return the names of components, if they have any, and components and weights in order."""
    if isinstance(datasets, Mapping):
        for name in datasets:
            if not isinstance(name, str):
                raise TypeError(
                    "`mix` of named datasets needs a dictionary from names to datasets, got the key "
                    f"{name} of type {type(name).__name__}. For weights, pass a list of datasets "
                    "and a list of weights: `mix([a, b], [0.7, 0.3])`."
                )
        names = sorted(datasets)
        return names, [datasets[name] for name in names], _weights_by_name(names, weights)
    if isinstance(weights, Mapping):
        raise TypeError(
            "`mix` got named weights for a list of datasets; name the datasets as well, or pass "
            "the weights as a list."
        )
    return None, datasets, weights


def _weights_by_name(
    names: list[str], weights: Sequence[float] | Mapping[str, float] | None
) -> list[float] | None:
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise TypeError(
            f"`mix` of named datasets needs weights by name, got {weights!r}; the names are {names}."
        )
    if set(weights) != set(names):
        raise ValueError(
            f"`mix` got datasets named {names} but weights for {sorted(weights)}; they must agree."
        )
    return [weights[name] for name in names]


def _component(names: Sequence[str] | None, number: int) -> str:
    return repr(names[number]) if names else str(number)


def _written_mix(kind: str, names: Sequence[str] | None, weights: Sequence[float]) -> str:
    if all(isinstance(weight, int) for weight in weights):
        divisor = math.gcd(*map(int, weights))
        weights = [int(weight) // divisor for weight in weights]
    given: Any = dict(zip(names, weights, strict=True)) if names else list(weights)
    return written_form.call(f"{kind}.mix", weights=given if len(set(weights)) > 1 else None)


class MixedMapDataset(ManyParentsMapDataset[T]):
    """Datasets mixed in given proportions.

    Components may be named. Named ones and their proportions can be changed at an index: elements
    before it stay the same, and each component resumes at its own position.

    >>> import grain
    >>> web, code, books = (grain.MapDataset.range(n, n + 9) for n in (0, 100, 200))
    >>> mixed = grain.MapDataset.mix({"web": web, "code": code})
    >>> [mixed[i] for i in range(6)]
    [100, 0, 101, 1, 102, 2]
    >>> changed = mixed.change_at(4, {"web": web, "books": books}, {"web": 2, "books": 1})
    >>> [changed[i] for i in range(8)]
    [100, 0, 101, 1, 200, 2, 3, 201]
    """

    may_end_early = True

    def __init__(
        self,
        datasets: Sequence[MapDataset[T]] | Mapping[str, MapDataset[T]],
        weights: Sequence[float] | Mapping[str, float] | None = None,
    ):
        self.names: list[str] | None
        self.names, datasets, weights = _by_position(datasets, weights)
        super().__init__(checked_parents(datasets, MapDataset, "mix"))
        proportions = _checked_weights(weights, len(datasets))
        lengths = _checked_lengths(datasets)
        self._mixture = Mixture(proportions)
        self._length = mixed_length(lengths, proportions)

    def __len__(self) -> int:
        return self._length

    def written_call(self) -> str:
        return _written_mix("MapDataset", self.names, self._mixture.weights)

    def written_names(self) -> Sequence[str]:
        return self.names or ()

    def describe_component(self, number: int) -> str:
        return f"component {_component(self.names, number)} of the mixture"

    def __repr__(self) -> str:
        return self._text

    @computed_once
    def _text(self) -> str:
        # The text of google/grain, which states of a loader over this dataset contain.
        return self._with_selection(
            f"SelectionWithProportionsMap(proportions={tuple(self._mixture.weights)}, "
            f"length={self._length})"
        )

    def select(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        return self._mixture.select(indices)

    def select_one(self, index: int) -> tuple[int, int]:
        return self._mixture.select_one(index)

    def last_change(self) -> int:
        """Return the index at which the mixture changed last."""
        return 0

    def change_at(
        self,
        index: int,
        datasets: Mapping[str, MapDataset[T]],
        weights: Mapping[str, float] | None = None,
    ) -> ChangedMapDataset[T]:
        """Return this mixture up to an index, and one of other components or proportions from there on.

        Args:
            index: The first element of the new mixture, such as `next_index` of a state.
            datasets: The components from then on. Those of a known name resume at their position;
                new ones start at their first element.
            weights: The proportions, equal if not given.
        """
        return ChangedMapDataset(self, index, datasets, weights)

    def taken_before(self, index: int) -> dict[str, int]:
        """Return how many elements of each component come before an index."""
        counts = count_taken(self._mixture.weights, index)
        return dict(zip(self.names or (), counts, strict=True))

    def fingerprint(self) -> list[lines.Line]:
        names = self.names or range(len(self._parents))
        weights = lines.stable_text(list(self._mixture.weights))
        return [
            *lines.nested_lines(zip(names, self._parents, strict=True)),
            lines.Line("operation", f"mix(weights={weights})"),
        ]

    def components(self) -> dict[str, MapDataset[T]]:
        """Return the named components."""
        return dict(zip(self.names or (), self._parents, strict=True))


class ChangedMapDataset(ManyParentsMapDataset[T]):
    """A mixture up to an index, and another mixture of named components from there on."""

    names: list[str] | None
    _index: int

    def __init__(
        self,
        before: MixedMapDataset[T] | ChangedMapDataset[T],
        index: int,
        datasets: Mapping[str, MapDataset[T]],
        weights: Mapping[str, float] | None = None,
    ):
        if before.names is None or not isinstance(datasets, Mapping):
            raise TypeError(
                "Only a mixture of named components can be changed; pass a dictionary of datasets to "
                "`mix` and to `change_at`."
            )
        self._index = checked_int(
            "The index at which a mixture changes", index, least=before.last_change()
        )
        self._before = before
        self.names, components, proportions = _by_position(datasets, weights)
        checked = checked_parents(components, MapDataset, "mix")
        super().__init__([*before.parents, *checked])
        self._mixture = Mixture(_checked_weights(proportions, len(checked)))
        lengths = _checked_lengths(checked)
        taken = before.taken_before(self._index)
        starts = [taken.get(name, 0) for name in self.names or ()]
        self._starts = np.array(starts, dtype=np.int64)
        left = [length - start % length for length, start in zip(lengths, starts, strict=True)]
        self._length = min(self._index + mixed_length(left, self._mixture.weights), sys.maxsize)

    def __len__(self) -> int:
        return self._length

    def select(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        late = indices >= self._index
        if not late.any():
            return self._before.select(indices)
        chosen, parent_indices = self._mixture.select(np.maximum(indices - self._index, 0))
        parent_indices = parent_indices + self._starts[chosen]
        chosen = chosen + len(self._before.parents)
        if not late.all():
            chosen[~late], parent_indices[~late] = self._before.select(indices[~late])
        return chosen, parent_indices

    def select_one(self, index: int) -> tuple[int, int]:
        if index < self._index:
            return self._before.select_one(index)
        component, element = self._mixture.select_one(index - self._index)
        return component + len(self._before.parents), element + int(self._starts[component])

    def last_change(self) -> int:
        """Return the index at which the mixture changed last."""
        return self._index

    def change_at(
        self,
        index: int,
        datasets: Mapping[str, MapDataset[T]],
        weights: Mapping[str, float] | None = None,
    ) -> ChangedMapDataset[T]:
        """Change the mixture once more; see `MixedMapDataset.change_at`."""
        return ChangedMapDataset(self, index, datasets, weights)

    def taken_before(self, index: int) -> dict[str, int]:
        counts = count_taken(self._mixture.weights, index - self._index)
        resumed = zip(self.names or (), self._starts.tolist(), counts, strict=True)
        # A component that was left out resumes at its position if it comes back.
        earlier = self._before.taken_before(self._index)
        return {**earlier, **{name: start + count for name, start, count in resumed}}

    def fingerprint(self) -> list[lines.Line]:
        since = f"from {self._index}"
        names = self.names or ()
        known, changed = self._before.components(), self._last_components()
        weights = dict(zip(names, self._mixture.weights, strict=True))
        return [
            *self._before.fingerprint(),
            *lines.nested_lines(
                (f"{name}, {since}", component)
                for name, component in changed.items()
                if name not in known or known[name].fingerprint() != component.fingerprint()
            ),
            lines.Line("component", f"{since}: mix of {', '.join(map(lines.as_name, names))}"),
            lines.Line("weights", f"{since}: {lines.stable_text(weights)}"),
        ]

    def components(self) -> dict[str, MapDataset[T]]:
        """Return the named components before and after the change, as they were last."""
        return self._before.components() | self._last_components()

    def _last_components(self) -> dict[str, MapDataset[T]]:
        names = self.names or ()
        return dict(zip(names, self._parents[-len(names) :], strict=True))


class MixedIterDataset(IterDataset[T]):
    """Datasets mixed in given proportions, until the next one to read is exhausted."""

    preserves_elements = True

    may_end_early = True

    def __init__(
        self,
        datasets: Sequence[IterDataset[T]] | Mapping[str, IterDataset[T]],
        weights: Sequence[float] | Mapping[str, float] | None = None,
    ):
        self._names, datasets, weights = _by_position(datasets, weights)
        # Map datasets are accepted: they can be iterated as well.
        super().__init__(checked_parents(datasets, (IterDataset, MapDataset), "mix"))
        # Default weights are filled in, so that both ways to write them have one fingerprint.
        equal = [1] * len(self._parents)
        self._proportions = _checked_weights(equal if weights is None else weights, len(equal))

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return MixedDatasetIterator(parents, self._mixture, self._names)

    @computed_once
    def _mixture(self) -> Mixture:
        return Mixture(self._proportions)

    def written_call(self) -> str:
        return _written_mix("IterDataset", self._names, self._proportions)

    def written_names(self) -> Sequence[str]:
        return self._names or ()

    def __str__(self) -> str:
        return f"MixedIterDataset([{len(self._parents)} parents], proportions={self._proportions})"

    def fingerprint(self) -> list[lines.Line]:
        names, weights = self._names, self._proportions
        nested = lines.nested_lines(zip(names or range(len(weights)), self._parents, strict=True))
        if names is None:
            return [*nested, lines.Line("operation", f"mix(weights={lines.stable_text(weights)})")]
        by_name = dict(zip(names, weights, strict=True))
        return [
            *nested,
            lines.Line("component", f"mix of {', '.join(map(lines.as_name, names))}"),
            lines.Line("weights", lines.stable_text(by_name)),
        ]


class MixedDatasetIterator(ChunkIterator[T]):
    """An iterator that reads its parents in the order that the proportions define."""

    def __init__(
        self,
        parents: Sequence[DatasetIterator[T]],
        mixture: Mixture,
        names: list[str] | None,
    ):
        super().__init__(parents)
        self._names = names
        self._mixture = mixture
        self._max_size = current_policy().max_chunk
        self._index = 0
        self._stop = False
        self._reset()
        # The first state of a component that a restored state does not have.
        self._beginnings = [snapshot() for snapshot in self._snapshots]

    def __str__(self) -> str:
        return (
            f"MixedDatasetIterator([{len(self._parents)} parents], "
            f"proportions={tuple(self._mixture.weights)})"
        )

    def _reset(self) -> None:
        """Discard what was read from the parents, and capture their states."""
        count = len(self._parents)
        self._chunks = [END] * count
        self._taken_of = [0] * count
        # Elements to request of each parent next.
        self._sizes = [1] * count
        # Numbers of the parents whose last chunk has live states.
        self._live: set[int] = set()
        # Functions of each parent's state after the last element that was taken from it.
        self._snapshots: list[Callable[[], Any]] = list(map(captured_state, self._parents))

    def _pull(self, limit: int) -> Chunk:
        if self._stop:
            return END
        first = self._index
        for number in self._live:
            # A state of this chunk may be requested when the parent has advanced.
            self._snapshots[number] = _constant(self._snapshots[number]())
        chosen = self._components(first, limit)
        before = list(self._snapshots)
        chunks, taken_of = self._chunks, self._taken_of
        elements: list[Any] = []
        # For each parent read, the states, first offset and end of the chunks that elements were taken of.
        pieces: dict[int, list[_Piece]] = {}
        error: Exception | None = None
        for number in chosen:
            chunk, taken = chunks[number], taken_of[number]
            if taken >= len(chunk.elements):
                if chunk.live and elements:
                    break  # Reading further would invalidate a live state.
                try:
                    chunk = self._next_chunk(number, limit)
                except Exception as raised:
                    component = _component(self._names, number)
                    note_component(raised, f"component {component} of the mixture")
                    error = raised
                if error is not None or not chunk.elements:
                    self._stop = error is None
                    break
                taken = 0
                piece = (chunk.state_after, 0, len(chunk.elements))
                if number in pieces:
                    pieces[number].append(piece)
                else:
                    pieces[number] = [piece]
            elif number not in pieces:
                pieces[number] = [(chunk.state_after, taken, len(chunk.elements))]
            elements.append(chunk.elements[taken])
            taken_of[number] = taken + 1
            if chunk.live:
                break
        self._index += len(elements)
        for number in pieces:
            self._snapshots[number] = chunks[number].snapshot(taken_of[number] - 1)
        live = bool(elements) and chunks[chosen[len(elements) - 1]].live
        made = END
        if elements:
            state_after = _MixedStates(self._names, before, first, chosen, pieces)
            made = Chunk(elements, state_after, live)
        if error is not None or self._stop:
            failed = chosen[len(elements)]
            self._index += 1
            self._snapshots[failed] = captured_state(self._parents[failed])
        return made if error is None else self._fail_after(error, made)

    def _components(self, first: int, count: int) -> list[int]:
        """Return the numbers of the parents that give consecutive elements."""
        if count == 1:  # As at each start: without arrays.
            return [self._mixture.select_one(first)[0]]
        indices = np.arange(first, first + count, dtype=np.int64)
        chosen: list[int] = self._mixture.select(indices)[0].tolist()
        return chosen

    def _next_chunk(self, number: int, limit: int) -> Chunk:
        """Read from a parent; more each time, so that many parents do not all read much at once."""
        size = self._sizes[number]
        chunk = self._parents[number].next_chunk(min(size, limit))
        self._sizes[number] = min(2 * size, self._max_size)
        self._chunks[number], self._taken_of[number] = chunk, 0
        (self._live.add if chunk.live else self._live.discard)(number)
        return chunk

    def _live_state(self) -> Any:
        return _state(self._names, self._snapshots, self._index, self._stop)

    def _live_state_function(self) -> Callable[[], Any]:
        if self._live:
            return super()._live_state_function()
        return partial(_state, self._names, list(self._snapshots), self._index, self._stop)

    def _check_names(self, states: Mapping[str, Any], names: list[str]) -> None:
        """Warn of components that came or went; raise if none is left."""
        if set(states) == set(names) or "component" in allowed_changes():
            return
        if not set(states) & set(names):
            state_field(states, names[0], self)
        warn_of_mixture(
            "The components of the saved mixture differ from those of this one (-: in the state, "
            f"+: here):\n{difference(sorted(states), names)}\n",
            ["component"],
        )

    def _restore(self, state: Any) -> None:
        states = state_field(state, "parents", self)
        if not isinstance(states, (list, tuple, Mapping)):
            raise TypeError(
                "`parents` of a mixture's state must be a list or a mapping of states, got "
                f"{states!r}."
            )
        names = self._names
        ordered: Sequence[Any] = []
        if names is not None and isinstance(states, Mapping):
            self._check_names(states, names)
            pairs = zip(names, self._beginnings, strict=True)
            ordered = [states.get(name, beginning) for name, beginning in pairs]
        elif (
            names is None and len(states) == len(self._parents) and not isinstance(states, Mapping)
        ):
            ordered = states
        else:
            raise ValueError(
                f"The state holds {len(states)} mixture components ({_named(states)}), but this "
                f"mixture has {len(self._parents)} ({'by name' if names else 'by position'})."
            )
        stop = state_field(state, "stop", self)
        if not isinstance(stop, (bool, int)) or stop not in (0, 1):
            raise TypeError(
                f"`stop` of a mixture's state must be True or False, got {stop!r:.200}."
            )
        index = checked_int("`index` of a state", state_field(state, "index", self), least=0)
        if index > _MAX_INDEX:
            raise ValueError(
                f"`index` of a mixture's state must be at most {_MAX_INDEX}, got {index}."
            )
        for parent, parent_state in zip(self._parents, ordered, strict=True):
            parent.restore_as_parent(parent_state)
        self._index, self._stop = index, bool(stop)
        self._reset()


# Beyond, the numbers of the next elements would leave 64 bits.
_MAX_INDEX = 2**62

_Piece = tuple[Callable[[int], Any], int, int]


class _MixedStates:
    """The states after each element of a chunk of a mixture.

    States are usually requested in order, so the position that was found last is where the next search
    starts. It holds no iterator: a reference cycle would keep a dropped iterator alive.

    Args:
        names: Names of the components, if they have names.
        before: State functions of the parents before the chunk.
        first: Number of elements before the chunk.
        chosen: Parent of each element.
        pieces: For each parent read, the states, first offset and end of the chunks that elements were
            taken of.
    """

    def __init__(
        self,
        names: list[str] | None,
        before: list[Callable[[], Any]],
        first: int,
        chosen: list[int],
        pieces: dict[int, list[_Piece]],
    ):
        self._names = names
        self._before = before
        self._first = first
        self._chosen = chosen
        self._pieces = pieces
        # Number of elements that are behind, and of each parent; replaced as a whole, for other threads.
        self._found: tuple[int, dict[int, int]] = (0, {})

    def __call__(self, offset: int) -> Any:
        position, counts = self._found
        counts = dict(counts) if offset >= position else {}
        for number in self._chosen[position if counts else 0 : offset + 1]:
            counts[number] = counts.get(number, 0) + 1
        self._found = (offset + 1, counts)
        states = [
            self._parent_state(number, counts[number]) if number in counts else before()
            for number, before in enumerate(self._before)
        ]
        return _mixed_state(self._names, states, self._first + offset + 1, stop=False)

    def _parent_state(self, number: int, count: int) -> Any:
        """Return a parent's state after `count` of its elements in the chunk."""
        for state_after, start, stop in self._pieces[number]:
            if count <= stop - start:
                return state_after(start + count - 1)
            count -= stop - start
        raise IndexError(f"A mixture took fewer than {count} elements of component {number}.")


def _state(
    names: list[str] | None, snapshots: list[Callable[[], Any]], index: int, stop: bool
) -> dict[str, Any]:
    return _mixed_state(names, [snapshot() for snapshot in snapshots], index, stop)


def _mixed_state(
    names: list[str] | None, states: list[Any], index: int, stop: bool
) -> dict[str, Any]:
    parents = states if names is None else dict(zip(names, states, strict=True))
    return {"parents": parents, "index": index, "stop": stop}


def _named(states: Any) -> str:
    return ", ".join(map(str, states)) if isinstance(states, Mapping) else "by position"


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value
