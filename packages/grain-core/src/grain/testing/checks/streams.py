"""Iter sources: iterators that begin anew, end for good, and go on from every state."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

from grain.dataset.base import DatasetIterator, IterDataset
from grain.testing.compare import difference, expect_same, expect_same_all, snapshot
from grain.testing.subject import Subject

_MOST_STATES = 24


def check_iter_dataset_types(subject: Subject) -> None:
    """An iter source is a `grain.IterDataset`, and its iterators are `grain.DatasetIterator`s.

    Subclass both; they bring `map`, `batch`, `mp_prefetch` and the rest.
    """
    dataset = subject.fresh()
    assert isinstance(dataset, IterDataset), f"{type(dataset).__name__} is no grain.IterDataset."
    iterator = iter(dataset)
    assert isinstance(iterator, DatasetIterator), (
        f"iter() gave a {type(iterator).__name__}, which is no grain.DatasetIterator."
    )


def check_iterators_independent(subject: Subject) -> None:
    """Every iterator of a dataset begins at the first element, whatever others have read.

    Keep positions in the iterator, never in the dataset.
    """
    dataset = subject.fresh()
    begun = iter(dataset)
    taken = [snapshot(element) for element in itertools.islice(begun, 2)]
    expect_same_all(subject.elements, subject.read(dataset), "a second iterator")
    rest = [snapshot(element) for element in begun]
    expect_same_all(subject.elements, taken + rest, "the first iterator, read on")


def check_exhaustion_is_final(subject: Subject) -> None:
    """An iterator that has ended raises StopIteration each time it is asked again.

    Remember the end; do not begin again or raise something else.
    """
    iterator = iter(subject.fresh())
    for _ in iterator:
        pass
    for _ in range(3):
        try:
            element = next(iterator)
        except StopIteration:
            continue
        except Exception as error:
            raise AssertionError(f"next() after the end raised {error!r}.") from error
        raise AssertionError(f"next() after the end gave {element!r:.80}.")


def check_state_restores_new_iterator(subject: Subject) -> None:
    """A new iterator set to any state, the first and the last too, gives the elements after it.

    Put into the state all that decides what comes next, and into `set_state` its exact reverse.
    """
    dataset = subject.fresh()
    states = _states(dataset)
    for step in _spread(len(states)):
        actual = _resume(iter(subject.fresh()), snapshot(states[step]), step)
        expect_same_all(subject.elements[step:], actual, f"from the state after {step} elements")


def check_state_restores_used_iterator(subject: Subject) -> None:
    """A state can be restored again, also into an iterator that has been used.

    `set_state` must replace everything, buffers included, and leave the state it is given alone.
    """
    dataset = subject.fresh()
    states = _states(dataset)
    iterator = iter(dataset)
    for step in _spread(len(states)):
        state = states[step]
        what = f"from the state after {step} elements, in a used iterator"
        expect_same_all(subject.elements[step:], _resume(iterator, state, step), what)
        # Once more, and leaving it in the middle: what was read ahead must not stay.
        iterator.set_state(snapshot(states[0]))
        next(iterator, None)
        expect_same_all(subject.elements[step:], _resume(iterator, state, step), f"again {what}")


def check_state_json_round_trip(subject: Subject) -> None:
    """A state is plain JSON: written and read it is equal, and restores the same.

    Use dicts with text as keys, lists, numbers, text, booleans and None; `int()` of numpy's integers.
    """
    dataset = subject.fresh()
    states = _states(dataset)
    for step in _spread(len(states)):
        try:
            read = json.loads(json.dumps(states[step]))
        except (TypeError, ValueError) as error:
            raise AssertionError(
                f"the state {states[step]!r:.120} is not JSON: {error}."
            ) from error
        expect_same(states[step], read, f"the state after {step} elements, through JSON")
        actual = _resume(iter(dataset), read, step)
        expect_same_all(subject.elements[step:], actual, f"from JSON after {step} elements")


def check_state_is_snapshot(subject: Subject) -> None:
    """A state that was taken does not change when the iterator is read on.

    Return a new dict from `get_state` each time, with copies of what changes.
    """
    iterator = iter(subject.fresh())
    taken = [iterator.get_state()]
    as_taken = [snapshot(taken[0])]
    for _ in iterator:
        taken.append(iterator.get_state())
        as_taken.append(snapshot(taken[-1]))
    for step, (then, now) in enumerate(zip(as_taken, taken, strict=True)):
        found = difference(then, now)
        assert found is None, f"the state taken after {step} elements changed later: {found}."


def check_get_state_without_side_effects(subject: Subject) -> None:
    """Asking for the state, even often, changes neither the elements nor the state.

    `get_state` only looks: it reads no element and moves no position.
    """
    iterator = iter(subject.fresh())
    elements = []
    while True:
        first, second = (snapshot(iterator.get_state()) for _ in range(2))
        expect_same(first, second, "the state, asked for twice")
        try:
            elements.append(snapshot(next(iterator)))
        except StopIteration:
            break
    expect_same_all(subject.elements, elements, "read with the state asked for at every step")


def _states(dataset: Any) -> list[Any]:
    """The state before the first element, and after each; each as it was then."""
    iterator = iter(dataset)
    states = [snapshot(iterator.get_state())]
    for _ in iterator:
        states.append(snapshot(iterator.get_state()))
    return states


def _resume(iterator: Any, state: Any, step: int) -> list[Any]:
    try:
        iterator.set_state(state)
        return [snapshot(element) for element in iterator]
    except Exception as error:
        raise AssertionError(
            f"going on from the state after {step} elements raised {error!r}."
        ) from error


def _spread(count: int) -> Sequence[int]:
    if count <= _MOST_STATES:
        return range(count)
    return [*range(0, count - 1, -(-count // _MOST_STATES)), count - 1]
