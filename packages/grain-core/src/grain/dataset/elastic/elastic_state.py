"""Merging the states that the hosts of a job saved into one that any number of hosts can restore."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grain.dataset.checkpointing import naming, parse_state, read_saved
from grain.options import checked_int

_FILE = re.compile(r"process_(\d+)-of-(\d+)\.json")
_SHOWN = 8  # Hosts that a message lists.


def merge_states(
    states: Sequence[Any] | Mapping[int, Any], *, host_count: int | None = None
) -> Any:
    """Return the global state that all hosts of a job were in.

    Args:
        states: The result of `get_state()` of each host, in order or by index.
        host_count: The number of hosts; needed where states are given by index.

    Raises:
        ValueError: A host's state is missing, is none of an `ElasticIterator`, or is not where the
            others are.

    >>> merge_states([{"global_next_index": 8}, {"global_next_index": 8}])
    {'global_next_index': 8}
    """
    by_host = _by_host(states, host_count)
    positions = {host: global_position(state, host) for host, state in by_host.items()}
    if len(set(positions.values())) > 1:
        where = "; ".join(
            f"{_hosts(host for host in positions if positions[host] == position)} at {position}"
            for position in sorted(set(positions.values()))
        )
        raise ValueError(
            f"The hosts saved different positions of the global stream: {where}. Elements in between "
            "went to some hosts only, so no position is right for all. Save on all hosts after the "
            "same step, or restore an earlier checkpoint in which they agree. An operation after the "
            "ElasticIterator that drops or buffers elements, such as filter or pack, also makes hosts "
            "differ: put it before the ElasticIterator."
        )
    host, state = next(iter(by_host.items()))
    for other, different in by_host.items():
        path = _difference(_comparable(_plain(state)), _comparable(_plain(different)))
        if path is not None:
            raise ValueError(
                f"Hosts {host} and {other} were both at element {positions[host]} of the global "
                f"stream, but their states differ at {path}. Either they did not read the same stream "
                "(its data, seeds and operations must be the same on all hosts), or an operation "
                "after the ElasticIterator buffers elements of one host: put it before the "
                "ElasticIterator."
            )
    return state


def read_state(directory: Any) -> Any:
    """Return the global state in a folder where a job of any number of hosts saved a file per host.

    Args:
        directory: The folder with files named `process_<host>-of-<hosts>.json`.
    """
    folder = directory if hasattr(directory, "iterdir") else Path(directory)
    found: dict[int, dict[int, Any]] = {}
    if folder.exists():
        for file in folder.iterdir():
            match = _FILE.fullmatch(file.name)
            if match is not None:
                host, count = int(match[1]), int(match[2])
                found.setdefault(count, {})[host] = file
    if not found:
        raise ValueError(
            f"There is no state of an iterator in {folder}: no file is named "
            "process_<host>-of-<hosts>.json. Pass the folder into which the iterator was saved."
        )
    if len(found) > 1:
        raise ValueError(
            f"{folder} holds states of jobs of {' and of '.join(map(str, sorted(found)))} hosts, and "
            "which were saved last is unknown. Save each checkpoint into a separate folder."
        )
    ((count, files),) = found.items()
    states = {host: parse_state(*read_saved(files[host])) for host in sorted(files)}
    with naming(folder):
        return merge_states(states, host_count=count)


def global_position(state: Any, host: int | None = None) -> int:
    """Return the number of elements of the global stream before a state.

    >>> global_position({"parent": {"global_next_index": 8}, "counter": 2})
    8
    """
    inner = state
    while isinstance(inner, Mapping) and "global_next_index" not in inner:
        inner = inner.get("parent")
    if not isinstance(inner, Mapping):
        whose = "" if host is None else f" of host {host}"
        raise ValueError(
            f"The state{whose} is not that of an ElasticIterator: it has no field "
            f"'global_next_index': {state!r}. Per-shard states can only be restored with the same "
            "shard index and shard count; read the whole dataset through "
            "grain.experimental.ElasticIterator to resume with another number of hosts."
        )
    return checked_int("global_next_index", inner["global_next_index"], least=0)


def _by_host(states: Any, host_count: int | None) -> dict[int, Any]:
    """Return the states of all hosts by host."""
    if isinstance(states, Mapping) and "global_next_index" in states:
        raise TypeError(f"merge_states needs the states of all hosts, got one state: {states!r}.")
    if isinstance(states, Mapping):
        if host_count is None:
            raise ValueError(
                f"States were given by host, for {_hosts(states)}; pass the number of hosts as "
                "`host_count`, so that a missing one is detected."
            )
        given = dict(states)
    elif isinstance(states, Sequence) and not isinstance(states, (str, bytes)):
        given = dict(enumerate(states))
    else:
        raise TypeError(
            "merge_states needs a sequence of states, or a mapping of host index to state, got "
            f"{states!r} of type {type(states).__name__}."
        )
    count = len(given) if host_count is None else checked_int("host_count", host_count, least=1)
    if not count:
        raise ValueError("merge_states needs the state of at least one host, got none.")
    outside = [host for host in given if isinstance(host, bool) or host not in range(count)]
    if outside:
        raise ValueError(
            f"States were given for {_hosts(outside)}, but of {count} hosts the indices are 0 to "
            f"{count - 1}. Pass the states of one checkpoint, and its number of hosts."
        )
    missing = [host for host in range(count) if given.get(host) is None]
    if missing:
        raise ValueError(
            f"Of {count} hosts the states of {_hosts(missing)} are missing: the checkpoint is not "
            "complete. Restore one that all hosts finished."
        )
    return {host: given[host] for host in range(count)}


def _hosts(hosts: Iterable[Any]) -> str:
    every = list(hosts)
    listed = ", ".join(map(str, every[:_SHOWN]))
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return f"host {listed}" if len(every) == 1 else f"hosts {listed}{more}"


def _plain(state: Any) -> Any:
    """Return a state after a round trip through JSON, if it allows one."""
    try:
        return json.loads(json.dumps(state))
    except (TypeError, ValueError):
        return state


def _comparable(state: Any) -> Any:
    """Return a state without the positions of interleaved datasets that were read to their end.

    Whether the end was seen depends on the timing of read-ahead.
    """
    if isinstance(state, list):
        return [_comparable(part) for part in state]
    if not isinstance(state, dict):
        return state
    parts = {key: _comparable(part) for key, part in state.items()}
    ended, states = parts.get("exhausted"), parts.get("iterators_in_use_states")
    if isinstance(ended, list) and isinstance(states, list) and len(ended) == len(states):
        kept = [None if over else part for over, part in zip(ended, states, strict=True)]
        parts["iterators_in_use_states"] = kept
    return parts


def _difference(one: Any, other: Any, path: str = "state") -> str | None:
    """Return where two states differ first, and how; None where they are equal."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        parts = [(f"{path}[{key!r}]", one[key], other[key]) for key in one]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        parts = [
            (f"{path}[{offset}]", *pair) for offset, pair in enumerate(zip(one, other, strict=True))
        ]
    else:
        return None if one == other else f"{path}: {one!r} and {other!r}"
    differences = (_difference(left, right, where) for where, left, right in parts)
    return next((difference for difference in differences if difference is not None), None)
