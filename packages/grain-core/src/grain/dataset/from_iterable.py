"""`IterDataset.from_iterable`: the elements of any iterable, with a state.

The state is the number of elements that were read. Restoring makes a new iterator and skips them, which is
exact where the iterable yields the same elements again. An iterable with `state_dict` and
`load_state_dict`, such as a streaming dataset of Hugging Face, is resumed by its own state, without reading
what came before.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, TypeVar

from grain._exceptions import add_note
from grain.dataset.chunk import END, Chunk
from grain.dataset.iter_dataset import IterDataset
from grain.dataset.iterator import ChunkIterator, DatasetIterator, state_field
from grain.dataset.node import ExecutionTrait, lines, written_form
from grain.options import checked_int, checked_type

T = TypeVar("T")


class IterableIterDataset(IterDataset[T]):
    """The elements of an iterable that can be iterated again."""

    execution_trait = ExecutionTrait.SOURCE

    def __init__(
        self, iterable: Callable[[], Iterable[T]] | Iterable[T], *, own_state: bool | None = None
    ):
        super().__init__()
        if isinstance(iterable, Iterator):
            raise TypeError(
                f"from_iterable got {iterable!r}, an iterator, which can be read only once. Pass the "
                "function that makes it, `from_iterable(read)` instead of `from_iterable(read())`, "
                "so that every epoch and every resumed run can start again."
            )
        if isinstance(iterable, (str, bytes, Mapping)):
            raise TypeError(
                f"from_iterable got {type(iterable).__name__}, whose items are characters or keys. Pass a "
                "function that opens it and yields elements; for columns use "
                "`grain.MapDataset.source(columns)`."
            )
        # A class that is iterable may be callable too.
        self._is_factory = not hasattr(type(iterable), "__iter__")
        if self._is_factory and not callable(iterable):
            raise TypeError(
                "from_iterable needs a function without arguments that returns an iterable, or an "
                f"iterable, got {iterable!r} of type {type(iterable).__name__}."
            )
        if own_state is not None:
            checked_type("own_state", own_state, bool, "a bool or None")
        self._iterable = iterable
        self._own_state = own_state

    def make_iterator(self, parents: Sequence[DatasetIterator[Any]]) -> DatasetIterator[T]:
        del parents
        return IterableDatasetIterator(self)

    def open(self) -> Any:
        """Return an iterable that no other iterator reads from."""
        if self._is_factory:
            made = self._iterable()  # type: ignore[operator]
            if not isinstance(made, Iterable):
                raise TypeError(
                    f"{self} needs a function that returns an iterable, got {made!r} of type "
                    f"{type(made).__name__} from it. A generator function has a `yield`."
                )
            return made
        # Loading a state into the user's object would move its other iterators.
        return (
            copy.deepcopy(self._iterable)
            if self.saves_own_state(self._iterable)
            else self._iterable
        )

    def saves_own_state(self, iterable: Any) -> bool:
        """Return whether an iterable is resumed by its own state."""
        has_state = hasattr(iterable, "state_dict") and hasattr(iterable, "load_state_dict")
        if self._own_state and not has_state:
            raise TypeError(
                f"from_iterable(own_state=True) needs an iterable with `state_dict` and "
                f"`load_state_dict`, got {type(iterable).__name__}."
            )
        return has_state if self._own_state is None else self._own_state

    def known_length(self) -> int | None:
        iterable = self._iterable
        return (
            len(iterable)
            if isinstance(iterable, Sequence) and isinstance(iterable, Sized)
            else None
        )

    def fingerprint(self) -> list[lines.Line]:
        return [lines.Line("source", lines.call_text("from_iterable", {"of": self._iterable}))]

    def written_call(self) -> str:
        text = written_form.value_text if self._is_factory else written_form.source_text
        return f"IterDataset.from_iterable({text(self._iterable)})"

    def __str__(self) -> str:
        name = getattr(self._iterable, "__qualname__", type(self._iterable).__qualname__)
        return f"IterableIterDataset({name})"


class IterableDatasetIterator(ChunkIterator[T]):
    """An iterator over an iterable; opened at the first element that is read."""

    def __init__(self, dataset: IterableIterDataset[T]):
        super().__init__()
        self._dataset = dataset
        self._iterable: Any = None
        self._iterator: Iterator[T] | None = None
        self._position = 0
        self._failure: Exception | None = None
        # The state of the iterable at `_position`, until it is opened.
        self._own: Any = None

    def __str__(self) -> str:
        return f"IterableDatasetIterator({self._dataset})"

    def _open(self) -> Iterator[T]:
        self._iterable = self._dataset.open()
        if self._own is not None:
            self._iterable.load_state_dict(copy.deepcopy(self._own))
        iterator: Iterator[T] = iter(self._iterable)
        if self._own is not None:
            return iterator
        skipped = sum(1 for _ in itertools.islice(iterator, self._position))
        if skipped < self._position:
            raise ValueError(
                f"The state is after {self._position} elements, but {self._dataset} has only "
                f"{skipped}: restore it with the iterable that it was saved with."
            )
        return iterator

    def _pull(self, limit: int) -> Chunk:
        if self._iterator is None:
            self._iterator = self._open()
        keeps_own_state = self._dataset.saves_own_state(self._iterable)
        elements: list[T] = []
        error: Exception | None = None
        try:
            elements.extend(
                itertools.islice(self._iterator, 1 if keeps_own_state else max(1, limit))
            )
        except Exception as raised:
            error = self._failure = raised
            place = self._position + len(elements)
            add_note(error, f"raised in {self._dataset} at element {place}.")
        else:
            if not elements and self._failure is not None:
                # A generator ends when it raises; ending here would look like the end of the data.
                error = RuntimeError(
                    f"{self._dataset} cannot continue after its error at element {self._position}: "
                    f"{type(self._failure).__name__}: {self._failure}. Catch errors inside of the "
                    "iterable to skip elements."
                )
        first = self._position
        self._position += len(elements)
        if not elements:
            made = END
        elif keeps_own_state:
            made = Chunk(elements, lambda _: self._live_state(), live=True)
        else:
            made = Chunk(elements, lambda offset: _state(first + offset + 1, None))
        return made if error is None else self._fail_after(error, made)

    def _live_state(self) -> Any:
        if self._iterator is None or not self._dataset.saves_own_state(self._iterable):
            return _state(self._position, self._own)
        own = self._iterable.state_dict()
        try:
            json.dumps(own)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"The `state_dict` of {type(self._iterable).__name__} is not JSON ({error}), as states "
                "are. Pass `own_state=False` to save the position instead."
            ) from None
        return _state(self._position, own)

    def _restore(self, state: Any) -> None:
        position = state_field(state, "position", self)
        self._position = checked_int("`position` of a state", position, least=0)
        self._own = state_field(state, "own", self)
        self._iterable = self._iterator = self._failure = None


def _state(position: int, own: Any) -> dict[str, Any]:
    return {"position": position, "own": own}
