"""Comparing the pipeline that saved a state with the one that restores it."""

from __future__ import annotations

import contextlib
import contextvars
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from grain.dataset.fingerprint.lines import KINDS, Line

T = TypeVar("T")


class ChangedPipelineError(ValueError):
    """A state was saved by a pipeline that differs from the one that restores it.

    Attributes:
        kinds: The kinds of lines that differ, with which the change can be allowed.
    """

    def __init__(self, message: str, kinds: Sequence[str] = ()):
        super().__init__(message)
        self.kinds = tuple(kinds)


class ChangedMixtureWarning(UserWarning):
    """A state was restored to a mixture whose named components or weights have changed."""


# Each named component resumes at its own position, so a mixture of them may change between runs.
_HARMLESS = frozenset({"component", "weights"})

_allowed: contextvars.ContextVar[frozenset[str]] = contextvars.ContextVar(
    "grain_allowed_changes", default=frozenset()
)


def allowed_changes() -> frozenset[str]:
    """Return the kinds of changes that are allowed in this context."""
    return _allowed.get()


@contextlib.contextmanager
def allow_changes(*kinds: str) -> Iterator[None]:
    """Allow states to be restored to a pipeline that was changed on purpose.

    Args:
        *kinds: The kinds that may differ: "source", "file", "sampler", "shard", "operation", "component" or
            "weights".

    The position is used unchanged: after a change of the order or of the records, elements may come
    twice or never.

    >>> import grain
    >>> def loader(seed):
    ...     return iter(grain.load(range(9), shuffle=True, seed=seed))
    >>> with allow_changes("sampler"):
    ...     loader(seed=2).set_state(loader(seed=1).get_state())
    """
    before = _allowed.get()
    wanted = before | _checked_kinds(kinds)
    try:
        # Inside: an interrupt right after it must not leave the changes allowed.
        _allowed.set(wanted)
        yield
    finally:
        _allowed.set(before)


def _checked_kinds(kinds: Iterable[str]) -> frozenset[str]:
    wanted = frozenset(kinds)
    unknown = sorted(map(str, wanted - set(KINDS)))
    if unknown:
        raise ValueError(f"Changes that can be allowed are {', '.join(KINDS)}; got {unknown}.")
    return wanted


def allowing(allow: str | Iterable[str]) -> contextlib.AbstractContextManager[None]:
    """Return the context of an argument `allow`: the kind of a change, or several."""
    return allow_changes(*((allow,) if isinstance(allow, str) else allow))


def check_unchanged(saved: Sequence[Line], present: Sequence[Line]) -> None:
    """Raise, or warn, when two fingerprints differ in more than is allowed."""
    if list(saved) == list(present):
        return
    changed = _changed_kinds(saved, present) - allowed_changes()
    if not changed:
        return
    kinds = [kind for kind in KINDS if kind in changed]
    message = (
        "The checkpoint was saved by a pipeline that differs from this one (-: in the checkpoint, "
        f"+: here):\n{difference(map(str, saved), map(str, present))}\n"
    )
    if changed <= _HARMLESS:
        warn_of_mixture(message, kinds)
        return
    raise ChangedPipelineError(
        f"{message}Restore it with the pipeline that saved it. If the change is deliberate, allow it "
        f"by name, with {_as_argument(kinds)} or in `with grain.checkpoint.allow_changes(...)`: the "
        "position is then used unchanged, and elements may come twice or never.",
        kinds,
    )


def warn_of_mixture(message: str, kinds: Sequence[str]) -> None:
    """Warn that a mixture of named components has changed."""
    warnings.warn(
        f"{message}Each component resumes at its own position; new ones start at their first element. "
        f"If the change is deliberate, restore with {_as_argument(kinds)}.",
        ChangedMixtureWarning,
        stacklevel=2,
    )


def difference(saved: Iterable[str], present: Iterable[str]) -> str:
    """Return two lists of lines as one: `-` only in the first, `+` only in the second.

    >>> print(difference(["a", "b"], ["a", "c"]))
        a
      - b
      + c
    """
    lines: list[str] = []
    for mark, block in _diff(list(saved), list(present)):
        shown = _shortened(block) if mark == " " else block
        lines += [f"  {mark} {line}" for line in shown]
    return "\n".join(lines)


def _diff(before: Sequence[T], after: Sequence[T]) -> Iterator[tuple[str, list[T]]]:
    """Yield the lines of both (" "), only of the first ("-") and only of the second ("+"), in order.

    The result has the fewest changed lines. (difflib does the same, but its import would be a good part
    of the time of `import grain`.)
    """
    # shared[i][j]: the most lines that before[i:] and after[j:] have in common.
    shared = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i in reversed(range(len(before))):
        for j in reversed(range(len(after))):
            shared[i][j] = (
                shared[i + 1][j + 1] + 1
                if before[i] == after[j]
                else max(shared[i + 1][j], shared[i][j + 1])
            )
    i = j = 0
    while i < len(before) or j < len(after):
        same, removed, added = [], [], []
        while i < len(before) and j < len(after) and before[i] == after[j]:
            same.append(before[i])
            i, j = i + 1, j + 1
        while (i < len(before) or j < len(after)) and not (
            i < len(before) and j < len(after) and before[i] == after[j]
        ):
            if j == len(after) or (i < len(before) and shared[i + 1][j] >= shared[i][j + 1]):
                removed.append(before[i])
                i += 1
            else:
                added.append(after[j])
                j += 1
        yield from ((" ", same), ("-", removed), ("+", added))


def _shortened(lines: list[str]) -> list[str]:
    """Return unchanged lines, without their middle if they are many."""
    return lines if len(lines) <= 7 else [*lines[:3], f"… {len(lines) - 6} lines", *lines[-3:]]


def _changed_kinds(saved: Sequence[Line], present: Sequence[Line]) -> set[str]:
    kinds: set[str] = set()
    for mark, lines in _diff(saved, present):
        if mark != " ":
            kinds |= {_kind_in(line, present if mark == "-" else saved) for line in lines}
    return kinds


def _kind_in(line: Line, others: Sequence[Line]) -> str:
    """Return the kind of a line's change: "component" if all of its component came or went."""
    for depth in range(1, len(line.path) + 1):
        path = line.path[:depth]
        if not any(other.path[:depth] == path for other in others):
            return "component"
    return line.kind


def _as_argument(kinds: Sequence[str]) -> str:
    names = ", ".join(f'"{kind}"' for kind in kinds)
    return f"`allow=({names}{',' if len(kinds) == 1 else ''})`"
