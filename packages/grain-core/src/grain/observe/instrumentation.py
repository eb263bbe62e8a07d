"""Observed copies of nodes, and observed iterators: what they do is measured, and nothing else differs.

An observed copy of a node is an object of a subclass that overrides the methods which compute elements. The
subclass has the name of the original class, so messages, fingerprints and plans are the same. A copy pickles
as its original class, its state and its number, so a worker that receives it measures too.

Methods of iterators are overridden by attributes of the same name, which hold no reference to the iterator:
it is freed as soon as it is dropped. The class is replaced only where `__next__` must be measured, since that
slows down every attribute. An iterator that allows neither is not measured by itself, and its time is part of
the node that reads it.
"""

from __future__ import annotations

import copyreg
import functools
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from grain.dataset.chunk import Chunk
from grain.dataset.filter import FilterMapDataset
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator
from grain.dataset.map_dataset import IndexedMapDataset, MapDataset
from grain.dataset.node import DatasetNode, ExecutionTrait, computed_once
from grain.dataset.stages import StageIterDataset
from grain.dataset.stats import NO_STATS
from grain.observe.recording import (
    FIRST_SAMPLES,
    SAMPLE_EVERY,
    WAIT,
    WORK,
    Recorders,
    recorders_for,
    sample_size,
)
from grain.observe.user_recorder import ObservedStats, StatsMember

# `newobj` is what classes without a `__reduce__` of their own pickle with.
_NEW_OBJECT = copyreg.__newobj__  # type: ignore[attr-defined]

_clock = time.perf_counter_ns


class Probe(NamedTuple):
    """How the frames of a node are recorded.

    Attributes:
        recorders: The recorders of the pipeline in this process.
        node: The number of the node.
        is_sparse: Whether elements may be None because they were filtered out.
        drops: Whether the node drops elements.
    """

    recorders: Recorders
    node: int
    is_sparse: bool = False
    drops: bool = False


def is_observed(value: Any) -> bool:
    """Return whether a node or an iterator is measured."""
    if isinstance(value, DatasetNode):
        return isinstance(value, _Observed)
    # Not by `__dict__`, which would slow down the attributes of the iterator.
    return getattr(value, "_grain_probe", None) is not None


def node_numbers(nodes: Iterable[Any]) -> list[int]:
    """Return the numbers of the nodes that are observed copies."""
    return [node._grain_probe.node for node in nodes if is_observed(node)]


class _Observed:
    """Marks classes of observed copies."""

    __slots__ = ()


# Nodes


def observed_copy(node: Any, parents: Mapping[int, Any], probe: Probe) -> Any:
    """Return a copy of a node that is measured and reads from observed copies of its parents.

    Args:
        node: The node.
        parents: Observed copies by the identity of the original.
        probe: How the frames of the copy are recorded.
    """
    kind: Any = type(node)
    if getattr(node, "execution_trait", None) is ExecutionTrait.OPAQUE:
        return _opaque_view(node, parents, probe)
    copy = object.__new__(_observed_node_class(kind))
    attributes = dict(vars(node))
    for name in _computed_names(kind):
        attributes.pop(name, None)
    for name, value in attributes.items():
        attributes[name] = substituted(value, parents)
    copy.__dict__.update(attributes)
    _copy_slots(node, copy)
    copy._grain_probe, copy._grain_source = probe, node
    return copy


def substituted(value: Any, parents: Mapping[int, Any]) -> Any:
    """Return an attribute with observed copies in place of the parents that it is or contains."""
    if id(value) in parents:
        return parents[id(value)]
    if type(value) in (list, tuple) and any(id(item) in parents for item in value):
        return type(value)(parents.get(id(item), item) for item in value)
    if type(value) is dict and any(id(item) in parents for item in value.values()):
        return {key: parents.get(id(item), item) for key, item in value.items()}
    return value


def _copy_slots(node: Any, copy: Any) -> None:
    for kind in type(node).__mro__:
        slots: str | Sequence[str] = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(node, name):
                object.__setattr__(copy, name, getattr(node, name))


@functools.lru_cache(maxsize=512)
def _computed_names(kind: Any) -> tuple[str, ...]:
    """Return the members whose kept values may refer to the original parents."""
    return tuple(
        name
        for base in kind.__mro__
        for name, member in vars(base).items()
        if isinstance(member, computed_once)
    )


def _opaque_view(node: Any, parents: Mapping[int, Any], probe: Probe) -> Any:
    """Return an object that shares the attributes of a node, except for its parents.

    A class that has only an `__iter__` may write to `self` there, and that must stay.
    """
    replaced = {
        name: substituted(value, parents)
        for name, value in vars(node).items()
        if substituted(value, parents) is not value
    }
    original: Any = type(node)
    kind = _observed_node_class(original)
    members = {name: _constant_member(name, value) for name, value in replaced.items()}
    view = object.__new__(_subclass(kind, members) if members else kind)
    view.__dict__ = vars(node)
    _copy_slots(node, view)
    view._grain_probe, view._grain_source = probe, node
    return view


def _constant_member(name: str, value: Any) -> property:
    """Return a member that has precedence over the attribute of the same name, until that is set."""

    def get(self: Any) -> Any:
        return value

    def set_(self: Any, new: Any) -> None:
        self.__dict__[name] = new

    return property(get, set_)


def _subclass(kind: type, members: dict[str, Any]) -> Any:
    """Return a subclass with the name of its base class and its execution trait."""
    namespace = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        **members,
    }
    trait = getattr(kind, "execution_trait", None)
    if trait is not None:
        namespace["execution_trait"] = trait
    return type(kind)(kind.__name__, (kind,), namespace)


@functools.lru_cache(maxsize=512)
def _observed_node_class(kind: Any) -> Any:
    """Return the subclass of a node class whose methods are measured."""
    members: dict[str, Any] = {"__reduce_ex__": _reduce, "_grain_original": kind}
    if kind._stats is NO_STATS:
        members["_stats"] = StatsMember()
    if issubclass(kind, MapDataset):
        members |= _map_members(kind)
    else:
        members |= _iter_members(kind)
    namespace = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        # Not among the attributes, which a user's `__getstate__` may return.
        "__slots__": ("_grain_probe", "_grain_source"),
        **members,
    }
    if hasattr(kind, "execution_trait"):
        namespace["execution_trait"] = kind.execution_trait
    return type(kind)(kind.__name__, (kind, _Observed), namespace)


def _reduce(self: Any, protocol: Any) -> Any:
    """Pickle the original class and state, and how to measure it."""
    probe: Probe = self._grain_probe
    original = self._grain_original
    plain = object.__new__(original)
    plain.__dict__.update(
        {name: getattr(self, name) for name in vars(self)}
        if isinstance(vars(type(self)).get("_parents"), property)
        else vars(self)
    )
    for kind in original.__mro__:
        slots: str | Sequence[str] = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(self, name):
                object.__setattr__(plain, name, getattr(self, name))
    reduced = plain.__reduce_ex__(protocol)
    if isinstance(reduced, tuple) and reduced[:2] == (_NEW_OBJECT, (original,)):
        recorders = probe.recorders
        arguments = (original, recorders.key, recorders.max_spans, *probe[1:])
        return (_restored, arguments, *reduced[2:])
    return reduced


def _restored(original: Any, key: str, max_spans: int, *probe: Any) -> Any:
    """Return an observed copy without its state, where it is unpickled or copied."""
    copy = object.__new__(_observed_node_class(original))
    copy._grain_probe = Probe(recorders_for(key, max_spans), *probe)
    return copy


# Methods of nodes


def _map_members(kind: Any) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if kind.read_many is MapDataset.read_many:
        # A class with its own `__getitem__`, or `__getitems__`.
        members["_read_singly"] = _measured_read(kind._read_singly)
        members["__getitem__"] = _measured_item(kind.__getitem__)
        if kind.__getitems__ is not MapDataset.__getitems__:
            members["__getitems__"] = _measured_read(kind.__getitems__)
        return members
    is_filter = issubclass(kind, FilterMapDataset)
    members["read_many"] = _measured_read(kind.read_many, is_filter=is_filter)
    members["read_one"] = _measured_item(kind.read_one)
    members["read_columns"] = _measured_columns(kind.read_columns)
    if not issubclass(kind, IndexedMapDataset):
        members["__getitem__"] = _measured_item(kind.__getitem__)
    if is_filter:
        members["_keep"] = _counting_keep(kind._keep)
    return members


def _counting_keep(method: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    @functools.wraps(method)
    def keep(self: Any, elements: list[Any], answers: list[Any]) -> list[Any]:
        kept = method(self, elements, answers)
        self._grain_probe.recorders.current().kept = _count_true(answers)
        return kept

    return keep


def _count_true(answers: list[Any]) -> int:
    """Return how many answers are true, for most kinds of answers without a step of Python for each."""
    try:
        return len(answers) - bytes(answers).count(0)
    except (TypeError, ValueError):  # Not integers, or larger than a byte.
        return len([1 for answer in answers if answer])


def _measured_read(
    method: Callable[[Any, Any], Any], *, is_filter: bool = False
) -> Callable[[Any, Any], Any]:
    @functools.wraps(method)
    def read(self: Any, indices: Any) -> Any:
        recorders, node, is_sparse, drops = self._grain_probe
        recorder = recorders.current()
        outer = recorder.node
        elements: Any = ()
        if recorder.is_brief and not is_sparse and outer is not None and outer != node:
            # The same as below without a call: a batch of large elements reads many small portions.
            inside, received = recorder.inside, recorder.received
            recorder.node, recorder.inside, recorder.received = node, 0, 0
            started = _clock()
            try:
                elements = method(self, indices)
                return elements
            finally:
                duration = _clock() - started
                counters = recorder.counters.get(node) or recorder.add_node(node)
                counters.working += duration - recorder.inside
                counters.received += recorder.received
                counters.returned += len(elements)
                counters.calls += 1
                if counters.calls <= FIRST_SAMPLES or not counters.calls % SAMPLE_EVERY:
                    sample_size(counters, elements)
                recorder.node, recorder.inside = outer, inside + duration
                recorder.received = received + len(elements)
        frame = recorder.open(node)
        try:
            elements = method(self, indices)
            return elements
        finally:
            returned = len(elements)
            if is_sparse and returned:
                if is_filter:
                    returned = recorder.kept
                elif drops or not recorder.received:
                    returned = len([1 for element in elements if element is not None])
                else:  # An element stays one, or is missing already.
                    returned = min(returned, recorder.received)
            counters = recorder.close(frame, returned, WORK, drops)
            if counters is not None:
                sample_size(counters, elements)

    return read


def _measured_columns(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(method)
    def read_columns(self: Any, indices: Any) -> Any:
        probe: Probe = self._grain_probe
        recorder = probe.recorders.current()
        frame = recorder.open(probe.node)
        columns: Any = None
        try:
            columns = method(self, indices)
            return columns
        finally:
            returned = 0 if columns is None else len(indices)
            counters = recorder.close(frame, returned)
            if counters is not None and returned:
                sample_size(counters, _AverageRow(columns, returned))

    return read_columns


class _AverageRow:
    """Stacked elements, as a sequence of which one is an average element."""

    def __init__(self, columns: Any, count: int):
        self._columns = columns
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        return _first_rows(self._columns)


def _first_rows(columns: Any) -> Any:
    if isinstance(columns, dict):
        return {name: _first_rows(column) for name, column in columns.items()}
    if isinstance(columns, (list, tuple)):
        return [_first_rows(column) for column in columns]
    return columns[:1]


def _measured_item(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(method)
    def read_item(self: Any, index: Any) -> Any:
        probe: Probe = self._grain_probe
        recorder = probe.recorders.current()
        if recorder.node == probe.node:  # Called by a measured method of the same node.
            return method(self, index)
        frame = recorder.open(probe.node)
        element = None
        try:
            element = method(self, index)
            return element
        finally:
            counters = recorder.close(frame, element is not None, WORK, probe.drops)
            if counters is not None:
                sample_size(counters, (element,))

    return read_item


def _iter_members(kind: Any) -> dict[str, Any]:
    members: dict[str, Any] = {}
    if issubclass(kind, StageIterDataset):
        members["apply_chunk"] = _measured_stage(kind.apply_chunk)
    if kind.execution_trait is ExecutionTrait.OPAQUE or "__iter__" in _own_iter(kind):
        members["__iter__"] = _observing_iter(kind.__iter__)
    else:
        members["make_iterator"] = _observing_make(kind.make_iterator)
    return members


def _own_iter(kind: Any) -> Any:
    """Return the names that a class defines which opens its parents itself."""
    for base in kind.__mro__:
        if base is IterDataset:
            break
        if "__iter__" in vars(base) and hasattr(vars(base)["__iter__"], "__wrapped__"):
            return vars(base)
    return ()


def _measured_stage(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def apply_chunk(self: Any, elements: list[Any], first: int) -> Any:
        probe: Probe = self._grain_probe
        recorder = probe.recorders.current()
        frame = recorder.open(probe.node)
        if frame[0] != probe.node:  # In a worker, no frame of its parents came before.
            recorder.received = len(elements)
        made: Any = ()
        try:
            result = method(self, elements, first)
            made = result.elements
            return result
        finally:
            counters = recorder.close(frame, len(made), WORK, probe.drops)
            if counters is not None:
                sample_size(counters, made)

    return apply_chunk


def _observing_make(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def make_iterator(self: Any, parents: Any, **options: Any) -> Any:
        iterator = method(self, parents, **options)
        observe_iterator(iterator, self._grain_probe)
        return iterator

    return make_iterator


def _observing_iter(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def __iter__(self: Any) -> Any:  # noqa: N807 - shown in tracebacks
        probe: Probe = self._grain_probe
        recorder = probe.recorders.current()
        # A node that opens workers does so in this frame, so that they are known to be its own.
        frame = recorder.open(probe.node)
        try:
            iterator = method(self)
        finally:
            recorder.close(frame)
        observe_iterator(iterator, probe)
        return iterator

    del __iter__.__wrapped__
    return __iter__


# Iterators


def observe_iterator(iterator: Any, probe: Probe) -> None:
    """Measure an iterator from now on, as the work of a node; one that is measured already stays so."""
    if not isinstance(iterator, DatasetIterator) or isinstance(iterator, DatasetNode):
        return
    if is_observed(iterator):
        return
    kind: Any = type(iterator)
    attributes: dict[str, Any] = {"_grain_probe": probe}
    if issubclass(kind, ChunkIterator) and kind._stats is NO_STATS:
        attributes["_stats"] = ObservedStats(probe)
    override(iterator, _iterator_members(kind), attributes)


def override(iterator: Any, members: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool:
    """Override methods of an iterator and add attributes; return whether that was possible.

    Args:
        iterator: The iterator.
        members: Functions of the iterator and further arguments, by the name of the method.
        attributes: The attributes by name.
    """
    try:
        for name, value in attributes.items():
            setattr(iterator, name, value)
        if "__next__" in members:
            kind: Any = type(iterator)
            iterator.__class__ = _iterator_subclass(kind, tuple(members.items()))
            return True
        reference = weakref.ref(iterator)
        for name, function in members.items():
            setattr(iterator, name, _bound(reference, function))
    except (AttributeError, TypeError):  # Slots, or a class written in C.
        return False
    return True


def _bound(reference: weakref.ref[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as a method that does not keep its object alive; the caller does."""

    def method(*arguments: Any) -> Any:
        return function(reference(), *arguments)

    return method


@functools.lru_cache(maxsize=512)
def _iterator_members(kind: Any) -> dict[str, Any]:
    """Return the methods of an iterator class that are measured."""
    members: dict[str, Any] = {"remember_dataset": _remembering(kind.remember_dataset)}
    if issubclass(kind, ChunkIterator):
        members["_pull"] = _measured_pull(kind._pull)
        return members
    members["__next__"] = _measured_next(kind.__next__)
    if kind.next_chunk is not DatasetIterator.next_chunk:
        members["next_chunk"] = _measured_pull(kind.next_chunk)
    if kind._stats is NO_STATS:
        members["_stats"] = StatsMember()
    return members


@functools.lru_cache(maxsize=512)
def _iterator_subclass(kind: Any, members: tuple[tuple[str, Any], ...]) -> Any:
    """Return a subclass of an iterator class with the same name and layout."""
    namespace = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        **dict(members),
    }
    return type(kind)(kind.__name__, (kind,), namespace)


def _remembering(method: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    @functools.wraps(method)
    def remember_dataset(self: Any, dataset: Any) -> None:
        method(
            self, getattr(dataset, "_grain_source", dataset) if is_observed(dataset) else dataset
        )

    return remember_dataset


def _measured_pull(method: Callable[[Any, int], Chunk]) -> Callable[[Any, int], Chunk]:
    def pull(self: Any, limit: int) -> Chunk:
        probe: Probe = self._grain_probe
        recorder = probe.recorders.current()
        # Read before and after: a reader may return to the consumer's thread, or start threads.
        waits = getattr(self, "computes_elsewhere", False)
        ready = self.prefetched() if waits else None
        frame = recorder.open(probe.node)
        elements: Any = ()
        try:
            chunk = method(self, limit)
            elements = chunk.elements
            return chunk
        finally:
            waits = waits or getattr(self, "computes_elsewhere", False)
            counters = recorder.close(frame, len(elements), WAIT if waits else WORK, probe.drops)
            if counters is not None:
                sample_size(counters, elements)
            if ready is not None and frame[0] != probe.node:
                counters = recorder.counters[probe.node]
                counters.queue_samples += 1
                counters.queue_filled += ready
                capacities = probe.recorders.capacities
                known = capacities.get(probe.node, 0)
                capacities[probe.node] = max(known, self.prefetch_capacity or 0, ready)

    return pull


def _measured_next(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __next__(self: Any) -> Any:  # noqa: N807 - shown in tracebacks
        probe: Probe = self._grain_probe
        recorder = probe.recorders.current()
        frame = recorder.open(probe.node)
        elements: Any = ()
        try:
            element = method(self)
            elements = (element,)
            return element
        finally:
            counters = recorder.close(frame, len(elements), WORK, probe.drops)
            if counters is not None:
                sample_size(counters, elements)

    return __next__
