"""The table of deliberate differences from the reference, each with its reason.

A fact named here is compared with this table instead of the recorded value. It must differ from the
reference: an entry that no longer differs fails, and must be removed. Any other difference is a
defect.

Differences that no single fact can show are tested by name in `test_differences.py`.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """Facts (shell patterns), why they differ, and what holds here instead."""

    facts: tuple[str, ...]
    reason: str
    holds: Callable[[dict[str, Any]], bool]


def _raises(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda observed: bool(observed["error"]) and observed["error"][0] == name


def _gives(text: str) -> Callable[[dict[str, Any]], bool]:
    return lambda observed: observed["error"] is None and observed["result"] == text


def _stacks(*keys: str) -> Callable[[dict[str, Any]], bool]:
    """Return a check that the first batch, at these keys, is a dataclass of arrays of two elements."""

    def holds(observed: dict[str, Any]) -> bool:
        found = observed["elements"][0]
        for key in keys:
            found = found[key]
        name, fields = found["$data"]
        return name == "Point" and all(field["$nd"][1] == [2] for field in fields.values())

    return holds


DIFFERENCES = (
    Difference(
        facts=("error_length_of_iter_dataset", "error_length_of_loader"),
        reason="Iter datasets and loaders of known length have len(); the reference has none.",
        holds=_gives("4"),
    ),
    Difference(
        facts=("error_slice_by_a_list",),
        reason="slice() also takes a sequence of indices.",
        holds=_gives("[3, 1, 4]"),
    ),
    Difference(
        facts=("error_reading_empty_*",),
        reason="Reading an empty dataset is an IndexError with the reason, not a division by zero.",
        holds=_raises("IndexError"),
    ),
    Difference(
        facts=("error_mix_weights_do_not_match", "error_mix_iter_weights_do_not_match"),
        reason="Weights that do not match the datasets are a ValueError with both numbers, "
        "not a bare assertion.",
        holds=_raises("ValueError"),
    ),
    Difference(
        facts=("error_mix_with_negative_weight",),
        reason="A negative weight is an error that names it; the reference divides by zero, or not, "
        "depending on the other weights.",
        holds=_raises("ValueError"),
    ),
    Difference(
        facts=("batch_of_dataclasses", "batch_iter_of_dataclasses"),
        reason="A batch of dataclasses is a dataclass of arrays; there it is an array of objects, "
        "unless JAX knows the class.",
        holds=_stacks(),
    ),
    Difference(
        facts=("batch_of_dataclasses_in_dicts", "batch_iter_of_dataclasses_in_dicts"),
        reason="The same inside another element.",
        holds=_stacks("p"),
    ),
    Difference(
        facts=("error_loader_random_map_without_seed",),
        reason="A random map without a seed says that the sampler needs one; the reference hands "
        "None to the user's function, which then fails.",
        holds=_raises("ValueError"),
    ),
    Difference(
        facts=("error_none_in_rebatch",),
        reason="A batch without arrays is a TypeError that says so, not an IndexError about a list.",
        holds=_raises("TypeError"),
    ),
)


def difference_for(name: str) -> Difference | None:
    """Return the deliberate difference that covers the fact called `name`."""
    for entry in DIFFERENCES:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in entry.facts):
            return entry
    return None
