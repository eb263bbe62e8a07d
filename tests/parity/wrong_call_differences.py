"""Deliberate differences between the results of wrong calls here and there, and every other difference."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .program_differences import same_result
from .program_results import is_failure

# Errors of the reference that come from the place where a value is used, not from a check of it.
_ACCIDENTS = (
    "AssertionError",
    "AttributeError",
    "IndexError",
    "KeyError",
    "MemoryError",
    "OverflowError",
    "RuntimeError",
    "ValueError",
    "ZeroDivisionError",
)
# Texts with which this project refuses a value.
_REFUSALS = (
    "must be",
    "must have",
    "needs",
    "expected",
    "is indexed by",
    "takes",
    "got",
    "a column is",
)
# Values that are refused here only if they are refused there.
_SOUND = ("=None)", "=0)", "=1)", "=3)", "=int64)")

_WRONG = "an argument of the wrong type, or that makes no sense, such as `window_size=0`"
# Calls that differ for a reason of their own.
_SINGLE = {
    "FirstFitPackIterDataset(num_packing_bins=2**40)": "packing with more bins than fit into memory",
    "FirstFitPackIterDataset(num_packing_bins=2**70)": "packing with more bins than fit into memory",
    "DataLoader(data_source=[])": "reading an empty dataset",
    "DataLoader(data_source={})": "reading an empty dataset",
    "IterDataset.mix(weights=a map dataset)": "weights of a mixture that do not fit",
    "IterDataset.mix(weights=an iter dataset)": "weights of a mixture that do not fit",
    "MapDataset.repeat(num_epochs=2**70)": "`repeat` of 2**63 epochs or more",
    "MultiprocessingOptions(per_worker_buffer_size=None)": _WRONG,
    "index_shuffle(index=array)": "`index_shuffle` of an array of indices",
}
ROWS = (
    _WRONG,
    "`True` or `2.0` where an integer is expected",
    "`slice`",
    "numpy integers as indices, and in `range`",
    "numpy integers as options",
    *_SINGLE.values(),
)


def _class_of(result: Any) -> str | None:
    return result["$error"][0][0] if is_failure(result) else None


def _is_refused(result: Any, *names: str) -> bool:
    """Return whether a result is an error with a text that says what was expected."""
    return _class_of(result) in names and any(word in result["$error"][1] for word in _REFUSALS)


def expected_row(call: str, there: Any, here: Any) -> str | None:
    """Return the row of docs/differences.md that describes a difference."""
    wrong = _class_of(there)
    if re.search(r"=(True|2\.0|2\.5|nan)\)$", call) and _is_refused(here, "TypeError"):
        return "`True` or `2.0` where an integer is expected"
    if wrong in _ACCIDENTS and _is_refused(here, "TypeError", "ValueError", "IndexError"):
        return _WRONG
    if wrong is None and _is_refused(here, "TypeError") and not call.endswith(_SOUND):
        return _WRONG
    if (
        wrong is None
        and re.search(r"=(0|-1)\)$", call)
        and _is_refused(here, "TypeError", "ValueError")
    ):
        return _WRONG
    if (
        wrong == "TypeError"
        and call.startswith("index_shuffle(")
        and _is_refused(here, "ValueError")
    ):
        return _WRONG
    if call.startswith("MapDataset.slice(") and not is_failure(here):
        return "`slice`"
    if call.endswith("=int64)") and json.dumps(here) == re.sub(
        r'\{"\$np": \["int64", "(-?\d+)"\]\}', r"\1", json.dumps(there)
    ):
        return "numpy integers as indices, and in `range`"
    if (
        call.endswith("=int64)")
        and wrong in ("AssertionError", "TypeError")
        and not is_failure(here)
    ):
        return "numpy integers as options"
    if call.endswith(("(drop_remainder=array)", "(enable_profiling=array)")):
        # Taken for true or false in one place only where it matters, in the other at once.
        return _WRONG
    if call in _SINGLE:
        return _SINGLE[call]
    return None


# Texts of errors of the reference that come from the place where a value is used.
_ACCIDENTAL_TEXTS = (
    "A failing component must be returned",
    "The truth value of an array",
    "expected non-negative integer",
    "max() arg is an empty sequence",
    "min() arg is an empty sequence",
    "negative dimensions are not allowed",
)
# Calls with a text of their own: it says which argument is wrong.
_OTHER_TEXTS = (
    "IterDataset.mix(weights=array)",
    "LimitIterDataset(count=-1)",
    "LimitIterDataset(count=0)",
    "MapDataset.mix(weights=a map dataset)",
    "MapDataset.mix(weights=an iter dataset)",
    "MapDataset.mix(weights=array)",
    "index_shuffle(max_index=-1)",
)


def has_same_text(call: str, there: Any, here: Any) -> bool:
    """Return whether the message of a refused value here has the text there, which tools may match."""
    if _class_of(there) != "ValueError" or _class_of(here) != "ValueError":
        return True
    texts = [side["$error"][1] for side in (there, here)]
    if texts[0].startswith(_ACCIDENTAL_TEXTS) or call in _OTHER_TEXTS:
        return True
    plain = [re.sub(r"grain[\w.]*\.|\s|\.$|0x\w+", "", text) for text in texts]
    return plain[0] in plain[1]


def differences(there: dict[str, Any], here: dict[str, Any]) -> Iterator[str]:
    """Return a line for each call whose results differ and should not."""
    for call in there.keys() | here.keys():
        left, right = there.get(call), here.get(call)
        differ = not same_result(left, right) and expected_row(call, left, right) is None
        if differ or not has_same_text(call, left, right):
            yield f"{call}: there {json.dumps(left)[:200]}, here {json.dumps(right)[:200]}"
