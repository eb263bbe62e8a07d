"""Random programs: descriptions of pipelines that any installed grain can build.

A program is a JSON value, so that the process that has this project installed and the process that has the
reference build the same pipeline from it. `program_pipelines.py` builds it, `program_results.py` observes it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from .program_elements import FUNCTIONS, ODD_TREES, OPERATIONS

Program = dict[str, Any]

_MAP_STEPS = (
    "map",
    "map_with_index",
    "random_map",
    "filter",
    "shuffle",
    "batch",
    "repeat",
    "slice",
    "seed",
    "window_shuffle",
    "flat_map",
    "mix",
    "concatenate",
    "zip",
)
_ITER_STEPS = (
    "map",
    "map_with_index",
    "random_map",
    "filter",
    "batch",
    "seed",
    "window_shuffle",
    "flat_map",
    "limit",
    "mix",
    "zip",
    "interleave",
    "rebatch",
    "pack",
    "concat",
    "repeat",
    "prefetch",
    "cache",
)
# Steps that compute an element from one element: several workers of the reference keep their order.
_ELEMENTWISE = ("map", "random_map", "shuffle", "seed", "slice")
_SIMPLE_SOURCES = ("range", "range", "list", "rows", "dicts", "mixed")


def programs_of(seed: int, workers: float = 0.03) -> Iterator[Program]:
    """Return an endless stream of random programs.

    Args:
        seed: The seed of the stream.
        workers: The share of programs with worker processes, which take seconds to start there.
    """
    rng = random.Random(seed)
    while True:
        yield random_program(rng, workers)


def random_program(rng: random.Random, workers: float = 0.0) -> Program:
    """Return a random program, which may be one that fails."""
    count = rng.choice([1, 1, 2]) if rng.random() < workers else 0
    if rng.random() < 0.15:
        return _loader_program(rng, count)
    source = _random_source(rng)
    program: Program = {"source": source}
    if count > 1:
        # Each worker of the reference skips elements that are None: other elements take their turn.
        steps = _steps(rng, _ELEMENTWISE, 3)
        program["steps"] = [step for step in steps if step != ["map", "none"]]
        program["iter"] = {"allow_nones": False, "steps": []}
    else:
        # Odd trees fail in most operations, so that long programs of them would end early.
        most = 2 if source[0] in ODD_TREES else 5
        program["steps"] = _steps(rng, _MAP_STEPS, most)
        if count or rng.random() < 0.75:
            program["iter"] = {
                "allow_nones": rng.random() < 0.15,
                "steps": _steps(rng, _ITER_STEPS, min(most, 4)),
            }
    if count:
        program["workers"] = [count, rng.choice([1, 2, 500])]
    elif "iter" in program and rng.random() < 0.2:
        program["iter"]["threads"] = [rng.choice([1, 16]), rng.choice([1, 5, 500])]
    return program


def _loader_program(rng: random.Random, workers: int) -> Program:
    kinds = [kind for kind in OPERATIONS if workers < 2 or kind in ("map", "random_map")]
    shards = rng.choice([1, 1, 1, 2, 3])
    return {
        "loader": {
            "records": rng.choice([0, 1, 2, 5, 8, 13]),
            "epochs": rng.choice([1, 1, 2, 3, None]),
            "shuffle": rng.random() < 0.5,
            "seed": rng.choice([0, 1, 42, 2**32 - 1]),
            "shard": [rng.randrange(shards), shards, rng.random() < 0.4],
            "operations": [
                operation
                for operation in (
                    _operation(rng, rng.choice(kinds)) for _ in range(rng.randint(0, 3))
                )
                if workers < 2 or operation != ["map", "none"]
            ],
            "workers": workers,
            "sampler": "index" if rng.random() < 0.85 else "sequential",
        }
    }


def _operation(rng: random.Random, kind: str) -> list[Any]:
    arguments: dict[str, list[Any]] = {
        "map": [rng.choice(list(FUNCTIONS))],
        "filter": [rng.randint(2, 4)],
        "batch": [rng.randint(1, 4), rng.random() < 0.4],
        "flat_map": [rng.randint(1, 3)],
    }
    return [kind, *arguments.get(kind, [])]


def _random_source(rng: random.Random) -> Any:
    odd = rng.random() < 0.25
    kind = rng.choice(list(ODD_TREES) if odd else list(_SIMPLE_SOURCES))
    return [kind, rng.choice([1, 2, 3, 5, 8, 13, 21])]


def _steps(rng: random.Random, kinds: Iterable[str], most: int) -> list[Any]:
    kinds = list(kinds)
    return [_step(rng, rng.choice(kinds)) for _ in range(rng.randint(0, most))]


def _step(rng: random.Random, kind: str) -> list[Any]:
    small = rng.randint(1, 6)
    arguments: dict[str, list[Any]] = {
        "map": [rng.choice(list(FUNCTIONS))],
        "random_map": [rng.choice([None, small])],
        "filter": [rng.randint(2, 4)],
        "shuffle": [rng.choice([None, small, 2**32 - 1])],
        "batch": [rng.randint(1, 4), rng.random() < 0.4, rng.random() < 0.3],
        "repeat": [rng.choice([1, 2, 3, None]), rng.random() < 0.7],
        "slice": [
            rng.choice([None, 0, 1, -3]),
            rng.choice([None, 7, -1]),
            rng.choice([None, 2, -1]),
        ],
        "seed": [small],
        "window_shuffle": [rng.randint(1, 5), small],
        "flat_map": [rng.randint(1, 3)],
        "limit": [rng.randint(1, 12)],
        "mix": [_random_source(rng), rng.choice([None, [1, 2], [0.3, 0.7], [5, 1]])],
        "concatenate": [_random_source(rng)],
        "zip": [_random_source(rng)],
        "interleave": [_random_source(rng), rng.randint(1, 3), rng.randint(1, 3)],
        "rebatch": [rng.randint(1, 5), rng.random() < 0.3],
        "pack": [rng.choice(["FirstFit", "BestFit"]), rng.randint(4, 8), rng.randint(1, 3)],
        "concat": [rng.randint(2, 8)],
        "prefetch": [rng.randint(1, 4)],
    }
    return [kind, *arguments.get(kind, [])]
