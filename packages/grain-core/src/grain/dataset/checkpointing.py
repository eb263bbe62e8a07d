"""How an iterator is written to a folder: its state as readable JSON, beside it what its pipeline does.

There is one such pair of files for each process. A state alone restores as well: then there is no
description to compare with.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from grain._lazy import LazyModule

# Few nodes are fingerprinted, and none by a worker.
if TYPE_CHECKING:
    from grain.dataset.fingerprint import lines
else:
    lines = LazyModule("grain.dataset.fingerprint.lines")

# Every iterator can be saved, few are, and none by a worker.
if TYPE_CHECKING:
    import json
    import pathlib

    from grain.dataset.fingerprint import changes, lines
else:
    json = LazyModule("json")
    pathlib = LazyModule("pathlib")
    changes = LazyModule("grain.dataset.fingerprint.changes")
    lines = LazyModule("grain.dataset.fingerprint.lines")

_HEADING = "# What the pipeline of this process does; it is compared when the state is restored."


def _process() -> str:
    """This process among those that save together, as it stands in the names of files."""
    # Without JAX in this process there are no others that JAX knows of.
    jax = sys.modules.get("jax")
    return "0-of-1" if jax is None else f"{jax.process_index()}-of-{jax.process_count()}"


def state_file() -> str:
    """The name of this process's file.

    >>> state_file()
    'process_0-of-1.json'
    """
    return f"process_{_process()}.json"


def pipeline_file() -> str:
    """The name of the file that says what this process's pipeline does.

    >>> pipeline_file()
    'pipeline_0-of-1.txt'
    """
    return f"pipeline_{_process()}.txt"


def state_text(iterator: Any) -> str:
    """The state of an iterator as text."""
    state = iterator.get_state()
    return state.decode() if isinstance(state, bytes) else json.dumps(state, indent=4)


def set_state_text(iterator: Any, text: str) -> None:
    """Sets an iterator to a state that was written as text; one that does not fit leaves it as it is."""
    before = iterator.get_state()
    state = text.encode() if isinstance(before, bytes) else json.loads(text)
    try:
        iterator.set_state(state)
    except Exception as error:
        error.add_note(f"The state that was restored: {text}")
        error.add_note(f"Here a state looks like: {before!r}")
        iterator.set_state(before)
        raise


def fingerprint_of(iterator: Any) -> list[lines.Line]:
    """What the pipeline behind an iterator does; nothing for an iterator of another kind."""
    return iterator.pipeline_fingerprint() if isinstance(iterator, CheckpointMixin) else []


def pipeline_text(iterator: Any) -> str:
    """What the pipeline behind an iterator does, as the text of a file."""
    described = fingerprint_of(iterator)
    return "\n".join([_HEADING, *map(str, described), ""]) if described else ""


def write_files(folder: Any, state: str, pipeline: str) -> None:
    """Writes a state and the description that belongs to it."""
    folder = _as_path(folder)
    described = folder / pipeline_file()
    if pipeline:
        _write(described, pipeline)
    elif described.exists():
        described.unlink()
    _write(folder / state_file(), state)


def _as_path(folder: Any) -> Any:
    """A folder that may be text, or a path of another kind than Python's."""
    if hasattr(folder, "write_text"):
        return folder
    return pathlib.Path(folder)


def _write(file: Any, text: str) -> None:
    """Writes a file so that at any time all of it is there, or what was there before."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text)
    new.replace(file)


def read_files(folder: Any) -> tuple[str, str]:
    """Reads a state and the description that belongs to it, empty if there is none."""
    folder = _as_path(folder)
    file, described = folder / state_file(), folder / pipeline_file()
    if not file.exists():
        found = sorted(other.name for other in folder.glob("process_*.json"))
        raise ValueError(
            f"There is no state for this process at {file}; the folder holds "
            f"{', '.join(found) or 'none'}. It is restored with the number of processes it was saved "
            "with."
        )
    return file.read_text(), described.read_text() if described.exists() else ""


def read_any_pipeline(folder: Any) -> str:
    """The description that the first of all processes wrote, empty if there is none."""
    return next((file.read_text() for file in sorted(_as_path(folder).glob("pipeline_*.txt"))), "")


def restore_texts(
    iterator: Any, state: str, pipeline: str, allow: str | Iterable[str] = ()
) -> None:
    """Sets an iterator to a state that was saved by an equal pipeline, or one that `allow` lets differ."""
    with changes.allowing(allow):
        compare_pipelines(iterator, pipeline.splitlines())
        with mixtures_may_change():
            set_state_text(iterator, state)


def compare_pipelines(iterator: Any, saved: Sequence[str]) -> None:
    """Raises if the pipeline behind an iterator is not the one that was saved, as far as is known."""
    before = [lines.Line.parse(line) for line in saved if line and not line.startswith("#")]
    present = fingerprint_of(iterator)
    if before and present:
        changes.check_unchanged(before, present)


def mixtures_may_change() -> AbstractContextManager[None]:
    """For setting a state after `compare_pipelines`, which has spoken of mixtures already."""
    return changes.allow_changes("component", "weights")


class CheckpointMixin:
    """Saving and restoring of an iterator, in the ways that Orbax and PyTorch ask for."""

    _made_by: Any = None
    _fingerprint: list[lines.Line] | None = None

    def remember_dataset(self, dataset: Any) -> None:
        """Keep the dataset that made this iterator, for its fingerprint."""
        self._made_by = dataset

    def pipeline_fingerprint(self) -> list[lines.Line]:
        """Return the fingerprint of the pipeline that made this iterator; empty if it is unknown."""
        if self._fingerprint is None:
            self._fingerprint = self._make_fingerprint()
        return self._fingerprint

    def _make_fingerprint(self) -> list[lines.Line]:
        made_by = self._made_by
        if made_by is None and hasattr(type(self), "fingerprint"):
            made_by = self  # A dataset that is an iterator over itself.
        return [] if made_by is None else made_by.fingerprint()

    # Orbax: an object that looks after itself.

    async def save(self, directory: Any) -> Awaitable[None]:
        """Takes the state; awaiting the result writes it into `directory` once that is there."""
        state, pipeline = state_text(self), pipeline_text(self)

        async def write() -> None:
            folder = directory
            if hasattr(directory, "await_creation"):
                folder = await directory.await_creation()
            write_files(folder, state, pipeline)

        return write()

    async def load(self, directory: Any) -> Awaitable[None]:
        """Reads the state; awaiting the result sets it."""
        state, pipeline = read_files(directory)
        # Orbax hides errors of what it awaits later, and may await it in another context.
        compare_pipelines(self, pipeline.splitlines())
        allowed = changes.allowed_changes()

        async def restore() -> None:
            with changes.allowing(allowed), mixtures_may_change():
                set_state_text(self, state)

        return restore()

    # PyTorch

    def state_dict(self) -> dict[str, Any]:
        """The state, with a description of the pipeline, by the name that PyTorch uses."""
        state = self.get_state()  # type: ignore[attr-defined]
        text = state.decode() if isinstance(state, bytes) else state
        return {"state": text, "pipeline": [str(line) for line in self.pipeline_fingerprint()]}

    def load_state_dict(
        self, state_dict: Mapping[str, Any], *, allow: str | Iterable[str] = ()
    ) -> None:
        """Goes to a state that `state_dict` returned.

        Args:
          state_dict: what `state_dict` returned, here or in another process.
          allow: what may differ in the pipeline that saved it; see `grain.checkpoint.allow_changes`.
        """
        if not isinstance(state_dict, Mapping) or "state" not in state_dict:
            raise ValueError(
                f"load_state_dict needs what `state_dict()` returned, got {state_dict!r}; a value "
                "of `get_state()` is for `set_state`."
            )
        with changes.allowing(allow):
            compare_pipelines(self, state_dict.get("pipeline", ()))
            with mixtures_may_change():
                self.set_state(state_dict["state"])  # type: ignore[attr-defined]
