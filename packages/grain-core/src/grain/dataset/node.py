"""The members that every dataset node has: all that is known about an operation, in its own class.

A pipeline is a graph of nodes. What other parts of the library need of a node (its fingerprint, the spec
of its elements, its sources, where it can be computed) they get through the members below and never by
looking at its class, so a class outside of the library takes part by overriding the same members. Each
of them has a safe default: a class that writes none still iterates, resumes and saves checkpoints.
"""

from __future__ import annotations

import copy
import copyreg
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    SupportsIndex,
    TypeVar,
    overload,
)

import numpy as np

from grain import dataset as operations
from grain._lazy import LazyModule
from grain.dataset.element_spec import get_element_spec
from grain.dataset.entry_points import presenter
from grain.dataset.stats import NO_STATS
from grain.options import ObservationOptions

# Few nodes are fingerprinted or shown, and none by a worker.
if TYPE_CHECKING:
    import os

    from grain.dataset import written_form as written_form
    from grain.dataset.fingerprint import lines as lines
    from grain.observe.page.pipeline_page import PipelinePage
    from grain.observe.statistics import PipelineStatistics
else:
    lines = LazyModule("grain.dataset.fingerprint.lines")
    written_form = LazyModule("grain.dataset.written_form")

S = TypeVar("S")
P = ParamSpec("P")


class ExecutionTrait(enum.Enum):
    """How the elements of an iter dataset depend on those of its parents: decides where it can run."""

    SOURCE = "source"
    """Has no parents; its iterator reads elements in order, from a file for example."""
    BOUNDARY = "boundary"
    """Reads a map dataset in order: any block of indices can be computed by any worker."""
    ELEMENTWISE = "elementwise"
    """`apply_chunk` makes at most one element of each element of the parent."""
    BATCHING = "batching"
    """`apply_chunk` makes one element of each `group_size` elements of the parent."""
    ORDERED = "ordered"
    """Depends on the order of the stream; `make_iterator` computes it over iterators of its parents."""
    TRANSPARENT = "transparent"
    """Has the elements and states of its parent: `make_iterator` returns the parent's iterator."""
    INTERLEAVED = "interleaved"
    """Opens datasets that are not its parents, each of which can be computed separately."""
    OPAQUE = "opaque"
    """Has only an `__iter__`, which opens the parents itself."""


class SessionBinding(Protocol):
    """Makes iterators of nodes that read from a bound copy."""

    def iterate(self, dataset: Any) -> Any:
        """Return the iterator of an iter dataset."""


class computed(Generic[S]):  # noqa: N801 - used like `property`
    """A property that instances may assign over, as classes outside of the library may happen to do."""

    def __init__(self, compute: Callable[[Any], S]):
        self._compute = compute
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, node: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self, node: object, owner: Any = None) -> S: ...
    def __get__(self, node: Any, owner: Any = None) -> Any:
        return self if node is None else self._compute(node)


class computed_once(computed[S]):  # noqa: N801 - used like `property`
    """A computed member whose value is kept: nodes do not change."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, node: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self, node: object, owner: Any = None) -> S: ...
    def __get__(self, node: Any, owner: Any = None) -> Any:
        if node is None:
            return self
        value = node.__dict__[self._name] = self._compute(node)
        return value


_NEW_OBJECT: Any = copyreg.__newobj__  # type: ignore[attr-defined]


def _reduce_to_attributes(node: DatasetNode, protocol: SupportsIndex) -> Any:
    """Return what `pickle` makes a node of whose state is the dictionary of its attributes."""
    del protocol
    state = node.__dict__
    if "_pipeline_text" in state:
        state = {name: value for name, value in state.items() if name != "_pipeline_text"}
    return _NEW_OBJECT, (type(node),), state


# Methods that decide which iterator reads a dataset.
_MAKING_ITERATORS = frozenset(("__iter__", "make_iterator", "to_iter_dataset"))


def is_state_of_index(state: Any, length: int) -> bool:
    """Return whether a state is a position in a dataset that is read by index."""
    return (
        type(state) is dict
        and type(index := state.get("next_index")) is int
        and 0 <= index <= length
    )


class DatasetNode:
    """The common base of map and iter datasets.

    Attributes:
        own_seed: The seed that this very node holds for the operations after it, or None.
        fingerprint_name: The operation's name in a checkpoint's fingerprint. It is part of saved
            files: never change it. None describes the node by its `__str__` or its class name.
        preserves_elements: Whether its elements are elements of its first parent, and have its spec.
        is_random: Whether the order or the elements are drawn at random.
        may_end_early: Whether it may end before its parents do.
        bound_session: Set on copies of nodes that an opaque class reads from: makes the iterators of the
            copy, and of nodes above it, in worker processes.
        observation_options: Given by a node that requests that iterators of the pipeline are observed.
    """

    # Class attributes, so that subclasses may define no `__init__` or not call this one.
    _parents: tuple[Any, ...] = ()
    own_seed: int | None = None
    fingerprint_name: str | None = None
    preserves_elements: bool = False
    is_random: bool = False
    may_end_early: bool = False
    bound_session: SessionBinding | None = None
    observation_options: ObservationOptions | None = None
    _stats = NO_STATS  # Used in classes of users.

    def __init__(self, parents: Any = ()) -> None:
        if type(parents) is not tuple or parents:
            self._parents = tuple(parents) if isinstance(parents, (list, tuple)) else (parents,)

    @property
    def parents(self) -> tuple[Any, ...]:
        """The datasets this one reads from."""
        return self._parents

    @property
    def _parent(self) -> Any:
        if len(self._parents) != 1:
            raise ValueError(
                f"{type(self).__name__} has {len(self._parents)} parents; `_parent` needs one."
            )
        return self._parents[0]

    @computed
    def default_seed(self) -> int | None:
        """Derive the seed of this node from the seeds given upstream and their distances."""
        node: Any = self
        depth = 0
        # Most pipelines are chains up to the seed.
        while node.own_seed is None and len(parents := node.parents) == 1:
            node, depth = parents[0], depth + 1
        found: list[int] = []
        level: list[Any] = [node]
        while level:
            further: list[Any] = []
            for node in level:
                if node.own_seed is not None:
                    found += [node.own_seed, depth]
                else:
                    further += node.parents
            level, depth = further, depth + 1
        if not found:
            return None
        # An array of words is the same entropy as a list of numbers that fit, and much quicker to read.
        fits = min(found) >= 0 and max(found) < 2**32
        entropy: Any = np.array(found, dtype=np.uint32) if fits else found
        return int(np.random.SeedSequence(entropy).generate_state(1)[0])

    def fingerprint_arguments(self) -> Mapping[str, Any]:
        """Return the arguments that decide on the elements; None and False stand for "not given"."""
        return {}

    def fingerprint(self) -> list[lines.Line]:
        """Return the lines that describe the pipeline up to this node, sources first."""
        return lines.node_lines(self)

    def infer_element_spec(self) -> Any:
        """Return a tree like an element, with a `ShapeDtypeStruct` for each array.

        Call `grain.dataset.element_spec.get_element_spec` instead, which prefers `_element_spec` of
        a user's class.
        """
        if self.preserves_elements:
            return get_element_spec(self._parents[0])
        # Message kept from google/grain 0.2.18 (its first sentence)
        raise NotImplementedError(
            f"`element_spec` inference is not implemented for {type(self).__name__}. Give the class a "
            "method `infer_element_spec` or a property `_element_spec`."
        )

    def accepts_state(self, state: Any) -> bool:
        """Return whether a new iterator certainly accepts a state; False if only the iterator can tell.

        A class that makes its iterators itself does not inherit this method.
        """
        del state
        return False

    def describe_sources(self) -> str:
        """Return the names of the sources this node reads from, for messages."""
        if not self._parents:
            return str(self)
        return ", ".join(dict.fromkeys(parent.describe_sources() for parent in self._parents[:3]))

    def epochs(self, num_epochs: int | None = None, *, first: int = 0) -> Iterator[Self]:
        """Return one dataset for each epoch, shuffled and transformed differently.

        Iterating over a dataset again yields the same order and the same random draws. The datasets of
        this method together are what `MapDataset.repeat` yields; the first is the dataset itself.

        Args:
            num_epochs: The number of epochs; None for no end.
            first: The epoch to start with, such as the one in which a run was interrupted.

        >>> import grain
        >>> ds = grain.MapDataset.range(4).shuffle(seed=1)
        >>> [list(epoch_ds) for epoch_ds in ds.epochs(2)]
        [[1, 2, 3, 0], [0, 3, 1, 2]]
        """
        return operations.epochs.epochs(self, num_epochs, first)

    def for_epoch(self, epoch: int) -> Self:
        """Return the dataset of one epoch; the default reads the parents' epoch."""
        if not epoch:
            return self
        parents = tuple(parent.for_epoch(epoch) for parent in self._parents)
        node = copy.copy(self)
        node._parents = parents
        return node

    def written_call(self) -> str:
        """Return this operation as one would write it, without its parents; shown by `repr`."""
        if self.fingerprint_name is not None:
            return written_form.operation_call(self)
        name = type(self).__qualname__
        return f"pipe({name})" if self._parents else f"{name}()"

    def written_names(self) -> Sequence[str]:
        """Return the names of the parents, where the operation is written with a dictionary of them."""
        return ()

    def pipe(
        self, func: Callable[Concatenate[Self, P], S], /, *args: P.args, **kwargs: P.kwargs
    ) -> S:
        """Call `func(self, *args, **kwargs)`, so that a function fits into a chain of methods.

        >>> import grain
        >>> def every_second(ds):
        ...     return ds[::2]
        >>> list(grain.MapDataset.range(6).pipe(every_second))
        [0, 2, 4]
        """
        return func(self, *args, **kwargs)

    def visualize(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        samples: int = 3,
        measure: bool = True,
        max_seconds: float = 3.0,
        statistics: PipelineStatistics | None = None,
        title: str | None = None,
    ) -> PipelinePage:
        """Return a page of this pipeline: its graph, timings, bottleneck, and elements of each node.

        A notebook shows the page, `print` shows it as text, and `path` writes it as one HTML file that
        needs no network. By default the pipeline runs for some seconds to measure it.

        Args:
            path: The file to write; None writes none.
            samples: The number of elements to show of each node; they are read in this process.
            measure: Whether to run the pipeline to measure it, if `statistics` are not given.
            max_seconds: The most seconds to measure, from the first element on, and to read elements.
            statistics: The measurements to show, as `iterator.stats()` returns them.
            title: The title of the page.

        >>> import grain
        >>> page = grain.MapDataset.range(9).shuffle(seed=1).batch(4).visualize(measure=False)
        >>> print(page.text)
        ●  range(9)         9      int64
        ●  shuffle(seed=1)  9      int64
        ●  batch(4)         3      int64[?]
        <BLANKLINE>
        first elements:
           0 range(9)                          0
           1 shuffle(seed=1)                   5
           2 batch(4)                          [5 7 6 0]
        """
        page: PipelinePage = presenter().visualize(
            self,
            path,
            samples=samples,
            measure=measure,
            max_seconds=max_seconds,
            statistics=statistics,
            title=title,
        )
        return page

    def _repr_html_(self) -> str | None:
        return presenter().notebook_view(self)

    # What `pickle` does by default searches for methods that no node has; that is slow with `__getattr__`.

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        written = vars(cls)
        if "accepts_state" not in written and not _MAKING_ITERATORS.isdisjoint(written):
            cls.accepts_state = DatasetNode.accepts_state  # type: ignore[method-assign]
        if cls.__reduce_ex__ not in (DatasetNode.__reduce_ex__, _reduce_to_attributes):
            return
        by_state = cls.__reduce__ is object.__reduce__ and not hasattr(cls, "__getnewargs__")
        has_slots = any(vars(kind).get("__slots__") for kind in cls.__mro__)
        is_plain = by_state and not has_slots and cls.__getstate__ is object.__getstate__
        # One function for each case: pickling a long chain consists of these calls.
        reduce: Any = _reduce_to_attributes if is_plain else DatasetNode.__reduce_ex__
        cls.__reduce_ex__ = reduce  # type: ignore[method-assign]
        cls._pickled_by_state = by_state

    _pickled_by_state = True

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        if not self._pickled_by_state:
            return super().__reduce_ex__(protocol)
        state: Any = self.__getstate__()
        if type(state) is dict and "_pipeline_text" in state:
            state = {name: value for name, value in state.items() if name != "_pipeline_text"}
        return _NEW_OBJECT, (type(self),), state

    def __setstate__(self, state: Any) -> None:
        if type(state) is dict:
            self.__dict__.update(state)
            return
        attributes, slots = state
        self.__dict__.update(attributes or {})
        for name in slots or {}:
            setattr(self, name, slots[name])

    if not TYPE_CHECKING:  # With it, a type checker would accept every attribute.

        def __getattr__(self, name: str) -> Any:
            """Raise an error that names the kind of dataset which has the missing operation."""
            if name.startswith("__"):  # Looked up by `pickle` and `copy` for every node.
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            if advice := operations.missing_attribute.advice(type(self), name):
                raise AttributeError(
                    f"{type(self).__name__!r} object has no attribute {name!r}: {advice}",
                    name=name,
                    obj=self,
                )
            return object.__getattribute__(self, name)  # Raises the original error.

    def __str__(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        """Return the pipeline as one would write it, with lengths and element specs that are known.

        >>> import grain
        >>> grain.MapDataset.range(10).shuffle(seed=1).batch(4)
        MapDataset.range(10)  # 10 x int64
            .shuffle(seed=1)
            .batch(4)         # 3 x int64[?]
        """
        text: str | None = self.__dict__.get("_pipeline_text")
        if text is None:
            text = self.__dict__["_pipeline_text"] = written_form.pipeline_text(self)
        return text
