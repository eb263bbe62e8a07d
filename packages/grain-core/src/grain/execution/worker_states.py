"""States of google/grain's `mp_prefetch`, in which every worker has a part, as one position.

Its workers read every n-th record each. Where the records that they have taken are the first so many
of all, that number is the position in the one stream that there is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_FIELDS = frozenset(
    {
        "next_index_in_cycle",
        "next_index_in_datasets",
        "iterators_in_use_indices",
        "iterators_in_use_states",
        "exhausted",
        "future_states",
    }
)


def as_one_position(state: Any, own_state: Callable[[], Any]) -> Any:
    """The state that this library gives at the position of `state`, or `state` if it is one already.

    Args:
      state: What is to be restored.
      own_state: Gives a state of the iterator that is to go there, for its form.

    >>> part = {"next_index_in_cycle": 1, "next_index_in_datasets": 2, "exhausted": [0, 0]}
    >>> part |= {"iterators_in_use_indices": [0, 1], "future_states": {}}
    >>> part |= {"iterators_in_use_states": [{"next_index": 3}, {"next_index": 2}]}
    >>> as_one_position(part, lambda: {"next_index": 0})
    {'next_index': 5}
    """
    if not _has_parts(state):
        return state
    parts = state["iterators_in_use_states"]
    if _has_parts(own_state()) and not (len(parts) == 1 and _has_parts(parts[0])):
        return state  # Datasets that are interleaved have states of the same form.
    if len(parts) == 1 and not any(state["exhausted"]):
        return parts[0]
    taken = _records_taken(parts)
    if taken is None or any(state["exhausted"]):
        raise ValueError(
            f"The state has a part for each of {len(parts)} workers, as google/grain saves them, and "
            f"they do not make up one position: {_in_short(state)}. Only workers that read plain "
            "records, and have taken every n-th of the first so many, stand at one position. Save "
            "again with one worker or none, or at the start of an epoch, and restore that."
        )
    return {"next_index": taken}


def _has_parts(state: Any) -> bool:
    return isinstance(state, dict) and state.keys() == _FIELDS


def _records_taken(parts: Sequence[Any]) -> int | None:
    """How many records the workers took together, if those are the first so many of all."""
    if not all(isinstance(part, dict) and part.keys() == {"next_index"} for part in parts):
        return None
    each = [part["next_index"] for part in parts]
    total = sum(each)
    return total if each == [len(range(i, total, len(each))) for i in range(len(each))] else None


def _in_short(state: dict[str, Any]) -> str:
    fields = ("iterators_in_use_states", "exhausted")
    return ", ".join(f"{name}={state[name]!r}" for name in fields)[:500]
