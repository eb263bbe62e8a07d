"""Datasets whose elements are placed on devices one by one, ahead of the consumer."""

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
from grain.execution.thread_shutdown import DeviceCall, HostCall

_DEVICE_CALL = DeviceCall()
_HOST_CALL = HostCall()


class Placement(Protocol):
    """Moves elements to devices; its `repr` names the destination."""

    def place(self, element: Any) -> Any:
        """Return the element on its devices."""

    def spec(self, spec: Any) -> Any:
        """Return the spec of placed elements, given the spec of the elements."""


def require_jax(function: str) -> Any:
    """Return the module `jax`, or raise an error that says how to install it."""
    try:
        import jax
    except ImportError as error:
        raise ImportError(
            f"grain.experimental.{function} needs JAX. Install it with `pip install jax`."
        ) from error
    return jax


def place_ahead(
    ds: IterDataset[Any], placement: Placement, cpu_buffer_size: int, device_buffer_size: int
) -> IterDataset[Any]:
    """Return a dataset that prefetches in host memory, places elements, and prefetches on the devices."""
    if not isinstance(ds, (IterDataset, MapDataset)):
        raise TypeError(
            f"Expected an IterDataset whose elements are placed on devices, got a {type(ds).__name__}. "
            "Instead of a DataLoader, use `MapDataset.source(...).to_iter_dataset()`."
        )
    ready = ThreadPrefetchIterDataset(ds, prefetch_buffer_size=cpu_buffer_size)
    placed = PlacedIterDataset(ready, placement)
    return ThreadPrefetchIterDataset(placed, prefetch_buffer_size=device_buffer_size)


class PlacedIterDataset(TransparentIterDataset[Any]):
    """The parent's elements, on devices.

    Only this process has the devices, so the node is ordered and never sent to workers.
    """

    def __init__(self, parent: IterDataset[Any], placement: Placement):
        super().__init__(parent)
        self._placement = placement

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[Any]:
        return PlacedDatasetIterator(parents[0], self._placement)

    def __str__(self) -> str:
        return f"PlacedIterDataset({self._placement!r})"

    def written_call(self) -> str:
        return repr(self._placement)

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self} cannot be sent to another process, because its devices belong to this one. Call "
            "`mp_prefetch` before `device_put` or `to_mesh`, which come last."
        )

    execution_trait = ExecutionTrait.ORDERED

    def infer_element_spec(self) -> Any:
        return self._placement.spec(get_element_spec(self._parent))


class PlacedDatasetIterator(ChunkIterator[Any]):
    """Places one element at a time, so that requesting one never fills a device with more."""

    def __init__(self, parent: DatasetIterator[Any], placement: Placement):
        super().__init__(parent)
        self._placement = placement
        self._held = END  # Rest of the parent's last chunk, in host memory.
        self._snapshot: Callable[[], Any] | None = (
            None  # State function after its last taken element.
        )

    def __str__(self) -> str:
        return f"PlacedDatasetIterator({self._placement!r})"

    def _pull(self, limit: int) -> Chunk:
        del limit
        chunk, self._held, self._snapshot = self._held, END, None
        if not chunk.elements:
            with _HOST_CALL:
                chunk = self._parent.next_chunk(1)
        if not chunk.elements:
            return END
        element, state_after = chunk.elements[0], chunk.state_after
        self._held = chunk.rest(1)
        self._snapshot = lambda: state_after(0)
        try:
            with _DEVICE_CALL:
                placed = None if element is None else self._placement.place(element)
        except Exception as error:
            add_note(error, f"raised in {self}.")
            raise
        return Chunk([placed], state_after, chunk.live)

    def _live_state(self) -> Any:
        return self._parent.get_state() if self._snapshot is None else self._snapshot()

    def _restore(self, state: Any) -> None:
        self._held, self._snapshot = END, None
        self._parent.restore_as_parent(state)
