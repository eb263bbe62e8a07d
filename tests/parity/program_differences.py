"""Deliberate differences between what a random program does here and there.

Each is a row of docs/differences.md and a condition on the first difference of two observations: where it is,
and what is there and here. A condition that holds for a whole kind of program would hide defects.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any

from .encoding import difference
from .program_results import is_failure

_END: dict[str, Any] = {"$end": []}


@dataclasses.dataclass(frozen=True)
class Found:
    """The first difference of two observations of a program.

    Attributes:
        program: The program.
        place: "build", "length", "single", "iter", "elements", or "resumed" and where.
        position: The index of the element, among those of its place.
        there: What the reference gives there.
        here: What this project gives there.
    """

    program: dict[str, Any]
    place: str
    position: int
    there: Any
    here: Any

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of the steps, or of the operations of a loader."""
        if "loader" in self.program:
            return [kind for kind, *_ in self.program["loader"]["operations"]]
        steps = [*self.program["steps"], *self.program.get("iter", {}).get("steps", [])]
        return [kind for kind, *_ in steps]

    def fails_there(self, *names: str) -> bool:
        """Return whether the reference raises one of some errors."""
        return is_failure(self.there) and (not names or self.there["$error"][0][0] in names)

    def fails_here(self, *names: str) -> bool:
        """Return whether this project raises one of some errors."""
        return is_failure(self.here) and (not names or self.here["$error"][0][0] in names)

    def says_there(self, words: str) -> bool:
        """Return whether the message of the error there has some words."""
        return is_failure(self.there) and words in self.there["$error"][1]

    def says_here(self, words: str) -> bool:
        """Return whether the message of the error here has some words."""
        return is_failure(self.here) and words in self.here["$error"][1]

    def __str__(self) -> str:
        """Return one line."""
        texts = [json.dumps(side)[:300] for side in (self.there, self.here)]
        return f"{self.place}[{self.position}]: there {texts[0]}, here {texts[1]}"


def same_result(there: Any, here: Any) -> bool:
    """Return whether two observed values agree; an error may be of a subclass of the one there."""
    if is_failure(there) and is_failure(here):
        return there["$error"][0][0] in here["$error"][0]
    return difference(there, here) is None


def first_difference(program: dict[str, Any], there: Any, here: Any) -> Found | None:
    """Return the first difference of two observations; states are compared by restoring them.

    An error that comes earlier here than there is compared with the error there: arguments are checked where
    they are passed.
    """
    for place in ("build", "iter"):
        if place in here and place not in there:
            left = next((value for value in _values(there) if is_failure(value)), _END)
            return (
                None
                if same_result(left, here[place])
                else Found(program, place, 0, left, here[place])
            )
    for place in ("build", "length", "single", "iter", "elements"):
        values = [side.get(place, _END) for side in (there, here)]
        values = [value if isinstance(value, list) else [value] for value in values]
        found = first_different_element(program, place, *values)
        if found is not None:
            return found
    return None


def _values(observed: dict[str, Any]) -> list[Any]:
    """Return everything that an observation has, in order."""
    found: list[Any] = []
    for place in ("build", "single", "iter", "elements"):
        value = observed.get(place, [])
        found += value if isinstance(value, list) else [value]
    return found


def first_different_element(
    program: dict[str, Any], place: str, there: list[Any], here: list[Any]
) -> Found | None:
    """Return the first difference of two lists of observed values."""
    for position in range(max(len(there), len(here))):
        left = there[position] if position < len(there) else _END
        right = here[position] if position < len(here) else _END
        if not same_result(left, right):
            return Found(program, place, position, left, right)
    return None


# The row of docs/differences.md, and whether a difference is of its kind.
EXPECTED: list[tuple[str, Callable[[Found], bool]]] = []


def expected(row: str) -> Callable[[Callable[[Found], bool]], Callable[[Found], bool]]:
    """Register the condition of a deliberate difference."""

    def register(condition: Callable[[Found], bool]) -> Callable[[Found], bool]:
        EXPECTED.append((row, condition))
        return condition

    return register


def expected_row(found: Found) -> str | None:
    """Return the row of docs/differences.md that describes a difference."""
    return next((row for row, condition in EXPECTED if condition(found)), None)


@expected("reading an empty dataset")
def _empty(found: Found) -> bool:
    return found.fails_there("ZeroDivisionError") and found.fails_here("IndexError")


@expected("states")
def _state_lost_in_json(found: Found) -> bool:
    return found.place.startswith("resumed there") and "concat" in found.kinds


@expected("states of a `DataLoader` that splits records")
def _state_of_a_splitting_loader(found: Found) -> bool:
    loader = "loader" in found.program and "flat_map" in found.kinds
    return loader and found.place.startswith("resumed there") and found.fails_there("KeyError")


@expected("a random map in a `DataLoader` whose sampler has no seed")
def _no_generator(found: Found) -> bool:
    sequential = found.program.get("loader", {}).get("sampler") == "sequential"
    return (
        sequential and found.fails_there("AttributeError") and found.says_here("needs a generator")
    )


@expected("a random map after a `FlatMap` in a `DataLoader`")
def _generator_after_a_split(found: Found) -> bool:
    loader = "loader" in found.program and {"flat_map", "random_map"} <= set(found.kinds)
    return loader and found.fails_there("AttributeError") and not found.fails_here()


@expected("None among numbers or texts in a batch")
def _none_first_in_a_batch(found: Found) -> bool:
    if "batch" not in found.kinds or not found.says_there("same structure but got:"):
        return False
    if re.search(r'"object", \[[\d, ]+\], \[[^]]*null', json.dumps(found.here)) is not None:
        return True
    # An operation above the batch dropped or replaced the array of objects here.
    above = found.kinds[found.kinds.index("batch") + 1 :]
    return (
        bool({"filter", "random_map"} & set(above))
        and found.says_there("same structure but got: [None, '")
        and not found.fails_here()
    )


@expected("numbers and dictionaries in one batch")
def _different_structures_in_a_batch(found: Found) -> bool:
    # The first structure is a leaf: its text is in quotes.
    leaf_first = any(found.says_here(f"same structure but got: {quote}") for quote in "'\"")
    return leaf_first and not found.fails_there()


@expected("a rebatch of batches with different structures, of different lengths, or empty")
def _uneven_rebatch(found: Found) -> bool:
    not_joined = ("starting batch size of 0", "leaves for PyTreeDef")
    return "rebatch" in found.kinds and (
        found.says_here("RebatchIterDataset cannot join batches")
        or (not found.fails_here() and any(map(found.says_there, not_joined)))
    )


@expected("random maps and window shuffles in late epochs of a slice of an endless dataset")
def _far_epoch(found: Found) -> bool:
    kinds = set(found.kinds)
    return (
        "repeat" in kinds
        and bool({"random_map", "window_shuffle"} & kinds)
        and found.fails_there("OverflowError", "TypeError")
        and not found.fails_here()
    )


@expected("`repeat` of an interleave of more datasets than its cycle length")
def _repeated_interleave(found: Found) -> bool:
    steps = found.program.get("iter", {}).get("steps", [])
    narrow = [i for i, step in enumerate(steps) if step[0] == "interleave" and step[2] == 1]
    repeats = [i for i, step in enumerate(steps) if step[0] == "repeat" and step[1] in (3, None)]
    return bool(narrow and repeats) and narrow[0] < repeats[-1]


@expected("a `DataLoader` of several epochs with more shards than records")
def _empty_shard(found: Found) -> bool:
    return (
        "loader" in found.program
        and found.program["loader"]["epochs"] != 1
        and found.fails_there("ZeroDivisionError")
        and found.here == _END
    )


@expected("a rebatch of texts, of None, and of other elements without a first dimension")
def _rebatch_of_no_batches(found: Found) -> bool:
    return "rebatch" in found.kinds and found.says_here("RebatchIterDataset needs batches")


@expected("`len()` of batches of an endless dataset")
def _rounded_length(found: Found) -> bool:
    if found.says_there("cannot fit 'int' into an index-sized integer"):
        return {"repeat", "batch"} <= set(found.kinds)
    if found.place != "length" or found.there == _END or found.here == _END:
        return False
    return bool(found.here > 2**53 and float(found.here) == float(found.there))


@expected("`next` after the end of a zip of datasets of different lengths")
def _next_after_the_end_of_a_zip(found: Found) -> bool:
    return "zip" in found.kinds and found.here == _END and found.fails_there()


@expected(
    "a rebatched dataset restored after its last batch, or between batches of different dimensions or types"
)
def _empty_batch_at_the_end(found: Found) -> bool:
    sizes = re.findall(r'"\$nd": \["\w+", \[(\d+)', json.dumps(found.there))
    kinds = [kind for kind, *_ in found.program.get("iter", {}).get("steps", [])]
    after = kinds[kinds.index("rebatch") :] if "rebatch" in kinds else []
    continued = not {"repeat", "interleave"}.isdisjoint(after)
    empty = set(sizes) == {"0"} and (found.here == _END or continued)
    joined = found.says_there("must have same number of dimensions") and not found.fails_here()
    # Nothing of the batch before is left, but its type.
    there, here = (_without_types(side) for side in (found.there, found.here))
    retyped = there != json.dumps(found.there) and there == here
    resumed_there = "rebatch" in found.kinds and found.place.startswith("resumed there")
    return resumed_there and (empty or joined or retyped)


def _without_types(value: Any) -> str:
    """Return a value as JSON, without the types of its arrays."""
    return re.sub(r'"\$nd": \["[^"]+"', '"$nd": [', json.dumps(value))


@expected("states of a repeated interleave, from its second epoch on")
def _state_with_flags_of_the_epoch_before(found: Found) -> bool:
    kinds = [kind for kind, *_ in found.program.get("iter", {}).get("steps", [])]
    repeated = "interleave" in kinds and "repeat" in kinds[kinds.index("interleave") :]
    return repeated and found.place.startswith("resumed here")
