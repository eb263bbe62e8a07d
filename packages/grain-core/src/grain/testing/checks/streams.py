"""Iter sources: independent iterators that end once and resume from every state."""

from __future__ import annotations

import itertools
import json
from typing import Any

from grain.dataset.base import DatasetIterator, IterDataset
from grain.testing.compare import difference, expect_same, expect_same_all, snapshot
from grain.testing.sampling import sample_steps
from grain.testing.subject import NotApplicable, Subject


def check_iter_dataset_types(subject: Subject) -> None:
    """Check that an iter source is a `grain.IterDataset`, and its iterators are `grain.DatasetIterator`s.

    Subclass both; they provide `map`, `batch`, `mp_prefetch` and the other operations.
    """
    dataset = subject.fresh()
    assert isinstance(dataset, IterDataset), f"{type(dataset).__name__} is not a grain.IterDataset."
    iterator = iter(dataset)
    assert isinstance(iterator, DatasetIterator), (
        f"iter() returned a {type(iterator).__name__}, not a grain.DatasetIterator."
    )


def check_iterators_independent(subject: Subject) -> None:
    """Check that every iterator of a dataset starts at the first element, independent of other iterators.

    Keep positions in the iterator, never in the dataset.
    """
    dataset = subject.fresh()
    first = iter(dataset)
    taken = [snapshot(element) for element in itertools.islice(first, 2)]
    expect_same_all(subject.elements, subject.read(dataset), "a second iterator")
    rest = subject.rest(first, len(taken))
    expect_same_all(subject.elements, taken + rest, "the first iterator, continued")


def check_exhaustion_is_final(subject: Subject) -> None:
    """Check that an exhausted iterator raises StopIteration on every further call.

    Remember the end; do not restart or raise another exception.
    """
    if subject.is_truncated:
        raise NotApplicable(f"the stream does not end within {len(subject.elements)} elements")
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
        raise AssertionError(f"next() after the end returned {element!r:.80}.")


def check_state_restores_new_iterator(subject: Subject) -> None:
    """Check that a new iterator resumes from any state, the first and the last included.

    Store in the state everything that determines the next element, and restore all of it in
    `set_state`.
    """
    dataset = subject.fresh()
    states = _states(subject, dataset)
    for step in sample_steps(len(states)):
        actual = _resume(subject, iter(subject.fresh()), snapshot(states[step]), step)
        expect_same_all(subject.elements[step:], actual, f"from the state after {step} elements")


def check_state_restores_used_iterator(subject: Subject) -> None:
    """Check that a state can be restored repeatedly, also into a used iterator.

    Replace everything in `set_state`, buffers included, and do not modify its argument.
    """
    dataset = subject.fresh()
    states = _states(subject, dataset)
    iterator = iter(dataset)
    for step in sample_steps(len(states)):
        state = states[step]
        what = f"from the state after {step} elements, in a used iterator"
        expect_same_all(subject.elements[step:], _resume(subject, iterator, state, step), what)
        # Restore again mid-stream: prefetched elements must be discarded.
        iterator.set_state(snapshot(states[0]))
        next(iterator, None)
        expect_same_all(
            subject.elements[step:], _resume(subject, iterator, state, step), f"again {what}"
        )


def check_state_json_round_trip(subject: Subject) -> None:
    """Check that a state is plain JSON: a round trip preserves it, and the result restores the same elements.

    Use dicts with string keys, lists, numbers, strings, booleans and None; convert numpy integers
    with `int()`.
    """
    dataset = subject.fresh()
    states = _states(subject, dataset)
    for step in sample_steps(len(states)):
        try:
            read = json.loads(json.dumps(states[step]))
        except (TypeError, ValueError) as error:
            raise AssertionError(
                f"the state {states[step]!r:.120} is not JSON: {error}."
            ) from error
        expect_same(states[step], read, f"the state after {step} elements, through JSON")
        actual = _resume(subject, iter(dataset), read, step)
        expect_same_all(subject.elements[step:], actual, f"from JSON after {step} elements")


def check_state_is_snapshot(subject: Subject) -> None:
    """Check that a state does not change when the iterator advances.

    Return a new dict from every `get_state` call, with copies of mutable values.
    """
    iterator = iter(subject.fresh())
    taken = [iterator.get_state()]
    snapshots = [snapshot(taken[0])]
    for _ in itertools.islice(iterator, subject.stream_limit):
        taken.append(iterator.get_state())
        snapshots.append(snapshot(taken[-1]))
    for step, (then, now) in enumerate(zip(snapshots, taken, strict=True)):
        found = difference(then, now)
        assert found is None, f"the state taken after {step} elements changed later: {found}."


def check_get_state_without_side_effects(subject: Subject) -> None:
    """Check that `get_state` changes neither the elements nor the state.

    Read no element and move no position in `get_state`.
    """
    iterator = iter(subject.fresh())
    elements: list[Any] = []
    while len(elements) < subject.stream_limit:
        first, second = (snapshot(iterator.get_state()) for _ in range(2))
        expect_same(first, second, "the state of two calls")
        try:
            elements.append(snapshot(next(iterator)))
        except StopIteration:
            break
    expect_same_all(subject.elements, elements, "read with a `get_state` call per element")


def _states(subject: Subject, dataset: Any) -> list[Any]:
    """Return a snapshot of the state before the first element and after each element."""
    iterator = iter(dataset)
    states = [snapshot(iterator.get_state())]
    for _ in itertools.islice(iterator, subject.stream_limit):
        states.append(snapshot(iterator.get_state()))
    return states


def _resume(subject: Subject, iterator: Any, state: Any, step: int) -> list[Any]:
    try:
        iterator.set_state(state)
        return subject.rest(iterator, step)
    except Exception as error:
        raise AssertionError(
            f"resuming from the state after {step} elements raised {error!r}."
        ) from error
