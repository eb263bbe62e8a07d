"""A check that a dataset resumes from each of its states with the elements of the first run."""

from __future__ import annotations

from typing import Any

import numpy as np

from grain import tree
from grain.dataset.same_epoch import looking


def assert_equal_output_after_checkpoint(ds: Any) -> None:
    """Raise an AssertionError if a dataset does not resume from a state as in the first run.

    Every state is restored into a new iterator and, twice, into one that has been used. The dataset
    must be finite and not long: elements are kept, and read once more for every state.

    >>> import grain
    >>> ds = grain.MapDataset.range(4).to_iter_dataset().batch(2)
    >>> assert_equal_output_after_checkpoint(ds)
    """
    with looking():
        _check(ds)


def _check(ds: Any) -> None:
    iterator: Any = ds.__iter__() if hasattr(ds, "__iter__") else None
    if not hasattr(iterator, "get_state"):
        raise TypeError(
            "assert_equal_output_after_checkpoint needs a grain dataset or loader, whose iterators "
            f"have states; got {ds!r} of type {type(ds).__name__}."
        )
    expected: list[Any] = []
    states = [iterator.get_state()]
    for element in iterator:
        expected.append(element)
        states.append(iterator.get_state())
    assert expected, "Dataset did not produce any elements."
    for step, state in enumerate(states):
        fresh = ds.__iter__()
        for used in (fresh, iterator, iterator):
            used.set_state(state)
            _compare(expected[step:], list(used), step, state)
        if fresh is not iterator:  # An elastic iterator is its own.
            fresh.close()


def _compare(expected: list[Any], actual: list[Any], step: int, state: Any) -> None:
    message = f"Restored values mismatch at step {step} for state {state}."
    assert len(expected) == len(actual), (
        f"{message}\nExpected {len(expected)} elements: {expected}\nActual {len(actual)}: {actual}"
    )
    for offset, (one, other) in enumerate(zip(expected, actual, strict=True)):
        same_structure = tree.map_leaves(_nothing, one) == tree.map_leaves(_nothing, other)
        same = same_structure and all(
            _equal(*pair) for pair in zip(tree.leaves(one), tree.leaves(other), strict=True)
        )
        assert same, f"{message}\nElement {offset} after it was {one}, and now is {other}."


def _nothing(leaf: Any) -> None:
    del leaf


def _equal(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"))
