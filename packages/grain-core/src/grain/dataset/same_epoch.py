"""The warning that a shuffled dataset, which was read to its end, is iterated again as it was."""

from __future__ import annotations

import warnings
import weakref
from typing import Any

_read_completely: weakref.WeakSet[Any] = weakref.WeakSet()
_has_warned = False

# Whether any dataset was read to its end, so that other programs need not look for it.
is_watching = False


def note_complete_pass(dataset: Any) -> None:
    """Record that an iterator of a dataset reached the end."""
    global is_watching
    if _has_warned or not _draws_randomly(dataset):
        return
    # Iterating over a map dataset makes an iter dataset each time.
    by_index = [parent for parent in dataset.parents if hasattr(type(parent), "__getitem__")]
    for node in (dataset, *by_index):
        try:
            _read_completely.add(node)
        except TypeError:  # A user's class that has no hash, or no weak references.
            return
    is_watching = True


def warn_of_same_epoch(dataset: Any) -> None:
    """Warn, once in a program, if a dataset that was read to its end is iterated again."""
    global _has_warned, is_watching
    try:
        if dataset not in _read_completely:
            return
    except TypeError:
        return
    _has_warned, is_watching = True, False
    _read_completely.clear()
    warnings.warn(
        "This dataset was read to its end before and is iterated again: the order and the random draws "
        "are those of the first pass. For other ones in each epoch write `for epoch_ds in "
        "ds.epochs(n)`, or iterate over `ds.repeat(n)` once. This warning is shown once.",
        stacklevel=3,
    )


def forget() -> None:
    """Warn again in this program."""
    global _has_warned
    _has_warned = False


def _draws_randomly(dataset: Any) -> bool:
    return bool(dataset.is_random) or any(map(_draws_randomly, dataset.parents))
