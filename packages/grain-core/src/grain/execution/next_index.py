"""Which element an iterator gives next, where that is a matter of arithmetic, and going to one."""

from __future__ import annotations

import sys
from typing import Any

from grain.dataset.batch import BatchDatasetIterator, BatchIterDataset
from grain.dataset.interleave.interleave import InterleaveDatasetIterator
from grain.dataset.iterator import CountingIterator, DatasetIterator, state_field
from grain.dataset.limit import LimitDatasetIterator
from grain.dataset.map import MapDatasetIterator
from grain.dataset.stages import with_counts, without_counts
from grain.dataset.to_iter import PrefetchDatasetIterator
from grain.execution.thread_prefetch import ThreadPrefetchDatasetIterator

_PROCESS_MODULES = (
    "grain.execution.farm",
    "grain.execution.fused_iterator",
    "grain.execution.offload",
)


def get_next_index(ds_iter: DatasetIterator[Any]) -> int:
    """Which element comes next.

    It is known for elements of a map dataset and operations above it that keep their number, or
    change it in a regular way, such as `map`, `random_map` and `batch`.

    >>> import grain
    >>> iterator = iter(grain.MapDataset.range(9).to_iter_dataset().batch(2))
    >>> _ = next(iterator)
    >>> get_next_index(iterator)
    1
    """
    _check(ds_iter)
    own = getattr(ds_iter, "_get_next_index", None)
    if own is not None:
        return int(own())
    return _index(ds_iter, ds_iter.get_state())


def set_next_index(ds_iter: DatasetIterator[Any], index: int) -> None:
    """Lets an iterator go on at an element, without reading those before it.

    >>> import grain
    >>> iterator = iter(grain.MapDataset.range(9).to_iter_dataset().batch(2))
    >>> set_next_index(iterator, 3)
    >>> next(iterator)
    array([6, 7])
    """
    _check(ds_iter)
    if isinstance(index, bool) or not hasattr(index, "__index__"):
        raise TypeError(f"index must be an integer, got {index!r} of type {type(index).__name__}.")
    own = getattr(ds_iter, "_set_next_index", None)
    if own is not None:
        own(index)
    else:
        ds_iter.set_state(_state(ds_iter, index.__index__()))


def _check(iterator: Any) -> None:
    if not isinstance(iterator, DatasetIterator):
        raise TypeError(
            f"Expected a grain.DatasetIterator, got {iterator!r} of type {type(iterator).__name__}."
        )


def _index(iterator: DatasetIterator[Any], state: Any) -> int:
    """Which element comes next when an iterator is in a state."""
    match iterator:
        case PrefetchDatasetIterator():
            return int(state_field(state, "next_index", iterator))
        case CountingIterator():
            return int(state_field(state, iterator._counter_name, iterator))
        case LimitDatasetIterator():
            return int(state_field(state, "count_elements_read", iterator))
        case BatchDatasetIterator():
            return -(-_index(iterator._parent, state) // iterator._dataset._batch_size)
        case InterleaveDatasetIterator():
            turn = _only_turn(iterator, "get_next_index")
            return _index(turn, state["iterators_in_use_states"][0])
        case _ if isinstance(iterator, _computed_elsewhere("FusedIterator")):
            return _index_in_chain(iterator, state)
        case _ if isinstance(iterator, _computed_elsewhere("OffloadIterator")):
            return _index_above_functions(iterator, state)
        case _ if _passes_through(iterator):
            return _index(iterator._parent, state)
    raise _unknown("get_next_index", iterator)


def _state(iterator: DatasetIterator[Any], index: int) -> Any:
    """The state in which an element comes next."""
    match iterator:
        case PrefetchDatasetIterator():
            return {"next_index": index}
        case CountingIterator():
            return {"parent": _state(iterator._parent, index), iterator._counter_name: index}
        case LimitDatasetIterator():
            return {"parent": _state(iterator._parent, index), "count_elements_read": index}
        case BatchDatasetIterator():
            return _state_of_batch(iterator, index)
        case InterleaveDatasetIterator():
            turn = _only_turn(iterator, "set_next_index")
            state = iterator.get_state()
            return {
                **state,
                "next_index_in_cycle": 0,
                "iterators_in_use_states": [_state(turn, index)],
                "exhausted": [0],
            }
        case _ if isinstance(iterator, _computed_elsewhere("FusedIterator")):
            return _state_in_chain(iterator, index)
        case _ if isinstance(iterator, _computed_elsewhere("OffloadIterator")):
            return _state_above_functions(iterator, index)
        case _ if _passes_through(iterator):
            return _state(iterator._parent, index)
    raise _unknown("set_next_index", iterator)


def _state_of_batch(iterator: BatchDatasetIterator[Any], index: int) -> Any:
    dataset = iterator._dataset
    return _state(iterator._parent, _first_of_batch(dataset, index))


def _first_of_batch(dataset: BatchIterDataset[Any], index: int) -> int:
    first = index * dataset._batch_size
    length: int | None = dataset._parent._length()
    if length is not None and first - dataset._batch_size < length:
        return min(first, length)  # The last batch may be short.
    return first


def _index_in_chain(iterator: Any, state: Any) -> int:
    """The same for operations that worker processes compute together with the map dataset."""
    stages = iterator._chain.stages
    for stage in reversed(stages):
        if stage._drops:
            raise _unknown("get_next_index", iterator)
        if stage._counter_name is not None:
            state = state_field(state, "parent", iterator)
    index = int(state_field(state, "next_index", iterator))
    for stage in stages:
        if isinstance(stage, BatchIterDataset):
            index = -(-index // stage._batch_size)
    return index


def _state_in_chain(iterator: Any, index: int) -> Any:
    counters = []
    for stage in reversed(iterator._chain.stages):
        if stage._drops:
            raise _unknown("set_next_index", iterator)
        if isinstance(stage, BatchIterDataset):
            index = _first_of_batch(stage, index)
        elif stage._counter_name is not None:
            counters.append((stage._counter_name, index))
    state: Any = {"next_index": index}
    for name, count in reversed(counters):
        state = {"parent": state, name: count}
    return state


def _index_above_functions(iterator: Any, state: Any) -> int:
    stages = iterator._functions.stages
    counts, below = without_counts(stages, state, iterator)
    for stage, count in zip(reversed(stages), reversed(counts), strict=True):
        if stage._counter_name is not None:
            return count
    return _index(iterator._parent, below)


def _state_above_functions(iterator: Any, index: int) -> Any:
    stages = iterator._functions.stages
    return with_counts(stages, [index] * len(stages), _state(iterator._parent, index))


def _computed_elsewhere(*names: str) -> tuple[type, ...]:
    """Iterators over worker processes; there are none before their modules are loaded."""
    loaded = filter(None, map(sys.modules.get, _PROCESS_MODULES))
    found = {getattr(module, name, None) for module in loaded for name in names}
    return tuple(kind for kind in found if kind is not None)


def _passes_through(iterator: DatasetIterator[Any]) -> bool:
    """Whether elements and states are the parent's, one for one."""
    kinds = (MapDatasetIterator, ThreadPrefetchDatasetIterator)
    return isinstance(iterator, kinds + _computed_elsewhere("ProcessPrefetchIterator"))


def _only_turn(iterator: InterleaveDatasetIterator[Any], function: str) -> DatasetIterator[Any]:
    if len(iterator._datasets) > 1:
        raise NotImplementedError(
            f"{function} is not supported for InterleaveDatasetIterator with more than one dataset."
        )
    return iterator._open(iterator._turns[0])


def _unknown(function: str, iterator: DatasetIterator[Any]) -> NotImplementedError:
    return NotImplementedError(
        f"{function} is not supported for {type(iterator).__name__}: how many elements it makes of "
        "its parent's is known only by reading them. Use `get_state` and `set_state` instead."
    )
