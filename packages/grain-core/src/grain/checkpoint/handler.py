"""Checkpoint handler that stores iterator states as readable JSON, one file per process."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from grain.dataset.checkpointing import (
    SavedText,
    pipeline_text,
    read_any_pipeline,
    read_files,
    restore_texts,
    state_text,
    write_files,
)

T = TypeVar("T")


class CheckpointHandler:
    """Handler that saves and restores any iterator with `get_state` and `set_state`.

    Orbax can use it, and it works without Orbax:

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
        """Write the state of an iterator and the fingerprint of its pipeline into `directory`."""
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
        """Set an iterator to the state found in `directory`, and return it.

        Args:
            directory: The folder that `save` wrote to.
            item: An iterator over the saved pipeline.
            args: An object whose attribute `item` is the iterator.
            allow: What may differ in the saved pipeline; see `grain.checkpoint.allow_changes`.
        """
        iterator = item if args is None else args.item
        allow = getattr(args, "allow", ()) or allow
        if hasattr(iterator, "read_state"):
            # An ElasticIterator combines what any number of processes saved.
            state = SavedText(json.dumps(iterator.read_state(directory)), directory)
            restore_texts(iterator, state, read_any_pipeline(directory), allow)
        else:
            restore_texts(iterator, *read_files(directory), allow)
        return iterator

    # The rest of Orbax's handler interface.

    def structure(self, directory: Any) -> Any:
        """Return None: an iterator has no tree of arrays."""
        del directory
        return None

    def metadata(self, directory: Any) -> Any | None:
        """Return None: only the state is stored."""
        del directory
        return None

    def finalize(self, directory: Any) -> None:
        """Do nothing: every process has finished its own file."""
        del directory

    def close(self) -> None:
        """Do nothing: no resource is held."""

    @classmethod
    def typestr(cls) -> str:
        """Return the name under which Orbax registers this handler."""
        return f"{cls.__module__}.{cls.__qualname__}"
