"""The warning that a shuffled dataset, which was read to its end, is iterated again as it was.

A dataset may be iterated directly, or below another dataset that reads from it, and passes of the two
kinds are counted separately. A look at a dataset, followed by training on a pipeline that continues it, is no
second epoch. A program that builds the rest of its pipeline again for each epoch, as `fit` of Keras does, has
one.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_read_directly: weakref.WeakSet[Any] = weakref.WeakSet()
_read_below: weakref.WeakSet[Any] = weakref.WeakSet()
_has_warned = False

# While a dataset is being opened: those that it reads from and that were read to their ends below another.
_opening: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar(
    "_opening", default=None
)

# Whether datasets are read to look at them only.
_is_looking: contextvars.ContextVar[bool] = contextvars.ContextVar("_is_looking", default=False)

# Whether any dataset was read to its end, so that other programs need not look for it.
is_watching = False


def note_complete_pass(dataset: Any) -> None:
    """Record that an iterator of a dataset reached the end."""
    global is_watching
    if _has_warned or _is_looking.get() or not _draws_randomly(dataset):
        return
    # Iterating over a map dataset makes an iter dataset each time.
    by_index = [parent for parent in dataset.parents if hasattr(type(parent), "__getitem__")]
    try:
        for node in (dataset, *by_index):
            _read_directly.add(node)
        _note_below(dataset)
    except TypeError:  # A user's class that has no hash, or no weak references.
        return
    is_watching = True


@contextlib.contextmanager
def looking() -> Iterator[None]:
    """Count no pass inside of a block: a look at a dataset is not an epoch."""
    token = _is_looking.set(True)
    try:
        yield
    finally:
        _is_looking.reset(token)


def _note_below(node: Any) -> None:
    """Record the datasets with random draws that a dataset was read from, to their ends."""
    if node.may_end_early:
        return
    for parent in filter(_draws_randomly, node.parents):
        _read_below.add(parent)
        _note_below(parent)


def start_over(dataset: Any) -> None:
    """Forget the passes of a dataset and of those that it reads from."""
    for read_before in (_read_directly, _read_below):
        if _is_in(read_before, dataset):
            read_before.discard(dataset)
    for parent in dataset.parents:
        start_over(parent)


def open_watched(dataset: Any, make: Callable[[Any], T]) -> T:
    """Return `make(dataset)`; warn, once in a program, if the dataset is read again as it was.

    An iterator that may still be set to a state warns when its first element is read.
    """
    if _is_looking.get():
        return make(dataset)
    repeated = _opening.get()
    if repeated is not None:
        if _is_in(_read_below, dataset):
            repeated.append(dataset)
        return make(dataset)
    repeated = []
    token = _opening.set(repeated)
    try:
        made: Any = make(dataset)
    finally:
        _opening.reset(token)
    if repeated or _is_in(_read_directly, dataset):
        if hasattr(type(made), "repeats_pass"):
            made.repeats_pass = True
        else:
            warn_of_repetition()
    return made  # type: ignore[no-any-return]


def _is_in(read_before: weakref.WeakSet[Any], dataset: Any) -> bool:
    try:
        return dataset in read_before
    except TypeError:
        return False


def warn_of_repetition() -> None:
    """Warn, once in a program, that a dataset is iterated again as it was."""
    global _has_warned, is_watching
    if _has_warned:
        return
    _has_warned, is_watching = True, False
    _read_directly.clear()
    _read_below.clear()
    warnings.warn(
        "This dataset was read to its end before and is iterated again: the order and the random draws "
        "are those of the first pass. For other ones in each epoch write `for epoch_ds in "
        "ds.epochs(n)`, or iterate over `ds.repeat(n)` once. This warning is shown once.",
        stacklevel=_levels_to_the_caller(),
    )


def _levels_to_the_caller() -> int:
    """Return how many frames of this package are above the call, counted from the warning."""
    frame, levels = sys._getframe(1), 1
    while str(frame.f_globals.get("__name__")).partition(".")[0] == "grain" and frame.f_back:
        frame, levels = frame.f_back, levels + 1
    return levels


def forget() -> None:
    """Warn again in this program."""
    global _has_warned
    _has_warned = False


def _draws_randomly(dataset: Any) -> bool:
    return bool(dataset.is_random) or any(map(_draws_randomly, dataset.parents))
