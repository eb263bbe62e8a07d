"""Elements picked from several map datasets: by a selection map, or as a subclass decides."""

from __future__ import annotations

import abc
import operator
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from grain import transforms
from grain._exceptions import as_failure, note_component, note_element
from grain._user_code import calls_user_code
from grain.dataset.chunk import PartialRead
from grain.dataset.combined import CombinedReader, combine, read_scattered, read_scattered_columns
from grain.dataset.map_dataset import IndexedMapDataset, MapDataset, array_of_one
from grain.dataset.node import computed_once, written_form
from grain.index.permutation import IndexArray

T = TypeVar("T")


def checked_parents(datasets: Any, kind: type | tuple[type, ...], operation: str) -> list[Any]:
    """Return the datasets of an operation, or raise an error that shows the value that is none."""
    if isinstance(datasets, (str, bytes)) or not isinstance(datasets, Sequence):
        raise TypeError(
            f"`{operation}` needs a sequence of datasets, got {type(datasets).__name__}."
        )
    if all(issubclass(found, kind) for found in set(map(type, datasets))):
        return list(datasets)
    for number, dataset in enumerate(datasets):
        if not isinstance(dataset, kind):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            raise TypeError(
                f"`{operation}` needs datasets of type {' or '.join(k.__name__ for k in kinds)}, but "
                f"item {number} is {dataset!r} of type {type(dataset).__name__}."
            )
    return list(datasets)


class ManyParentsMapDataset(IndexedMapDataset[T]):
    """A dataset whose elements are elements of several parents."""

    preserves_elements = True

    @abc.abstractmethod
    def select(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        """Return which parent each element comes from, and its index there."""

    def select_one(self, index: int) -> tuple[int, int]:
        """Return the parent that one element comes from, and its index there."""
        chosen, parent_indices = self.select(array_of_one(index))
        return int(chosen[0]), int(parent_indices[0])

    def origins(self, index: int) -> Sequence[tuple[MapDataset[Any], int]]:
        chosen, parent_index = self.select_one(index)
        return [(self._parents[chosen], parent_index)]

    @computed_once
    def _reader(self) -> CombinedReader:
        """Return the reader of all parents that `select` chooses from."""
        return combine(self._parents)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("_reader", None)
        state.pop("_text", None)
        return state

    def read_one(self, index: int) -> Any:
        chosen, parent_index = self.select_one(index)
        try:
            return self._reader.nodes[chosen].read_one(parent_index)
        except Exception as error:
            note_component(error, self.describe_component(chosen))
            raise

    def read_many(self, indices: IndexArray) -> list[Any]:
        if not indices.size:
            return []
        chosen, parent_indices = self.select(indices)
        elements = read_scattered(self._reader, chosen, parent_indices)
        if isinstance(elements, PartialRead):
            note_component(elements.error, self.describe_component(int(chosen[len(elements)])))
        return elements

    def describe_component(self, number: int) -> str:
        """Return one of the parents, for messages."""
        return f"dataset {number} of {self}"

    def read_columns(self, indices: IndexArray) -> Any:
        if not indices.size or not self.is_columnar:
            return None
        return read_scattered_columns(self._reader, *self.select(indices))

    @computed_once
    def is_columnar(self) -> bool:
        return all(parent.is_columnar and parent.is_dense for parent in self._parents)

    @computed_once
    def is_dense(self) -> bool:
        return all(parent.is_dense for parent in self._parents)

    def __str__(self) -> str:
        # One name for mixtures, selections and concatenations, as in google/grain.
        return f"MixedMapDataset[{len(self._parents)} parents]"

    def _with_selection(self, selection: str) -> str:
        lengths = list(map(len, self._parents))
        return f"MixedMapDataset(parent_lengths={lengths}, selection_map={selection})"


class SelectedMapDataset(ManyParentsMapDataset[T]):
    """Elements that a selection map picks from several datasets."""

    fingerprint_name = "select_from_datasets"

    def __init__(
        self,
        datasets: Sequence[MapDataset[T]],
        selection_map: transforms.DatasetSelectionMap,
    ):
        super().__init__(checked_parents(datasets, MapDataset, "select_from_datasets"))
        for name in ("__len__", "__getitem__"):
            if not hasattr(type(selection_map), name):
                raise TypeError(
                    "`select_from_datasets` needs a grain.transforms.DatasetSelectionMap, got "
                    f"{selection_map!r} of type {type(selection_map).__name__}."
                )
        self._selection = selection_map

    def __len__(self) -> int:
        return len(self._selection)

    def __repr__(self) -> str:
        # The text of google/grain, which states of a loader over this dataset contain.
        return self._with_selection(repr(self._selection))

    def written_call(self) -> str:
        return written_form.call("MapDataset.select_from_datasets", self._selection)

    def read_many(self, indices: IndexArray) -> list[Any]:
        if not indices.size:
            return []
        failure: Exception | None = None
        try:
            chosen, parent_indices = self.select(indices)
        except Exception:
            chosen, parent_indices, failure = self._select_until_error(indices)
        elements = read_scattered(self._reader, chosen, parent_indices)
        if failure is None or isinstance(elements, PartialRead):
            return elements
        return PartialRead(elements, failure)

    def read_one(self, index: int) -> Any:
        failure: Exception | None = None
        try:
            chosen, parent_index = self._choose(index)
        except Exception as error:
            failure = as_failure(error)
        if failure is not None:
            note_element(failure, self, index, self.describe_sources())
            raise failure
        return self._parents[chosen].read_one(parent_index)

    def read_columns(self, indices: IndexArray) -> Any:
        try:
            return super().read_columns(indices)
        except Exception:
            return None  # Reading finds the element that failed, and keeps those before it.

    @calls_user_code
    def select(self, indices: IndexArray) -> tuple[IndexArray, IndexArray]:
        # In a comprehension, not in `map`: a StopIteration would only end it, and lose the elements after.
        choices = [self._selection[index] for index in indices.tolist()]
        if set(map(type, choices)) == {tuple} and set(map(len, choices)) == {2}:
            chosen, elements = zip(*choices, strict=True)
            if set(map(type, chosen)) == set(map(type, elements)) == {int} and (
                min(chosen) >= 0 and max(chosen) < len(self._parents)
            ):
                return np.array(chosen, dtype=np.int64), np.array(elements, dtype=np.int64)
        # Numbers of other types, or an error to describe.
        both = np.array([self._choose(index) for index in indices.tolist()], dtype=np.int64)
        return both[:, 0].copy(), both[:, 1].copy()

    def _select_until_error(
        self, indices: IndexArray
    ) -> tuple[IndexArray, IndexArray, Exception | None]:
        pairs: list[tuple[int, int]] = []
        failure: Exception | None = None
        for index in indices.tolist():
            try:
                pairs.append(self._choose(index))
            except Exception as error:
                failure = as_failure(error)
                note_element(failure, self, index, self.describe_sources())
                break
        both = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return both[:, 0].copy(), both[:, 1].copy(), failure

    @calls_user_code
    def _choose(self, index: int) -> tuple[int, int]:
        choice = self._selection[index]
        try:
            dataset, element = map(operator.index, choice)
        except (TypeError, ValueError):
            raise TypeError(
                f"{type(self._selection).__name__}[{index}] must be the integers (dataset, element "
                f"of that dataset), got {choice!r}."
            ) from None
        if not 0 <= dataset < len(self._parents):
            raise IndexError(
                f"{type(self._selection).__name__}[{index}] chose dataset {dataset}, outside of "
                f"0..{len(self._parents) - 1}."
            )
        return dataset, element

    def fingerprint_arguments(self) -> dict[str, Any]:
        return {"selection_map": self._selection}
