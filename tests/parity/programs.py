"""Random programs: descriptions of pipelines that are built and observed in any installed grain.

A program is a JSON value, so that the process that has this project installed and the one that has the
reference build the same pipeline from it. `observe_program` returns what it does: elements, states, errors.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import grain

from .encoding import decode_state, encode

Program = dict[str, Any]

INLINE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
_MOST = 40


class _Pieces(grain.experimental.FlatMapTransform):
    def __init__(self, fan_out: int):
        self.max_fan_out = fan_out

    def flat_map(self, element: Any) -> list[Any]:
        return [element] * (_number(element) % (self.max_fan_out + 1))


def _number(element: Any) -> int:
    """Return a number that depends on an element of any structure."""
    if element is None:
        return 0
    if isinstance(element, dict):
        return sum(_number(child) for child in element.values())
    if isinstance(element, (list, tuple)):
        return sum(_number(child) for child in element)
    return int(np.asarray(element).astype(np.int64).sum())


def _to_dict(x: Any) -> Any:
    return {"a": x, "b": {"c": np.float32(_number(x))}}


def _to_row(x: Any) -> Any:
    return np.arange(3) + _number(x)


def _to_pair(x: Any) -> Any:
    return (x, [_number(x)])


def _none_sometimes(x: Any) -> Any:
    return None if _number(x) % 4 == 1 else x


def _number_of(x: Any) -> Any:
    return _number(x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "dict": _to_dict,
    "row": _to_row,
    "pair": _to_pair,
    "none": _none_sometimes,
    "number": _number_of,
}


def _draw(x: Any, rng: np.random.Generator) -> Any:
    return _number(x) * 1000 + int(rng.integers(0, 1000))


def _index(i: int, x: Any) -> Any:
    return (int(i), x)


def _keep(modulus: int) -> Callable[[Any], bool]:
    return lambda x: _number(x) % modulus != 0


def _tokens(x: Any) -> Any:
    size = _number(x) % 5 + 1
    return {"tokens": np.arange(size) + 1}


# --- generation ---------------------------------------------------------------------------------

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


def random_program(rng: random.Random) -> Program:
    """Return a random program, which may be one that fails."""
    program = {"source": _random_source(rng), "steps": _steps(rng, _MAP_STEPS, 5)}
    if rng.random() < 0.75:
        program["iter"] = {"allow_nones": rng.random() < 0.15, "steps": _steps(rng, _ITER_STEPS, 4)}
    return program


def _random_source(rng: random.Random) -> Any:
    kind = rng.choice(["range", "range", "list", "rows", "dicts", "mixed"])
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


# --- building -----------------------------------------------------------------------------------


def _source(description: Any) -> Any:
    kind, size = description
    match kind:
        case "range":
            return grain.MapDataset.range(size)
        case "rows":
            return grain.MapDataset.source(np.arange(2 * size).reshape(size, 2))
        case "dicts":
            return grain.MapDataset.source([{"a": i, "b": [i, float(i)]} for i in range(size)])
        case "mixed":
            return grain.MapDataset.source([i if i % 2 else float(i) for i in range(size)])
    return grain.MapDataset.source(list(range(size)))


def build(program: Program) -> Any:
    """Return the dataset of a program."""
    ds = _source(program["source"])
    for step in program["steps"]:
        ds = _apply(ds, step, lambda other: other)
    rest = program.get("iter")
    if rest is None:
        return ds
    ds = ds.to_iter_dataset(INLINE, allow_nones=rest["allow_nones"])
    for step in rest["steps"]:
        ds = _apply(ds, step, lambda other: other.to_iter_dataset(INLINE))
    return ds


def _apply(ds: Any, step: list[Any], convert: Callable[[Any], Any]) -> Any:
    kind, *arguments = step
    x = grain.experimental
    is_map = isinstance(ds, grain.MapDataset)
    match kind:
        case "map":
            return ds.map(FUNCTIONS[arguments[0]])
        case "map_with_index":
            return ds.map_with_index(_index)
        case "random_map":
            return ds.random_map(_draw, seed=arguments[0])
        case "filter":
            return ds.filter(_keep(arguments[0]))
        case "shuffle":
            return ds.shuffle(arguments[0])
        case "batch":
            size, drop, listed = arguments
            return ds.batch(size, drop_remainder=drop, batch_fn=list if listed else None)
        case "repeat":
            epochs, reseed = arguments
            if is_map:
                return ds.repeat(epochs, reseed_each_epoch=reseed)
            return x.RepeatIterDataset(ds, epochs)
        case "slice":
            return ds.slice(slice(*arguments))
        case "seed":
            return ds.seed(arguments[0])
        case "window_shuffle":
            make = x.WindowShuffleMapDataset if is_map else x.WindowShuffleIterDataset
            return make(ds, window_size=arguments[0], seed=arguments[1])
        case "flat_map":
            make = x.FlatMapMapDataset if is_map else x.FlatMapIterDataset
            return make(ds, _Pieces(arguments[0]))
        case "limit":
            return x.LimitIterDataset(ds, arguments[0])
        case "mix":
            base = grain.MapDataset if is_map else grain.IterDataset
            return base.mix([ds, convert(_source(arguments[0]))], arguments[1])
        case "concatenate":
            return grain.MapDataset.concatenate([ds, _source(arguments[0])])
        case "zip":
            make = x.ZipMapDataset if is_map else x.ZipIterDataset
            return make([ds, convert(_source(arguments[0]))], strict=False)
        case "interleave":
            other, cycle, block = arguments
            return (
                x.InterleaveIterDataset(
                    [ds, convert(_source(other))], cycle_length=cycle, num_make_iter_threads=1
                )
                if block == 1
                else x.InterleaveIterDataset([ds, convert(_source(other))], cycle_length=cycle)
            )
        case "rebatch":
            return x.RebatchIterDataset(ds, batch_size=arguments[0], drop_remainder=arguments[1])
        case "pack":
            kind, length, bins = arguments
            make = getattr(x, f"{kind}PackIterDataset")
            return make(ds.map(_tokens), length_struct={"tokens": length}, num_packing_bins=bins)
        case "concat":
            return x.ConcatThenSplitIterDataset(
                ds.map(_tokens), length_struct={"tokens": arguments[0]}
            )
        case "prefetch":
            return x.ThreadPrefetchIterDataset(ds, prefetch_buffer_size=arguments[0])
        case "cache":
            return x.CacheIterDataset(ds)
    raise ValueError(f"unknown step {kind!r}")


# --- observation --------------------------------------------------------------------------------


def _failure(error: Exception) -> list[str]:
    return ["error", type(error).__name__]


def _read(iterator: Any, most: int) -> list[Any]:
    """Return elements, and the type of the error that ended them, if there is one."""
    found: list[Any] = []
    while len(found) < most:
        try:
            found.append(encode(next(iterator)))
        except StopIteration:
            break
        except Exception as error:
            found.append(_failure(error))
            break
    return found


def observe_program(program: Program) -> dict[str, Any]:
    """Return the elements of a program, its states, and what follows after restoring each of them."""
    try:
        ds = build(program)
    except Exception as error:
        return {"build": _failure(error)}
    found: dict[str, Any] = {}
    if isinstance(ds, grain.MapDataset):
        found["length"] = len(ds)
        found["single"] = [_single(ds, index) for index in (0, 1, len(ds), 2 * len(ds) + 1)]
    try:
        iterator = iter(ds)
    except Exception as error:
        return {**found, "iter": _failure(error)}
    elements: list[Any] = []
    states: dict[str, Any] = {}
    for position in (0, 1, 3, 8):
        elements += _read(iterator, position - len(elements))
        if len(elements) < position or (elements and _is_failure(elements[-1])):
            break
        try:
            states[str(position)] = _plain(iterator.get_state())
        except Exception as error:
            states[str(position)] = _failure(error)
    if not (elements and _is_failure(elements[-1])):
        elements += _read(iterator, _MOST - len(elements))
    return {**found, "elements": elements, "states": states}


def _is_failure(element: Any) -> bool:
    return isinstance(element, list) and element[:1] == ["error"] and len(element) == 2


def _single(ds: Any, index: int) -> Any:
    try:
        return encode(ds[index])
    except Exception as error:
        return _failure(error)


def _plain(state: Any) -> Any:
    return json.loads(json.dumps(encode(json.loads(state) if isinstance(state, bytes) else state)))


def resume_program(program: Program, states: dict[str, Any]) -> dict[str, Any]:
    """Return the elements after restoring each of some states, which another grain may have made."""
    found: dict[str, Any] = {}
    for position, state in states.items():
        try:
            iterator = iter(build(program))
            iterator.set_state(decode_state(state))
            found[position] = _read(iterator, _MOST - int(position))
        except Exception as error:
            found[position] = [_failure(error)]
    return found
