"""Hypothesis strategies for plans that the library accepts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from .pipelines import SOURCES, Plan, Step

SEEDS = st.sampled_from([0, 1, 7, 2**31, 2**32 - 1])
WEIGHTS = st.sampled_from([1, 2, 5, 0.5, 0.3, 0.01])
MOST_STEPS = 5
LONGEST_SOURCE = 12
LONGEST_DATASET = 60


@dataclasses.dataclass(frozen=True)
class Traits:
    """What decides which steps may follow."""

    seeded: bool = False  # a random step may go without a seed of its own
    sparse: bool = False  # some elements may be None, so map batches are refused
    stacked: bool = False  # elements may be arrays of different shapes, which do not stack again

    def joined(self, others: list[Traits]) -> Traits:
        """The traits of a dataset made of several."""
        every = [self, *others]
        return Traits(
            seeded=any(t.seeded for t in every),
            sparse=any(t.sparse for t in every),
            stacked=any(t.stacked for t in every),
        )


Draw = Callable[[st.SearchStrategy[Any]], Any]


def _seed(draw: Draw, traits: Traits) -> int | None:
    return draw(st.none() | SEEDS) if traits.seeded else draw(SEEDS)


def _element_step(draw: Draw, name: str, traits: Traits) -> tuple[Step, Traits]:
    """A step that both kinds of dataset have."""
    match name:
        case "map":
            step = Step(name, (draw(st.integers(1, 9)), draw(st.integers(0, 99))))
        case "filter":
            step = Step(name, (draw(st.sampled_from([2, 3, 1])),))
            traits = dataclasses.replace(traits, sparse=True)
        case "random_map":
            step = Step(name, (_seed(draw, traits),))
        case "seed":
            step = Step(name, (draw(SEEDS),))
            traits = dataclasses.replace(traits, seeded=True)
        case "batch":
            step = Step(name, (draw(st.integers(1, 5)), draw(st.booleans())))
            traits = dataclasses.replace(traits, stacked=True)
        case "batch_add_up":
            step = Step(name, (draw(st.integers(1, 5)), draw(st.booleans())))
            traits = dataclasses.replace(traits, stacked=False)
        case _:
            step = Step(name)
    return step, traits


_ELEMENT_STEPS = ("map", "filter", "map_with_index", "random_map", "seed")
_MAP_STEPS = ("shuffle", "slice", "repeat", "own_reversal", "concatenate", "mix")
_BOUND = st.none() | st.integers(-LONGEST_SOURCE, LONGEST_SOURCE)


def _map_step(draw: Draw, plan: Plan, traits: Traits, depth: int) -> tuple[Plan, Traits]:
    names = list(_ELEMENT_STEPS)
    length = len(plan.build())
    if length:
        names += [n for n in _MAP_STEPS if depth or n not in ("concatenate", "mix")]
    if not traits.sparse:
        names += ["batch_add_up"] if traits.stacked else ["batch", "batch_add_up"]
    name = draw(st.sampled_from(names))
    match name:
        case "shuffle":
            return plan.then(Step(name, (_seed(draw, traits),))), traits
        case "slice":
            stride = draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
            return plan.then(Step(name, (draw(_BOUND), draw(_BOUND), stride))), traits
        case "repeat":
            epochs = draw(st.integers(1, max(1, min(3, LONGEST_DATASET // length))))
            return plan.then(Step(name, (epochs, draw(st.booleans())))), traits
        case "own_reversal":
            return plan.then(Step(name)), traits
        case "concatenate" | "mix":
            others = draw(st.lists(_map_plans(depth - 1), min_size=1, max_size=2))
            if name == "mix":
                others = [(p, t) for p, t in others if len(p.build())]
            plans = tuple(p for p, _ in others)
            weights = draw(st.none() | st.lists(WEIGHTS, min_size=3, max_size=3))
            arguments = () if name == "concatenate" else (weights and weights[: len(plans) + 1],)
            return plan.then(Step(name, arguments, plans)), traits.joined([t for _, t in others])
        case _:
            step, traits = _element_step(draw, name, traits)
            return plan.then(step), traits


@st.composite
def _map_plans(draw: Draw, depth: int) -> tuple[Plan, Traits]:
    plan = Plan(
        Step(draw(st.sampled_from(sorted(SOURCES))), (draw(st.integers(1, LONGEST_SOURCE)),))
    )
    traits = Traits()
    for _ in range(draw(st.integers(0, MOST_STEPS if depth else 2))):
        plan, traits = _map_step(draw, plan, traits, depth)
    return plan, traits


def _iter_step(draw: Draw, plan: Plan, traits: Traits, depth: int) -> tuple[Plan, Traits]:
    names = [*_ELEMENT_STEPS, "batch_add_up", "own_pairs"]
    # Neighbours of different shapes neither stack nor add up.
    names += [] if traits.stacked else ["batch"]
    names = [n for n in names if n != "own_pairs" or not traits.stacked]
    if depth:
        names += ["iter_mix", "iter_mix_named"]
    name = draw(st.sampled_from(names))
    match name:
        case "own_pairs":
            return plan.then(Step(name)), traits
        case "iter_mix" | "iter_mix_named":
            others = draw(st.lists(_iter_plans(depth - 1), min_size=1, max_size=2))
            weights = draw(st.none() | st.lists(WEIGHTS, min_size=3, max_size=3))
            arguments = (weights and weights[: len(others) + 1],)
            step = Step(name, arguments, tuple(p for p, _ in others))
            return plan.then(step), traits.joined([t for _, t in others])
        case _:
            step, traits = _element_step(draw, name, traits)
            return plan.then(step), traits


@st.composite
def _iter_plans(draw: Draw, depth: int) -> tuple[Plan, Traits]:
    plan, traits = draw(_map_plans(depth))
    plan = plan.then(Step("to_iter"))
    for _ in range(draw(st.integers(0, MOST_STEPS if depth else 2))):
        plan, traits = _iter_step(draw, plan, traits, depth)
    return plan, traits


def map_plans() -> st.SearchStrategy[Plan]:
    """Plans of map datasets, joins of joins included; some are empty."""
    return _map_plans(2).map(lambda pair: pair[0])


def iter_plans() -> st.SearchStrategy[Plan]:
    """Plans of iter datasets over any map plan."""
    return _iter_plans(2).map(lambda pair: pair[0])


def indices() -> st.SearchStrategy[list[int]]:
    """Any list of indices: in order, in any order, again, below zero, far past the end."""
    near = st.integers(-40, 120)
    far = st.integers(-(10**6), 10**12)
    runs = st.builds(
        lambda start, count, stride: list(range(start, start + count * stride, stride)),
        st.integers(-30, 60),
        st.integers(0, 40),
        st.sampled_from([1, 1, 2, -1, 7]),
    )
    return runs | st.lists(near | far, max_size=30)
