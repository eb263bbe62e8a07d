"""Hypothesis strategies for recipes that the library accepts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from .pipelines import SOURCES, Recipe, Step

SEEDS = st.sampled_from([0, 1, 7, 2**31, 2**32 - 1])
WEIGHTS = st.sampled_from([1, 2, 5, 0.5, 0.3, 0.01])
MOST_STEPS = 5
LONGEST_SOURCE = 12
LONGEST_DATASET = 60


@dataclasses.dataclass(frozen=True)
class Traits:
    """The properties of a recipe that decide which steps may follow."""

    seeded: bool = False  # a random step may omit its seed
    sparse: bool = False  # elements may be None, so map batches are an error
    stacked: bool = False  # elements may be arrays of different shapes, which do not stack again

    def joined(self, others: list[Traits]) -> Traits:
        """Return the traits of a dataset that combines several."""
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
    """Draw a step that both kinds of dataset have."""
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


def _map_step(draw: Draw, recipe: Recipe, traits: Traits, depth: int) -> tuple[Recipe, Traits]:
    names = list(_ELEMENT_STEPS)
    length = len(recipe.build())
    if length:
        names += [n for n in _MAP_STEPS if depth or n not in ("concatenate", "mix")]
    if not traits.sparse:
        names += ["batch_add_up"] if traits.stacked else ["batch", "batch_add_up"]
    name = draw(st.sampled_from(names))
    match name:
        case "shuffle":
            return recipe.then(Step(name, (_seed(draw, traits),))), traits
        case "slice":
            stride = draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
            return recipe.then(Step(name, (draw(_BOUND), draw(_BOUND), stride))), traits
        case "repeat":
            epochs = draw(st.integers(1, max(1, min(3, LONGEST_DATASET // length))))
            return recipe.then(Step(name, (epochs, draw(st.booleans())))), traits
        case "own_reversal":
            return recipe.then(Step(name)), traits
        case "concatenate" | "mix":
            others = draw(st.lists(_map_recipes(depth - 1), min_size=1, max_size=2))
            if name == "mix":
                others = [(p, t) for p, t in others if len(p.build())]
            recipes = tuple(p for p, _ in others)
            weights = draw(st.none() | st.lists(WEIGHTS, min_size=3, max_size=3))
            arguments = () if name == "concatenate" else (weights and weights[: len(recipes) + 1],)
            return recipe.then(Step(name, arguments, recipes)), traits.joined(
                [t for _, t in others]
            )
        case _:
            step, traits = _element_step(draw, name, traits)
            return recipe.then(step), traits


@st.composite
def _map_recipes(draw: Draw, depth: int) -> tuple[Recipe, Traits]:
    recipe = Recipe(
        Step(draw(st.sampled_from(sorted(SOURCES))), (draw(st.integers(1, LONGEST_SOURCE)),))
    )
    traits = Traits()
    for _ in range(draw(st.integers(0, MOST_STEPS if depth else 2))):
        recipe, traits = _map_step(draw, recipe, traits, depth)
    return recipe, traits


def _iter_step(draw: Draw, recipe: Recipe, traits: Traits, depth: int) -> tuple[Recipe, Traits]:
    names = [*_ELEMENT_STEPS, "batch_add_up", "own_pairs"]
    # Neighbours of different shapes neither stack nor add up.
    names += [] if traits.stacked else ["batch"]
    names = [n for n in names if n != "own_pairs" or not traits.stacked]
    if depth:
        names += ["iter_mix", "iter_mix_named"]
    name = draw(st.sampled_from(names))
    match name:
        case "own_pairs":
            return recipe.then(Step(name)), traits
        case "iter_mix" | "iter_mix_named":
            others = draw(st.lists(_iter_recipes(depth - 1), min_size=1, max_size=2))
            weights = draw(st.none() | st.lists(WEIGHTS, min_size=3, max_size=3))
            arguments = (weights and weights[: len(others) + 1],)
            step = Step(name, arguments, tuple(p for p, _ in others))
            return recipe.then(step), traits.joined([t for _, t in others])
        case _:
            step, traits = _element_step(draw, name, traits)
            return recipe.then(step), traits


@st.composite
def _iter_recipes(draw: Draw, depth: int) -> tuple[Recipe, Traits]:
    recipe, traits = draw(_map_recipes(depth))
    recipe = recipe.then(Step("to_iter"))
    for _ in range(draw(st.integers(0, MOST_STEPS if depth else 2))):
        recipe, traits = _iter_step(draw, recipe, traits, depth)
    return recipe, traits


def map_recipes() -> st.SearchStrategy[Recipe]:
    """Return a strategy for map datasets, nested combinations included; some are empty."""
    return _map_recipes(2).map(lambda pair: pair[0])


def iter_recipes() -> st.SearchStrategy[Recipe]:
    """Return a strategy for iter datasets over any map dataset."""
    return _iter_recipes(2).map(lambda pair: pair[0])


def indices() -> st.SearchStrategy[list[int]]:
    """Return a strategy for index lists: ordered, unordered, repeated, negative, far past the end."""
    near = st.integers(-40, 120)
    far = st.integers(-(10**6), 10**12)
    ranges = st.builds(
        lambda start, count, stride: list(range(start, start + count * stride, stride)),
        st.integers(-30, 60),
        st.integers(0, 40),
        st.sampled_from([1, 1, 2, -1, 7]),
    )
    return ranges | st.lists(near | far, max_size=30)
