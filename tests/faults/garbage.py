"""Garbage states: states with seeded damage given to `set_state`.

A state is refused with an error, and the iterator continues exactly where it was; or it is accepted, and
the next elements, the end or an error come in time. Nothing hangs. Interleaves, mixtures and packing into
bins check all of a state first: one that they accept gives no error later.
"""

from __future__ import annotations

import copy
import dataclasses
import random
import traceback
from collections.abc import Callable
from typing import Any

import grain

from .history import Checker, Stream, close, plain_state, raw_state, record
from .interrupts import Hang, no_hang
from .pipelines import INLINE, LOADERS, PIPELINES, Lines, M, X, build, document, odd

HANG_SECONDS = 20.0
_ODD_VALUES: list[Any] = [
    None, True, -1, -2, 2**31, 2**63, -(2**63), 10**30, -(10**30), 0.5, float("nan"), float("inf"),
    "", "wrong", [], {}, [0] * 50, {"next_index": 0}, {"parent": {}},
]  # fmt: skip


def _numbers(first: int, count: int) -> Any:
    return M.range(first, first + count).to_iter_dataset(INLINE)


def _bins() -> Any:
    documents = M.range(9).map(document).to_iter_dataset(INLINE)
    return X.FirstFitPackIterDataset(
        documents, length_struct={"tokens": 8}, num_packing_bins=2, shuffle_bins=True
    )


def _interleave() -> Any:
    streams = [
        X.RebatchIterDataset(_numbers(0, 12).batch(3), 2),
        grain.IterDataset.mix([_numbers(20, 5), _numbers(30, 7).filter(odd)]),
        _bins(),
        Lines(40, 5).batch(2),
        X.LimitIterDataset(_numbers(50, 9), 4),
    ]
    return X.InterleaveIterDataset(streams, cycle_length=3)


# States of many datasets inside of one another, only for garbage.
NESTED: dict[str, Callable[[], Any]] = {
    "interleave streams of all kinds": _interleave,
    "interleave interleaves": lambda: X.InterleaveIterDataset(
        [_interleave(), M.range(6), _interleave()], cycle_length=2
    ),
    "mixture of interleaves": lambda: grain.IterDataset.mix([_interleave(), _interleave()], [1, 2]),
    "bins that are shuffled": _bins,
}
# A state that these accept gives no error later.
_CHECKED = frozenset(
    (
        *NESTED,
        *(name for name in PIPELINES if name.startswith("interleave")),
        "mixture",
        "first fit",
        "best fit",
    )
)


@dataclasses.dataclass
class Report:
    """Outcomes of garbage states.

    Attributes:
        refused: states that `set_state` refused; the iterator then continued exactly.
        accepted: states that `set_state` took.
        late: those among them that gave an error at a later element.
        bad: states after which the iterator hung or continued elsewhere, or gave an error late although it
            checks all of a state.
    """

    states: int = 0
    refused: int = 0
    accepted: int = 0
    late: int = 0
    bad: list[str] = dataclasses.field(default_factory=list)


def _leaves(state: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values inside a state."""
    keys = state.keys() if isinstance(state, dict) else range(len(state) if _is_list(state) else 0)
    return [path, *(leaf for key in keys for leaf in _leaves(state[key], (*path, key)))]


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def mangled(state: Any, others: list[Any], rng: random.Random) -> Any:
    """Return a state that is wrong in one or two places."""
    state = copy.deepcopy(state)
    for _ in range(rng.choice([1, 1, 1, 2])):
        path = rng.choice(_leaves(state))
        value = _odd_value(state, path, others, rng)
        if not path:
            return value
        inside = state
        for key in path[:-1]:
            inside = inside[key]
        match rng.randrange(5):
            case 0 if isinstance(inside, dict):
                del inside[path[-1]]
            case 1 if _is_list(inside):
                inside.append(value)
            case _:
                inside[path[-1]] = value
    return state


def _odd_value(state: Any, path: tuple[Any, ...], others: list[Any], rng: random.Random) -> Any:
    for key in path:
        state = state[key]
    if isinstance(state, int) and rng.random() < 0.5:
        return state + rng.choice([-1, 1, -100, 100, 10**6, 10**12, -(10**12)])
    return copy.deepcopy(rng.choice([*_ODD_VALUES, rng.choice(others)]))


def try_state(
    make: Any, stream: Stream, state: Any, taken: int, report: Report, label: str
) -> None:
    """Give one state to a running iterator."""
    checker = Checker(stream, iter(make()))
    report.states += 1
    try:
        with no_hang(HANG_SECONDS):
            while checker.position < min(taken, len(stream.elements)):
                checker.advance()
            like = checker.iterator.get_state()
            try:
                checker.iterator.set_state(raw_state(state, like))
            except Exception:
                report.refused += 1
                checker.check_state()
                checker.finish()
            else:
                report.accepted += 1
                given = _read_on(
                    checker.iterator, len(stream.elements) + 1, report, label in _CHECKED
                )
                if given > len(stream.elements):
                    raise AssertionError("gives more elements than the whole stream has")
            close(checker.iterator)
    except (Exception, Hang) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
        report.bad.append(f"{label}, state {state!r}: {type(error).__name__} at {where}: {error}")


def _read_on(iterator: Any, most: int, report: Report, checked: bool) -> int:
    """Return how many elements come after a state that was accepted; raise an error of a `checked` one."""
    for given in range(most):
        try:
            if next(iterator, report) is report:
                return given
            plain_state(iterator.get_state())
        except Exception:
            report.late += 1
            if checked:
                raise
            return given
    return most


def run(seed: int, count: int, names: list[str] | None = None) -> Report:
    """Try so many garbage states, over the pipelines round robin."""
    report, rng = Report(), random.Random(seed)
    names = names or [*PIPELINES, *LOADERS, *NESTED]
    streams = {name: record(_build(name)) for name in names}
    others = [state for stream in streams.values() for state in stream.states[:2]]
    for number in range(count):
        name = names[number % len(names)]
        stream = streams[name]
        state = mangled(rng.choice(stream.states), others, rng)
        try_state(lambda n=name: _build(n), stream, state, rng.randrange(4), report, name)
    return report


def _build(name: str) -> Any:
    return NESTED[name]() if name in NESTED else build(name, "inline")
