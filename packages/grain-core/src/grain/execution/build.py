"""Iterators of a plan: `build(plan, session)`.

Every part of a plan becomes one iterator: a fused part, a stream or offloaded functions become iterators
over calls on the session's workers, other nodes become their own iterators over those of their parents.
Iterators are made bottom up, in the thread that iterates, and nothing is submitted before the first
element is requested.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from grain.dataset.base import DatasetIterator, IterDataset, MapDataset
from grain.dataset.iter_dataset import enable_bound_nodes, find_session
from grain.dataset.node import ExecutionTrait
from grain.execution.fused_iterator import FusedIterator
from grain.execution.fused_stage import FusedStage
from grain.execution.offload import OffloadIterator
from grain.execution.plan import (
    ConsumerPlan,
    FusedPlan,
    InterleavedPlan,
    OffloadPlan,
    OpaquePlan,
    Plan,
    StreamPlan,
    plan_nested,
    plan_node,
)
from grain.execution.remote_stream import StreamIterator
from grain.execution.worker_session import WorkerSession


def build(plan: Plan, session: WorkerSession) -> DatasetIterator[Any]:
    """Return the iterator of a plan, computed by the workers of a session."""
    match plan:
        case FusedPlan():
            return FusedIterator(
                FusedStage(plan.boundary, plan.stages),
                session,
                fallback=lambda: build(plan.without_counting(), session),
            )
        case OffloadPlan():
            return OffloadIterator(build(plan.parent, session), plan.stages, session)
        case StreamPlan():
            return StreamIterator(plan.dataset, session)
        case OpaquePlan():
            return _open_opaque(plan.node, session)
        case ConsumerPlan():
            return _build_node(plan, session)
    raise TypeError(f"Cannot build {plan!r}.")


def _build_node(plan: ConsumerPlan, session: WorkerSession) -> DatasetIterator[Any]:
    node = plan.node
    inputs = _inputs(plan)
    parents = node.make_parent_iterators(lambda parent: build(inputs[id(parent)], session))
    if node.execution_trait is ExecutionTrait.TRANSPARENT:
        iterator: DatasetIterator[Any] = parents[0]
    elif isinstance(plan, InterleavedPlan):
        iterator = node.make_iterator(parents, open_dataset=_opener(session))
    else:
        iterator = node.make_iterator(parents)
    return iterator


def _inputs(plan: ConsumerPlan) -> dict[int, Plan]:
    """Return the plan of each parent by the identity of the parent."""
    return {id(parent): part for parent, part in zip(plan.node.parents, plan.inputs, strict=True)}


def _opener(session: WorkerSession) -> Callable[[Any], DatasetIterator[Any]]:
    return lambda dataset: build(plan_nested(dataset), session)


class BoundSession:
    """The session that computes a copy of a node wherever that copy is iterated.

    An opaque class opens its parents itself, so it receives copies of them that are bound to the session.
    A binding is not sent to workers: it pickles as None.
    """

    def __init__(self, session: WorkerSession):
        self._session = session

    def iterate(self, dataset: IterDataset[Any]) -> DatasetIterator[Any]:
        """Return the iterator of a dataset that reads from a bound copy."""
        return build(plan_node(dataset), self._session)

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _unbound, ()


def _unbound() -> None:
    return None


def _open_opaque(node: Any, session: WorkerSession) -> DatasetIterator[Any]:
    """Call `__iter__` of an opaque class while its parents are bound to the session.

    The node itself is iterated, so that what `__iter__` writes to `self` stays. Its attributes hold bound
    copies of the parents only during the call: none of them may outlive the session.
    """
    enable_bound_nodes()
    binding = BoundSession(session)
    attributes = vars(node)
    make = type(node).__iter__
    # Another thread may open the same node for another session, whose copies are its parents meanwhile.
    with _opening_lock(node):
        bound = {id(parent): _bound_copy(parent, binding) for parent in node.parents}
        before = dict(attributes)
        # `_parents`, and other attributes under which a class keeps its parents.
        for name, value in before.items():
            if id(value) in bound:
                attributes[name] = bound[id(value)]
            elif type(value) in (list, tuple) and any(id(item) in bound for item in value):
                attributes[name] = type(value)(bound.get(id(item), item) for item in value)
        try:
            iterator: DatasetIterator[Any] = getattr(make, "__wrapped__", make)(node)
        finally:
            for name, value in list(attributes.items()):
                if _is_bound(value, binding):
                    del attributes[name]
                    if name in before:
                        attributes[name] = before[name]
    return iterator


def _is_bound(value: Any, binding: BoundSession) -> bool:
    """Return whether an attribute is, or contains, a dataset that reads from a copy with this binding."""
    if type(value) in (list, tuple):
        return any(_is_bound(item, binding) for item in value)
    return isinstance(value, (IterDataset, MapDataset)) and find_session(value) is binding


_opening_locks: weakref.WeakValueDictionary[int, threading.RLock] = weakref.WeakValueDictionary()
_locks_lock = threading.Lock()


def _opening_lock(node: Any) -> threading.RLock:
    """Return the lock of a node: by identity, since a user's class may define equality."""
    with _locks_lock:
        return _opening_locks.setdefault(id(node), threading.RLock())


def _bound_copy(node: Any, binding: BoundSession) -> Any:
    """Return a shallow copy of a node with a binding; not `copy.copy`, which users may redefine."""
    copy = object.__new__(type(node))
    vars(copy).update(vars(node))
    for kind in type(node).__mro__:
        slots: str | Sequence[str] = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(node, name):
                setattr(copy, name, getattr(node, name))
    vars(copy)["bound_session"] = binding
    return copy
