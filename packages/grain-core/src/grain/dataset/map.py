"""Functions of one element: `map`, and `map_with_index` which also gets the element's index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, repeat
from operator import is_
from typing import TYPE_CHECKING, Any, TypeVar

from grain import transforms
from grain._exceptions import add_note, note_element, transform_name
from grain._user_code import calls_user_code
from grain.dataset.chunk import PartialRead, apply_each, stopped
from grain.dataset.combined import CombinedReader, combine
from grain.dataset.element_spec import get_element_spec
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import (
    Transformed,
)
from grain.dataset.map_dataset import IndexedMapDataset, MapDataset, array_of_one
from grain.dataset.node import computed
from grain.dataset.stages import StageIterDataset
from grain.index.permutation import IndexArray

if TYPE_CHECKING:
    from grain.dataset.transform_types import SupportsMap, SupportsMapWithIndex

T = TypeVar("T")


def has_none(elements: list[Any]) -> bool:
    """Return whether an element is None (`in` fails, since arrays compare element by element)."""
    return any(map(is_, elements, repeat(None)))


def function_of(transform: Any, kind: type, method: str, operation: str) -> Callable[..., Any]:
    """Return the function of a transformation object or a plain callable."""
    if isinstance(transform, kind):
        function: Callable[..., Any] = getattr(transform, method)
        return function
    if isinstance(transform, type) and issubclass(transform, kind):
        raise TypeError(
            f"`{operation}` needs a function or an instance of grain.transforms.{kind.__name__}, got "
            f"the class {transform.__name__} itself. Call it: `{operation}({transform.__name__}())`."
        )
    if callable(transform):
        return transform  # type: ignore[no-any-return]
    raise TypeError(
        f"`{operation}` needs a function or an instance of grain.transforms.{kind.__name__}, got "
        f"{transform!r} of type {type(transform).__name__}."
    )


def output_spec(transform: Any, input_spec: Any) -> Any:
    """Return the spec of what a transformation makes of elements, as its `output_spec` says."""
    infer = getattr(transform, "output_spec", None)
    if infer is None:
        name = transform_name(transform)
        # Message kept from google/grain 0.2.18
        raise ValueError(
            f"Cannot infer element spec for transform {name} because it does not implement "
            f"`output_spec` method. Implement `{name}.output_spec(self, input_spec: "
            "PyTree[ShapeDtypeStructProtocol]) ->  PyTree[ShapeDtypeStructProtocol]` to enable "
            "element spec inference."
        )
    return infer(input_spec)


class TransformMapDataset(IndexedMapDataset[T]):
    """A dataset that makes each element of one of the parent's; None stays None."""

    def __init__(self, parent: MapDataset[Any], transform: Any, function: Callable[..., Any]):
        super().__init__(parent)
        self._transform = transform
        self._function = function
        self._length = len(parent)

    def __len__(self) -> int:
        return self._length

    def __str__(self) -> str:
        return f"{type(self).__name__}(transform={transform_name(self._transform)})"

    def origins(self, index: int) -> Sequence[tuple[MapDataset[Any], int]]:
        return [(self._parent, index)]

    def read_many(self, indices: IndexArray) -> list[Any]:
        parent = self._parent
        elements = parent.read_many(indices)
        out: list[Any] = []
        if parent.is_dense or not has_none(elements):
            error = self._apply(indices, elements, out)
        else:
            error = self._apply_sparsely(indices, elements, out)
        if error is not None:
            note_element(error, self, int(indices[len(out)]), self.describe_sources())
            return PartialRead(out, error)
        if isinstance(elements, PartialRead):
            return PartialRead(out, elements.error)
        return out

    def read_one(self, index: int) -> Any:
        element = self._parents[0].read_one(index)
        return None if element is None else self._apply_one(index, element)

    def _apply_one(self, index: int, element: Any) -> Any:
        """Return the result of one element."""
        out: list[Any] = []
        error = self._apply(array_of_one(index), [element], out)
        if error is not None:
            note_element(error, self, index, self.describe_sources())
            raise error
        return out[0]

    def _apply(self, indices: IndexArray, elements: list[Any], out: list[Any]) -> Exception | None:
        """Append the result of each element to `out`; return the error that stopped it, if any."""
        del indices
        return apply_each(self._function, elements, out)

    def _apply_sparsely(
        self, indices: IndexArray, elements: list[Any], out: list[Any]
    ) -> Exception | None:
        offsets = [offset for offset, element in enumerate(elements) if element is not None]
        made: list[Any] = []
        error = self._apply(indices[offsets], [elements[offset] for offset in offsets], made)
        done = len(elements) if error is None else offsets[len(made)]
        out.extend(repeat(None, done))
        for offset, element in zip(offsets, made, strict=False):
            out[offset] = element
        return error

    @computed
    def is_sparse(self) -> bool:
        return bool(self._parents[0].is_sparse)

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"transform": self._transform}

    def infer_element_spec(self) -> Any:
        if self.preserves_elements:
            return super().infer_element_spec()
        return output_spec(self._transform, get_element_spec(self._parent))


class MapMapDataset(TransformMapDataset[T]):
    """A function applied to every element."""

    fingerprint_name = "map"

    def __init__(
        self, parent: MapDataset[Any], transform: SupportsMap[Any, T] | Callable[[Any], T]
    ):
        super().__init__(parent, transform, function_of(transform, transforms.Map, "map", "map"))

    @calls_user_code
    def read_one(self, index: int) -> Any:
        element = self._parents[0].read_one(index)
        if element is None:
            return None
        try:
            return self._function(element)
        except StopIteration:
            error = stopped(self._function)
        except Exception as raised:
            note_element(raised, self, index, self.describe_sources())
            raise
        note_element(error, self, index, self.describe_sources())
        raise error

    @classmethod
    def combine(cls, nodes: Sequence[MapMapDataset[Any]]) -> CombinedReader | None:
        return _CombinedMap(nodes, [node._function for node in nodes])


class _CombinedMap(CombinedReader):
    """Applies each dataset's function to the elements of its parent."""

    def __init__(self, nodes: Sequence[MapMapDataset[Any]], functions: list[Callable[[Any], Any]]):
        super().__init__(nodes)
        self._functions = functions
        self._parents = combine([node.parents[0] for node in nodes])

    @calls_user_code
    def read_many(self, chosen: IndexArray, indices: IndexArray) -> list[Any]:
        elements = self._parents.read_many(chosen, indices)
        functions = [self._functions[number] for number in chosen.tolist()]
        out: list[Any] = []
        try:
            for function, element in zip(functions, elements, strict=False):
                out.append(None if element is None else function(element))
        except Exception as raised:
            failed = len(out)
            error = stopped(functions[failed]) if isinstance(raised, StopIteration) else raised
            node = self.nodes[int(chosen[failed])]
            note_element(error, node, int(indices[failed]), node.describe_sources())
            return PartialRead(out, error)
        return PartialRead(out, elements.error) if isinstance(elements, PartialRead) else out


class MapWithIndexMapDataset(TransformMapDataset[T]):
    """A function applied to every index and element."""

    fingerprint_name = "map_with_index"

    def __init__(
        self,
        parent: MapDataset[Any],
        transform: SupportsMapWithIndex[Any, T] | Callable[[int, Any], T],
    ):
        function = function_of(
            transform, transforms.MapWithIndex, "map_with_index", "map_with_index"
        )
        super().__init__(parent, transform, function)

    def __str__(self) -> str:
        return f"{type(self).__name__}(transform={transform_name(self._function)})"

    def _apply(self, indices: IndexArray, elements: list[Any], out: list[Any]) -> Exception | None:
        return _apply_indexed(self._function, indices.tolist(), elements, out)


@calls_user_code
def _apply_indexed(
    function: Callable[[int, Any], Any], indices: Any, elements: list[Any], out: list[Any]
) -> Exception | None:
    try:
        out.extend(map(function, indices, elements))
    except Exception as error:
        return error
    if len(out) < len(elements):
        return stopped(function)
    return None


class TransformIterDataset(StageIterDataset[T]):
    """An iter dataset that applies a function to every element of its parent."""

    def __init__(self, parent: IterDataset[Any], transform: Any, function: Callable[..., Any]):
        super().__init__(parent)
        self._transform = transform
        self._function = function

    def __str__(self) -> str:
        return f"{type(self).__name__}(transform={transform_name(self._transform)})"

    def known_length(self) -> int | None:
        length: int | None = self._parent.known_length()
        return length

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"transform": self._transform}

    def infer_element_spec(self) -> Any:
        if self.preserves_elements:
            return super().infer_element_spec()
        return output_spec(self._transform, get_element_spec(self._parent))


class MapIterDataset(TransformIterDataset[T]):
    """A function applied to every element; None stays None unless `_skips_none` is False."""

    fingerprint_name = "map"

    _skips_none = True

    def __init__(
        self, parent: IterDataset[Any], transform: SupportsMap[Any, T] | Callable[[Any], T]
    ):
        super().__init__(parent, transform, function_of(transform, transforms.Map, "map", "map"))

    def accepts_state(self, state: Any) -> bool:
        accepted: bool = self._parent.accepts_state(state)
        return accepted

    def apply_chunk(self, elements: list[Any], first: int) -> Transformed:
        del first
        function = self._function
        out: list[Any] = []
        if self._skips_none and has_none(elements):
            error = apply_each(lambda x: None if x is None else function(x), elements, out)
        else:
            error = apply_each(function, elements, out)
        if error is not None:
            add_note(error, f"raised in {self}, over {self.describe_sources()}.")
        return Transformed(out, None, len(out), error)


class MapWithIndexIterDataset(TransformIterDataset[T]):
    """A function applied to each element and the number of elements before it."""

    fingerprint_name = "map_with_index"

    def __init__(
        self,
        parent: IterDataset[Any],
        transform: SupportsMapWithIndex[Any, T] | Callable[[int, Any], T],
    ):
        function = function_of(
            transform, transforms.MapWithIndex, "map_with_index", "map_with_index"
        )
        super().__init__(parent, transform, function)

    counts_elements = True
    counter_name = "counter"

    def apply_chunk(self, elements: list[Any], first: int) -> Transformed:
        function = self._function
        out: list[Any] = []

        def skip_none(index: int, element: Any) -> Any:
            return None if element is None else function(index, element)

        chosen = skip_none if has_none(elements) else function
        error = _apply_indexed(chosen, count(first), elements, out)
        if error is not None:
            note_element(error, self, first + len(out), self.describe_sources())
        return Transformed(out, None, len(out), error)
