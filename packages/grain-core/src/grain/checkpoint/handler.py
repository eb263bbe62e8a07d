"""Writes the state of an iterator to a folder as readable JSON, one file for each process."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from grain.dataset.checkpointing import (
    pipeline_text,
    read_any_pipeline,
    read_files,
    restore_texts,
    state_text,
    write_files,
)

T = TypeVar("T")


class CheckpointHandler:
    """Saves and restores any iterator that has `get_state` and `set_state`.

    It is a handler for Orbax, and works by itself too:

    >>> import grain, tempfile
    >>> iterator = iter(grain.MapDataset.range(5).to_iter_dataset())
    >>> first = next(iterator)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     CheckpointHandler().save(folder, iterator)
    ...     second = next(iterator)
    ...     restored = CheckpointHandler().restore(folder, iterator)
    ...     next(restored) == second
    True
    """

    def save(self, directory: Any, item: Any = None, args: Any = None) -> None:
        """Writes the state of an iterator, and what its pipeline does, into `directory`."""
        iterator = item if args is None else args.item
        write_files(directory, state_text(iterator), pipeline_text(iterator))

    def restore(
        self,
        directory: Any,
        item: Any = None,
        args: Any = None,
        *,
        allow: str | Iterable[str] = (),
    ) -> Any:
        """Sets an iterator to the state found in `directory`, and returns it.

        Args:
          directory: where `save` wrote to.
          item: an iterator over the pipeline that was saved.
          args: an object that has it as its attribute `item`.
          allow: what may differ in the pipeline that was saved; see `grain.checkpoint.allow_changes`.
        """
        iterator = item if args is None else args.item
        allow = getattr(args, "allow", ()) or allow
        if hasattr(iterator, "read_state"):
            # Like an ElasticIterator's: what any number of processes saved, as one state.
            state = json.dumps(iterator.read_state(directory))
            restore_texts(iterator, state, read_any_pipeline(directory), allow)
        else:
            restore_texts(iterator, *read_files(directory), allow)
        return iterator

    # What Orbax asks of a handler beyond saving and restoring.

    def structure(self, directory: Any) -> Any:
        """An iterator has no tree of arrays to describe."""
        del directory
        return None

    def metadata(self, directory: Any) -> Any | None:
        """Nothing beyond the state is kept."""
        del directory
        return None

    def finalize(self, directory: Any) -> None:
        """Nothing is left to do when all processes have saved."""
        del directory

    def close(self) -> None:
        """Nothing is held open."""

    @classmethod
    def typestr(cls) -> str:
        """The name under which Orbax notes this handler."""
        return f"{cls.__module__}.{cls.__qualname__}"
