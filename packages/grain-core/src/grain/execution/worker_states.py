"""Conversion of google/grain's `mp_prefetch` states, which have one state per worker, to one position.

A worker of google/grain reads every n-th record. Where the records that all workers have read are the
first k records of the dataset, k is the position in the single stream of this library.
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


def merge_worker_states(state: Any, own_state: Callable[[], Any]) -> Any:
    """Return the state of this library at the position of `state`; other states are returned unchanged.

    Args:
        state: The state to restore.
        own_state: Returns a state of the iterator to be restored, for its form.

    >>> state = {"next_index_in_cycle": 1, "next_index_in_datasets": 2, "exhausted": [0, 0]}
    >>> state |= {"iterators_in_use_indices": [0, 1], "future_states": {}}
    >>> state |= {"iterators_in_use_states": [{"next_index": 3}, {"next_index": 2}]}
    >>> merge_worker_states(state, lambda: {"next_index": 0})
    {'next_index': 5}
    """
    if not _is_interleaved(state):
        return state
    workers = state["iterators_in_use_states"]
    if _is_interleaved(own_state()) and not (len(workers) == 1 and _is_interleaved(workers[0])):
        return state  # States of an interleave have the same form.
    if len(workers) == 1 and not any(state["exhausted"]):
        return workers[0]
    position = _common_position(workers)
    if position is None or any(state["exhausted"]):
        raise ValueError(
            f"The state has one part for each of {len(workers)} workers, as google/grain saves them, and the "
            f"parts do not stand at one position of the stream: {_abbreviated(state)}. They do only if the "
            "workers read plain records and have together read the first records of the dataset. Save again "
            "with one worker or none, or at the start of an epoch, and restore that state."
        )
    return {"next_index": position}


def _is_interleaved(state: Any) -> bool:
    return isinstance(state, dict) and state.keys() == _FIELDS


def _common_position(workers: Sequence[Any]) -> int | None:
    """Return how many records the workers have read, if those are the first records of the dataset."""
    if not all(isinstance(worker, dict) and worker.keys() == {"next_index"} for worker in workers):
        return None
    counts = [worker["next_index"] for worker in workers]
    total = sum(counts)
    expected = [len(range(i, total, len(counts))) for i in range(len(counts))]
    return total if counts == expected else None


def _abbreviated(state: dict[str, Any]) -> str:
    fields = ("iterators_in_use_states", "exhausted")
    return ", ".join(f"{name}={state[name]!r}" for name in fields)[:500]
