"""A dataset whose elements are placed on devices one by one, ahead of the consumer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from grain._exceptions import add_note
from grain.dataset.base import DatasetIterator, IterDataset, MapDataset, TransparentIterDataset
from grain.dataset.chunk import END, Chunk
from grain.dataset.element_spec import get_element_spec
from grain.dataset.iterator import ChunkIterator
from grain.dataset.node import ExecutionTrait
from grain.execution.thread_prefetch import ThreadPrefetchIterDataset


class Placement(Protocol):
    """Puts elements where they belong; its `repr` says where that is."""

    def place(self, element: Any) -> Any:
        """The element on its devices."""

    def spec(self, spec: Any) -> Any:
        """What a placed element looks like, given what it looked like before."""


def require_jax(function: str) -> Any:
    """The module `jax`, or an error that says how to get it."""
    try:
        import jax
    except ImportError as error:
        raise ImportError(
            f"grain.experimental.{function} needs JAX. Install it with "
            '`pip install "grain-core[jax]>=1,<2"`.'
        ) from error
    return jax


def place_ahead(
    ds: IterDataset[Any], placement: Placement, cpu_buffer_size: int, device_buffer_size: int
) -> IterDataset[Any]:
    """Elements read ahead in host memory, placed, and kept ready where they were placed."""
    if not isinstance(ds, (IterDataset, MapDataset)):
        raise TypeError(
            f"Expected an IterDataset whose elements go to devices, got a {type(ds).__name__}. "
            "What a DataLoader reads can be read from a `MapDataset.source(...).to_iter_dataset()`."
        )
    ready = ThreadPrefetchIterDataset(ds, prefetch_buffer_size=cpu_buffer_size)
    placed = PlacedIterDataset(ready, placement)
    return ThreadPrefetchIterDataset(placed, prefetch_buffer_size=device_buffer_size)


class PlacedIterDataset(TransparentIterDataset[Any]):
    """The parent's elements, on devices.

    It is no function of elements that anybody may compute: only this process has the devices, so
    worker processes below or above it never see it.
    """

    def __init__(self, parent: IterDataset[Any], placement: Placement):
        super().__init__(parent)
        self._placement = placement

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[Any]:
        return PlacedDatasetIterator(parents[0], self._placement)

    def __str__(self) -> str:
        return f"PlacedIterDataset({self._placement!r})"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self} cannot be sent to another process, for its devices belong to this one. Put "
            "`mp_prefetch` before `device_put` or `to_mesh`, which come last."
        )

    execution_trait = ExecutionTrait.ORDERED

    def infer_element_spec(self) -> Any:
        return self._placement.spec(get_element_spec(self._parent))


class PlacedDatasetIterator(ChunkIterator[Any]):
    """Places one element at a time: whoever asks for one never fills a device with more."""

    def __init__(self, parent: DatasetIterator[Any], placement: Placement):
        super().__init__(parent)
        self._placement = placement
        self._held = END  # What is left, in host memory, of the parent's last chunk.
        self._behind: Callable[[], Any] | None = None  # The state after the last one taken of it.

    def __str__(self) -> str:
        return f"PlacedDatasetIterator({self._placement!r})"

    def _pull(self, limit: int) -> Chunk:
        del limit
        chunk, self._held, self._behind = self._held, END, None
        if not chunk.elements:
            chunk = self._parent.next_chunk(1)
        if not chunk.elements:
            return END
        element, state_after = chunk.elements[0], chunk.state_after
        self._held = chunk.rest(1)
        self._behind = lambda: state_after(0)
        try:
            placed = None if element is None else self._placement.place(element)
        except Exception as error:
            add_note(error, f"raised in {self}.")
            raise
        return Chunk([placed], state_after, chunk.live)

    def _live_state(self) -> Any:
        return self._parent.get_state() if self._behind is None else self._behind()

    def _restore(self, state: Any) -> None:
        self._held, self._behind = END, None
        self._parent.set_state(state)
