"""Every node class has the members that the library needs, and third-party classes can write them."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import pkgutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import grain
from grain.dataset.base import (
    ChunkIterator,
    DatasetIterator,
    DatasetNode,
    ExecutionTrait,
    IndexedMapDataset,
)
from grain.dataset.chunk import END, Chunk
from grain.dataset.element_spec import ShapeDtypeStruct, get_element_spec
from grain.dataset.iterator import Transformed, state_field
from grain.dataset.stages import STAGES, StageIterDataset

from ..helpers.pipelines import with_workers

LIBRARY = (
    "grain",
    "grain_arrayrecord",
    "grain_inmemory",
    "grain_parquet",
    "grain_ray",
    "grain_tfds",
)

# Bases whose subclasses are used.
BASES = {"TransformMapDataset", "TransparentIterDataset"}
# Nodes whose elements are known only by reading them.
WITHOUT_SPEC = {
    "ColumnBatchIterDataset",
    "ElasticIterator",
    "FlatMapIterDataset",
    "FlatMapMapDataset",
    "GlobalStepsIterDataset",
    "OperationIterDataset",
    "ParquetIterDataset",
    "SampledMapDataset",
    "ShardBatchesMapDataset",
    "IterableIterDataset",
    "SequencedIterDataset",
    "SequencedIterator",
    "TFRecordIterDataset",
}
# Written as a stage, but its elements depend on those before.
IN_ORDER = {"OrderedMapIterDataset"}
# Nodes that open their parents themselves.
OPAQUE = {"ElasticIterator", "SequencedIterDataset", "SequencedIterator"}
# Subjects of conformance checks, written as users write their datasets.
SUBJECTS = "grain.testing"


def subclasses(kind: type) -> set[type]:
    found: set[type] = set()
    level = [kind]
    while level:
        level = [sub for one in level for sub in one.__subclasses__() if sub not in found]
        found.update(level)
    return {sub for sub in found if sub.__module__.partition(".")[0] in LIBRARY}


def import_everything() -> None:
    for name in LIBRARY:
        with contextlib.suppress(ModuleNotFoundError):
            package = importlib.import_module(name)
            for module in pkgutil.walk_packages(package.__path__, f"{name}."):
                if ".template" in module.name or module.name.endswith(("__main__", "orbax_args")):
                    continue
                with contextlib.suppress(ModuleNotFoundError):  # Of an optional library.
                    importlib.import_module(module.name)


import_everything()
NODES = sorted(
    (
        kind
        for kind in subclasses(DatasetNode)
        if not inspect.isabstract(kind)
        and kind.__name__ not in BASES
        and not kind.__module__.startswith(SUBJECTS)
    ),
    key=lambda kind: kind.__name__,
)
each_node = pytest.mark.parametrize("kind", NODES, ids=lambda kind: kind.__name__)
each_iter_node = pytest.mark.parametrize(
    "kind",
    [kind for kind in NODES if issubclass(kind, grain.IterDataset)],
    ids=lambda kind: kind.__name__,
)


def writes(kind: type, name: str, *bases: type) -> bool:
    """Return whether a class has its own form of a member."""
    return all(getattr(kind, name) is not getattr(base, name, None) for base in bases)


def test_the_walk_finds_the_nodes() -> None:
    assert {"MapMapDataset", "SampledMapDataset", "PlacedIterDataset"} <= {
        kind.__name__ for kind in NODES
    }


@each_node
def test_a_node_has_a_fingerprint_that_is_independent_of_its_class_name(kind: Any) -> None:
    plugin = not kind.__module__.startswith("grain.")
    assert plugin or kind.fingerprint_name is not None or writes(kind, "fingerprint", DatasetNode)
    if kind.fingerprint_name is not None:
        assert isinstance(kind.fingerprint_name, str)


@each_node
def test_a_node_infers_the_spec_of_its_elements_where_it_can_be_known(kind: Any) -> None:
    has_spec = kind.preserves_elements or writes(kind, "infer_element_spec", DatasetNode)
    assert has_spec != (kind.__name__ in WITHOUT_SPEC) or issubclass(kind, StageIterDataset)


@each_iter_node
def test_an_iter_node_makes_its_iterator_of_given_parents(kind: Any) -> None:
    opaque = kind.execution_trait is ExecutionTrait.OPAQUE
    assert opaque == (kind.__name__ in OPAQUE)
    assert opaque or writes(kind, "make_iterator", grain.IterDataset)


@each_iter_node
def test_a_stage_can_be_applied_to_chunks(kind: Any) -> None:
    stage = kind.execution_trait in STAGES
    assert stage == (issubclass(kind, StageIterDataset) and kind.__name__ not in OPAQUE | IN_ORDER)
    if kind.execution_trait is ExecutionTrait.BATCHING:
        assert writes(kind, "group_size", StageIterDataset)
    if kind.execution_trait is ExecutionTrait.ELEMENTWISE:
        assert kind.group_size == 1


@pytest.mark.parametrize(
    "kind", sorted(subclasses(DatasetIterator), key=str), ids=lambda kind: kind.__name__
)
def test_an_iterator_converts_positions_both_ways_or_not_at_all(kind: Any) -> None:
    assert writes(kind, "index_from_state", DatasetIterator) == writes(
        kind, "state_from_index", DatasetIterator
    )


# --- classes outside of the library --------------------------------------------------------------


class ScaleMap(IndexedMapDataset[Any]):
    """The map form of a third party's operation."""

    fingerprint_name = "scale"

    def __init__(self, parent: grain.MapDataset, factor: int):
        super().__init__(parent)
        self._factor = factor

    def __len__(self) -> int:
        return len(self._parent)

    def read_many(self, indices: Any) -> list[Any]:
        return [self._factor * element for element in self._parent.read_many(indices)]

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"factor": self._factor}

    def infer_element_spec(self) -> Any:
        return get_element_spec(self._parent)


class ScaleIter(StageIterDataset[Any]):
    """The iter form: a stage, which any worker computes."""

    fingerprint_name = "scale"

    def __init__(self, parent: grain.IterDataset, factor: int):
        super().__init__(parent)
        self._factor = factor

    def apply_chunk(self, elements: list[Any], first: int) -> Transformed:
        made = [self._factor * element for element in elements]
        return Transformed(made, None, len(made), None)

    def known_length(self) -> int | None:
        length: int | None = self._parent.known_length()
        return length

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"factor": self._factor}

    def infer_element_spec(self) -> Any:
        return get_element_spec(self._parent)


class NumberIter(StageIterDataset[Any]):
    """A stage whose state has a count."""

    counts_elements = True
    counter_name = "numbered"

    def apply_chunk(self, elements: list[Any], first: int) -> Transformed:
        made = [(first + offset, element) for offset, element in enumerate(elements)]
        return Transformed(made, None, len(made), None)


class SumIter(grain.IterDataset):
    """An operation that depends on order, with a state."""

    fingerprint_name = "sum"

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[Any]:
        return SumIterator(parents[0])


class SumIterator(ChunkIterator[Any]):
    def __init__(self, parent: DatasetIterator[Any]):
        super().__init__(parent)
        self._total = 0

    def _pull(self, limit: int) -> Chunk:
        chunk = self._parent.next_chunk(limit)
        if not chunk.elements:
            return END
        totals = (self._total + np.cumsum(chunk.elements)).tolist()
        self._total = totals[-1]
        return Chunk(
            totals,
            lambda offset: {"parent": chunk.state_after(offset), "total": totals[offset]},
            chunk.live,
        )

    def _live_state(self) -> Any:
        return {"parent": self._parent.get_state(), "total": self._total}

    def _restore(self, state: Any) -> None:
        self._parent.set_state(state_field(state, "parent", self))
        self._total = state_field(state, "total", self)


class Assigning(grain.MapDataset):
    """A class that happens to use names of members for its own attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.is_sparse = self.is_dense = self.is_columnar = False
        self.default_seed = 3

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: Any) -> Any:
        return index % 4


def numbers() -> grain.MapDataset:
    return grain.MapDataset.range(40)


STREAMS = {
    "map form": (lambda: ScaleMap(numbers(), 3).to_iter_dataset().batch(4), "scale(factor=3)"),
    "stage": (lambda: ScaleIter(numbers().to_iter_dataset(), 3).batch(4), "scale(factor=3)"),
    "counting stage": (lambda: NumberIter(numbers().to_iter_dataset()), "NumberIter"),
    "ordered": (lambda: ScaleIter(SumIter(numbers().to_iter_dataset()), 2), "sum()"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_class_outside_of_the_library_has_fingerprint_state_and_workers(name: str) -> None:
    make, line = STREAMS[name]
    ds = make()
    with iter(ds) as iterator:
        expected = [np.asarray(element).tolist() for element in iterator]
        assert f"operation: {line}" in iterator.state_dict()["pipeline"]
    with iter(ds) as iterator:
        next(iterator)
        saved = iterator.state_dict()
    for same in (ds, with_workers(make(), 2)):
        with iter(same) as iterator:
            iterator.load_state_dict(saved)
            assert [np.asarray(element).tolist() for element in iterator] == expected[1:]


def test_a_class_outside_of_the_library_has_a_spec_and_a_length() -> None:
    spec = ShapeDtypeStruct((), np.int64)
    assert get_element_spec(ScaleMap(numbers(), 2)) == spec
    assert get_element_spec(ScaleIter(numbers().to_iter_dataset(), 2)) == spec
    assert len(ScaleIter(numbers().to_iter_dataset(), 2)) == 40


def test_positions_pass_through_a_stage_outside_of_the_library() -> None:
    iterator = iter(NumberIter(ScaleIter(numbers().to_iter_dataset(), 2)))
    grain.experimental.set_next_index(iterator, 5)
    assert next(iterator) == (5, 10)
    assert grain.experimental.get_next_index(iterator) == 6


def test_a_class_that_writes_only_iter_is_opaque_and_keeps_its_parents() -> None:
    class Plain(grain.IterDataset):
        def __iter__(self) -> DatasetIterator[Any]:
            return self._parent.__iter__()

    class Own(ScaleIter):
        def __iter__(self) -> DatasetIterator[Any]:
            return self._parent.__iter__()

    stream = numbers().to_iter_dataset()
    assert Plain(stream).execution_trait is ExecutionTrait.OPAQUE
    assert Own(stream, 2).execution_trait is ExecutionTrait.OPAQUE
    assert ScaleIter(stream, 2).execution_trait is ExecutionTrait.ELEMENTWISE
    assert SumIter(stream).execution_trait is ExecutionTrait.ORDERED
    assert Plain(stream).parents == (stream,)


def test_a_class_that_writes_neither_form_of_iteration_cannot_be_made() -> None:
    class Nothing(grain.IterDataset):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Nothing()


def test_instances_may_assign_to_computed_members() -> None:
    ds = Assigning()
    assert list(ds.map(abs)) == [0, 1, 2, 3]
    assert ds.default_seed == 3


class _OwnStates(grain.experimental.WithOptionsIterDataset):
    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[Any]:
        return parents[0]


def test_states_are_accepted_for_certain_only_where_the_library_makes_the_iterator() -> None:
    numbers = grain.MapDataset.range(5)
    stream = numbers.to_iter_dataset()
    options = grain.experimental.DatasetOptions()
    certain = [
        numbers,
        stream,
        stream.map(str),
        stream.filter(bool).batch(2),
        grain.experimental.WithOptionsIterDataset(stream, options).seed(1),
    ]
    for dataset in certain:
        found = [dataset.accepts_state({"next_index": index}) for index in (-1, 0, 5, 6, 1.0, True)]
        assert found == [False, True, True, False, False, False]
        assert not dataset.accepts_state({"index": 0})
        iter(dataset).set_state({"next_index": 5})
    uncertain = [
        _OwnStates(stream, options),
        stream.map_with_index(lambda i, x: x),
        stream.repeat(2),
        grain.experimental.InterleaveIterDataset([stream, stream], cycle_length=2),
    ]
    for dataset in uncertain:
        assert not dataset.accepts_state({"next_index": 0})
