"""Mixtures of datasets in given proportions, by index and in order; named ones may change on the way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from grain._lazy import LazyModule
from grain.dataset.chunk import END, Chunk
from grain.dataset.element_spec import get_element_spec
from grain.dataset.fingerprint.changes import allowed_changes, difference, warn_of_mixture
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.map_dataset import MapDataset
from grain.dataset.selection import ManyParentsMapDataset, checked_parents
from grain.index.mixing import Mixture, integer_weights, mixed_length
from grain.index.permutation import IndexArray
from grain.options import checked_int

# Few nodes are fingerprinted, and none by a worker.
if TYPE_CHECKING:
    from grain.dataset.fingerprint import lines
else:
    lines = LazyModule("grain.dataset.fingerprint.lines")

T = TypeVar("T")


def _checked_weights(weights: Sequence[float] | None, count: int) -> list[int]:
    if not count:
        raise ValueError("`mix` needs at least one dataset, got none.")
    if weights is None:
        return [1] * count
    if isinstance(weights, (str, bytes)) or not hasattr(weights, "__len__"):
        raise TypeError(f"`mix` needs weights as a sequence of numbers, got {weights!r}.")
    for weight in weights:
        if not hasattr(weight, "__float__"):
            raise TypeError(
                f"`mix` needs weights that are numbers, got {weight!r} of type "
                f"{type(weight).__name__} in {weights!r}."
            )
    if len(weights) != count:
        raise ValueError(f"`mix` got {count} datasets but {len(weights)} weights: {weights}.")
    if any(weight == 0 for weight in weights):
        raise ValueError("Must specify all non-zero proportions for mixing.")
    if not all(0 < weight < float("inf") for weight in weights):
        raise ValueError(f"Weights for mixing must be positive and finite, got {list(weights)}.")
    try:
        return integer_weights(weights)
    except OverflowError:
        raise ValueError(
            f"Weights for mixing are too far apart to be compared, got {list(weights)}."
        ) from None


def _checked_lengths(datasets: Sequence[Any]) -> list[int]:
    lengths = [len(dataset) for dataset in datasets]
    empty = [number for number, length in enumerate(lengths) if not length]
    if empty:
        named = ", ".join(f"{number} ({datasets[number]})" for number in empty)
        raise ValueError(
            "All datasets must have positive length for mixing, but dataset(s) at index "
            f"{named} have length 0."
        )
    return lengths


def _taken_of(weights: Sequence[int], count: int) -> list[int]:
    """How many of the first `count` elements of a mixture each component gives."""
    remaining, left, taken = sum(weights), count, []
    for weight in weights:
        further = left * (remaining - weight) // remaining
        taken.append(left - further)
        remaining, left = remaining - weight, further
    return taken


def _by_position(
    datasets: Any, weights: Any
) -> tuple[list[str] | None, Sequence[Any], Sequence[float] | None]:
    """The names of components, if they have any, and components and weights in their order."""
    if isinstance(datasets, Mapping):
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


class MixedMapDataset(ManyParentsMapDataset[T]):
    """Datasets mixed in given proportions.

    Components may be named. Named ones and their proportions can be changed at a point of the stream:
    what came before stays as it was, and each component goes on where it stands there.

    >>> import grain
    >>> web, code, books = (grain.MapDataset.range(n, n + 9) for n in (0, 100, 200))
    >>> mixed = grain.MapDataset.mix({"web": web, "code": code})
    >>> [mixed[i] for i in range(6)]
    [100, 0, 101, 1, 102, 2]
    >>> changed = mixed.change_at(4, {"web": web, "books": books}, {"web": 2, "books": 1})
    >>> [changed[i] for i in range(8)]
    [100, 0, 101, 1, 200, 2, 3, 201]
    """

    def __init__(
        self,
        datasets: Sequence[MapDataset[T]] | Mapping[str, MapDataset[T]],
        weights: Sequence[float] | Mapping[str, float] | None = None,
    ):
        self._names: list[str] | None
        self._names, datasets, weights = _by_position(datasets, weights)
        super().__init__(checked_parents(datasets, MapDataset, "mix"))
        proportions = _checked_weights(weights, len(datasets))
        lengths = _checked_lengths(datasets)
        self._mixture = Mixture(proportions)
        self._length = mixed_length(lengths, proportions)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return self._with_selection(
            f"SelectionWithProportionsMap(proportions={tuple(self._mixture.weights)}, "
            f"length={self._length})"
        )

    def _select(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        return self._mixture.select(indices)

    def change_at(
        self,
        index: int,
        datasets: Mapping[str, MapDataset[T]],
        weights: Mapping[str, float] | None = None,
    ) -> ChangedMapDataset[T]:
        """This mixture up to an index, and from there on one of other components or proportions.

        Args:
          index: the first element that the new mixture gives, such as `next_index` of a state.
          datasets: the components from then on. Those of a name that was there before go on where
            they stand; new ones start at their beginning.
          weights: their proportions, equal if not given.
        """
        return ChangedMapDataset(self, index, datasets, weights)

    def _taken(self, index: int) -> dict[str, int]:
        """How many elements of each component there are before an index."""
        counts = _taken_of(self._mixture.weights, index)
        return dict(zip(self._names or (), counts, strict=True))

    def fingerprint(self) -> list[lines.Line]:
        names = self._names or range(len(self._parents))
        weights = lines.stable_text(list(self._mixture.weights))
        return [
            *lines.nested_lines(zip(names, self._parents, strict=True)),
            lines.Line("operation", f"mix(weights={weights})"),
        ]

    def components(self) -> dict[str, MapDataset[T]]:
        """Return the named components."""
        return dict(zip(self._names or (), self._parents, strict=True))


class ChangedMapDataset(ManyParentsMapDataset[T]):
    """A mixture up to an index, and another one of named components from there on."""

    _names: list[str] | None
    _index: int

    def __init__(
        self,
        before: MixedMapDataset[T] | ChangedMapDataset[T],
        index: int,
        datasets: Mapping[str, MapDataset[T]],
        weights: Mapping[str, float] | None = None,
    ):
        if before._names is None or not isinstance(datasets, Mapping):
            raise TypeError(
                "Only a mixture of named components can be changed, for others cannot be found "
                "again; give `mix` a dictionary of datasets, before and after."
            )
        least = before._index if isinstance(before, ChangedMapDataset) else 0
        self._index = checked_int("The index at which a mixture changes", index, least=least)
        self._before = before
        self._names, components, proportions = _by_position(datasets, weights)
        checked = checked_parents(components, MapDataset, "mix")
        super().__init__([*before._parents, *checked])
        self._mixture = Mixture(_checked_weights(proportions, len(checked)))
        lengths = _checked_lengths(checked)
        taken = before._taken(self._index)
        starts = [taken.get(name, 0) for name in self._names or ()]
        self._starts = np.array(starts, dtype=np.int64)
        left = [length - start % length for length, start in zip(lengths, starts, strict=True)]
        self._length = min(self._index + mixed_length(left, self._mixture.weights), sys.maxsize)

    def __len__(self) -> int:
        return self._length

    def _select(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        late = indices >= self._index
        if not late.any():
            return self._before._select(indices)
        chosen, places = self._mixture.select(np.maximum(indices - self._index, 0))
        places = places + self._starts[chosen]
        chosen = chosen + len(self._before._parents)
        if not late.all():
            chosen[~late], places[~late] = self._before._select(indices[~late])
        return chosen, places

    def change_at(
        self,
        index: int,
        datasets: Mapping[str, MapDataset[T]],
        weights: Mapping[str, float] | None = None,
    ) -> ChangedMapDataset[T]:
        """Changes the mixture once more; see `MixedMapDataset.change_at`."""
        return ChangedMapDataset(self, index, datasets, weights)

    def _taken(self, index: int) -> dict[str, int]:
        counts = _taken_of(self._mixture.weights, index - self._index)
        goes_on = zip(self._names or (), self._starts.tolist(), counts, strict=True)
        # A component that was left out goes on where it stands, if it comes back.
        earlier = self._before._taken(self._index)
        return {**earlier, **{name: start + count for name, start, count in goes_on}}

    def fingerprint(self) -> list[lines.Line]:
        since = f"from {self._index}"
        names = self._names or ()
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
        names = self._names or ()
        return dict(zip(names, self._parents[-len(names) :], strict=True))


class MixedIterDataset(IterDataset[T]):
    """Datasets mixed in given proportions, until one that is asked has no more."""

    def __init__(
        self,
        datasets: Sequence[IterDataset[T]] | Mapping[str, IterDataset[T]],
        weights: Sequence[float] | Mapping[str, float] | None = None,
    ):
        self._names, datasets, weights = _by_position(datasets, weights)
        # A map dataset will do: it can be iterated as well.
        super().__init__(checked_parents(datasets, (IterDataset, MapDataset), "mix"))
        # Equal weights are spelt out, so that both ways to say it have one text.
        equal = [1] * len(self._parents)
        self._proportions = _checked_weights(equal if weights is None else weights, len(equal))

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        return MixedDatasetIterator(parents, self)

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

    def infer_element_spec(self) -> Any:
        return get_element_spec(self._parents[0])


class MixedDatasetIterator(ChunkIterator[T]):
    """Asks its parents in turn, as the proportions say."""

    def __init__(self, parents: Sequence[DatasetIterator[T]], dataset: MixedIterDataset[T]):
        super().__init__(parents)
        self._dataset = dataset
        self._mixture = Mixture(dataset._proportions)
        self._index = 0
        self._stop = False
        self._mark_parents()
        # Where a component starts that a state does not know.
        self._beginnings = [mark() for mark in self._marks]

    def __str__(self) -> str:
        proportions = tuple(self._dataset._proportions)
        return f"MixedDatasetIterator([{len(self._parents)} parents], proportions={proportions})"

    def _mark_parents(self) -> None:
        """Forgets what was read from the parents, and notes where they stand."""
        count = len(self._parents)
        self._chunks = [END] * count
        self._taken_of = [0] * count
        states = [parent.get_state() for parent in self._parents]
        # How to find each parent's state after the last element that was taken from it.
        self._marks: list[Callable[[], Any]] = [_constant(state) for state in states]

    def _pull(self, limit: int) -> Chunk:
        if self._stop:
            return END
        first = self._index
        for number, chunk in enumerate(self._chunks):
            # Whoever asks later for a state of this chunk may find the parent further on.
            if chunk.live:
                self._marks[number] = _constant(self._marks[number]())
        before = list(self._marks)
        elements: list[Any] = []
        history: list[tuple[int, Callable[[], Any]]] = []
        live = False
        chosen, _ = self._mixture.select(np.arange(first, first + limit, dtype=np.int64))
        for number in chosen.tolist():
            chunk, taken = self._chunks[number], self._taken_of[number]
            if taken >= len(chunk.elements):
                if chunk.live and elements:
                    break  # Reading on would change a state that somebody may still ask for.
                try:
                    chunk = self._parents[number].next_chunk(limit)
                except Exception as error:
                    self._index += 1
                    self._marks[number] = _constant(self._parents[number].get_state())
                    made = self._run_of(elements, first, before, history, live)
                    return self._fail_after(error, made)
                self._chunks[number], taken = chunk, 0
                if not chunk.elements:
                    self._index += 1
                    self._stop = True
                    self._marks[number] = _constant(self._parents[number].get_state())
                    break
            elements.append(chunk.elements[taken])
            self._taken_of[number] = taken + 1
            mark = chunk.snapshot(taken)
            self._marks[number] = mark
            history.append((number, mark))
            self._index += 1
            if chunk.live:
                live = True
                break
        return self._run_of(elements, first, before, history, live)

    def _run_of(
        self,
        elements: list[Any],
        first: int,
        before: list[Callable[[], Any]],
        history: list[tuple[int, Callable[[], Any]]],
        live: bool,
    ) -> Chunk:
        names = self._dataset._names

        # It does not know the iterator: one that is dropped goes at once, with all it holds.
        def state_after(place: int) -> Any:
            marks = list(before)
            for number, mark in history[: place + 1]:
                marks[number] = mark
            return _state(names, marks, first + place + 1, stop=False)

        return Chunk(elements, state_after, live) if elements else END

    def _live_state(self) -> Any:
        return _state(self._dataset._names, self._marks, self._index, self._stop)

    def _check_names(self, states: Mapping[str, Any], names: list[str]) -> None:
        """Components may come and go, but not silently, and not all of them."""
        if set(states) == set(names) or "component" in allowed_changes():
            return
        if not set(states) & set(names):
            state_field(states, names[0], self)
        warn_of_mixture(
            "The components of the mixture that was saved differ from those here (-: in the state, "
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
        names = self._dataset._names
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
        index = checked_int("`index` of a state", state_field(state, "index", self), least=0)
        for parent, parent_state in zip(self._parents, ordered, strict=True):
            parent.set_state(parent_state)
        self._index, self._stop = index, bool(stop)
        self._mark_parents()


def _state(
    names: list[str] | None, marks: list[Callable[[], Any]], index: int, stop: bool
) -> dict[str, Any]:
    states = [mark() for mark in marks]
    parents = states if names is None else dict(zip(names, states, strict=True))
    return {"parents": parents, "index": index, "stop": stop}


def _named(states: Any) -> str:
    return ", ".join(map(str, states)) if isinstance(states, Mapping) else "by position"


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value
