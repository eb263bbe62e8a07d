"""`observe`: a request to measure the iterators of a pipeline."""

from __future__ import annotations

from typing import TypeVar

from grain.dataset.entry_points import observation
from grain.dataset.iter_dataset import IterDataset, TransparentIterDataset
from grain.dataset.node import ExecutionTrait
from grain.options import ObservationOptions, checked_type

T = TypeVar("T")


class ObserveIterDataset(TransparentIterDataset[T]):
    """The parent's elements; iterators of this dataset, and of those that read from it, are observed."""

    def __init__(self, parent: IterDataset[T], *, name: str | None, trace: bool):
        super().__init__(parent)
        if name is not None:
            checked_type("name", name, str, "a text")
        self.observation_options = ObservationOptions(name=name, trace=bool(trace))
        observation().enable()

    execution_trait = ExecutionTrait.TRANSPARENT

    def written_call(self) -> str:
        options = self.observation_options
        assert options is not None
        name = None if options.name is None else f"name={options.name!r}"
        return (
            f"observe({', '.join(filter(None, (name, 'trace=True' if options.trace else None)))})"
        )

    def __str__(self) -> str:
        return "ObserveIterDataset"
