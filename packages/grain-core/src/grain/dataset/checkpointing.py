"""Checkpoints of iterators: the state as readable JSON, and the fingerprint of the pipeline beside it.

Each process writes one such pair of files. A state without a fingerprint restores as well: the pipelines
are then not compared.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from grain._lazy import LazyModule

# Every iterator can be saved, few are, and none by a worker process.
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


_ADVICE = "Restore an earlier checkpoint: this one was cut short or changed after it was written."
_MOST_CHARACTERS = 2000


class SavedText(NamedTuple):
    """A text of a checkpoint, and the file or the folder that it was read from."""

    text: str
    origin: Any


def _process() -> str:
    """Return the index and the number of processes, as in the names of files."""
    # Without JAX there are no other processes that save together.
    jax = sys.modules.get("jax")
    return "0-of-1" if jax is None else f"{jax.process_index()}-of-{jax.process_count()}"


def state_file() -> str:
    """Return the name of this process's state file.

    >>> state_file()
    'process_0-of-1.json'
    """
    return f"process_{_process()}.json"


def pipeline_file() -> str:
    """Return the name of this process's fingerprint file.

    >>> pipeline_file()
    'pipeline_0-of-1.txt'
    """
    return f"pipeline_{_process()}.txt"


def state_text(iterator: Any) -> str:
    """Return the state of an iterator as text."""
    state = iterator.get_state()
    return state.decode() if isinstance(state, bytes) else json.dumps(state, indent=4)


def parse_state(text: str, origin: Any) -> Any:
    """Return the state in the text of a file; raise a ValueError that names its origin if it is damaged.

    >>> parse_state('{"next_ind', "checkpoints/7")
    Traceback (most recent call last):
    ValueError: The state in checkpoints/7 is damaged: Unterminated string starting at: line 1 column 2 \
(char 1). Restore an earlier checkpoint: this one was cut short or changed after it was written.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The state in {origin} is damaged: {error}. {_ADVICE}") from error


def read_saved(file: Any) -> SavedText:
    """Read a file of a checkpoint; raise a ValueError that names it if it has no text."""
    try:
        return SavedText(file.read_text(), file)
    except UnicodeDecodeError as error:
        raise ValueError(f"The file {file} is damaged: {error}. {_ADVICE}") from error


@contextlib.contextmanager
def naming(origin: Any) -> Iterator[None]:
    """Add the file or the folder that a state was read from to errors."""
    try:
        yield
    except Exception as error:
        error.add_note(
            f"The state was read from {origin}. Restore it with the pipeline that saved it; if that is "
            "the pipeline, the file was changed or is damaged: restore an earlier checkpoint."
        )
        raise


def set_state_text(iterator: Any, saved: SavedText) -> None:
    """Restore a state that was written as text; a state that does not fit changes nothing."""
    text, origin = saved
    before = iterator.get_state()
    state = text.encode() if isinstance(before, bytes) else parse_state(text, origin)
    try:
        with naming(origin):
            iterator.set_state(state)
    except Exception as error:
        shown = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
        error.add_note(f"The state to restore: {shown}")
        error.add_note(f"A state of this iterator: {before!r}")
        iterator.set_state(before)
        raise


def fingerprint_of(iterator: Any) -> list[lines.Line]:
    """Return the fingerprint of an iterator's pipeline; empty for an iterator of another kind."""
    return iterator.pipeline_fingerprint() if isinstance(iterator, CheckpointMixin) else []


def pipeline_text(iterator: Any) -> str:
    """Return the fingerprint of an iterator's pipeline as the text of a file."""
    fingerprint = fingerprint_of(iterator)
    return "\n".join([_HEADING, *map(str, fingerprint), ""]) if fingerprint else ""


def write_files(folder: Any, state: str, pipeline: str) -> None:
    """Write a state and the fingerprint that belongs to it."""
    folder = _as_path(folder)
    described = folder / pipeline_file()
    if pipeline:
        _write(described, pipeline)
    elif described.exists():
        described.unlink()
    _write(folder / state_file(), state)


def _as_path(folder: Any) -> Any:
    """Return a folder as a path; paths of other libraries stay as they are."""
    if hasattr(folder, "write_text"):
        return folder
    return pathlib.Path(folder)


def _write(file: Any, text: str) -> None:
    """Replace a file atomically; another process or thread may replace it at the same time."""
    new = file.with_name(f"{file.name}.{os.getpid()}-{os.urandom(4).hex()}.new")
    try:
        new.write_text(text)
        new.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def read_files(folder: Any) -> tuple[SavedText, SavedText]:
    """Read a state and the fingerprint that belongs to it, empty if there is none."""
    folder = _as_path(folder)
    file, described = folder / state_file(), folder / pipeline_file()
    if not file.exists():
        found = sorted(other.name for other in folder.glob("process_*.json"))
        raise ValueError(
            f"There is no state of this process at {file}; the folder holds "
            f"{', '.join(found) or 'none'}. Restore with the number of processes that saved it."
        )
    return read_saved(file), (
        read_saved(described) if described.exists() else SavedText("", described)
    )


def read_any_pipeline(folder: Any) -> SavedText:
    """Read the fingerprint that the first of all processes wrote, empty if there is none."""
    for file in sorted(_as_path(folder).glob("pipeline_*.txt")):
        return read_saved(file)
    return SavedText("", folder)


def restore_texts(
    iterator: Any, state: SavedText, pipeline: SavedText, allow: str | Iterable[str]
) -> None:
    """Restore a state that was saved by an equal pipeline, or by one that differs as `allow` says.

    Args:
        iterator: The iterator to set.
        state: Text of the state.
        pipeline: Text of the fingerprint.
        allow: The kinds of changes to accept.
    """
    with changes.allowing(allow):
        compare_saved_pipeline(iterator, pipeline)
        with mixtures_may_change():
            set_state_text(iterator, state)


def compare_saved_pipeline(iterator: Any, saved: SavedText) -> None:
    """Compare the fingerprint of an iterator's pipeline with that of a file, which errors name."""
    try:
        compare_pipelines(iterator, saved.text.splitlines())
    except Exception as error:
        error.add_note(
            f"The pipeline of the checkpoint was read from {saved.origin}. If that file is damaged, "
            "restore an earlier checkpoint, or delete the file: without it pipelines are not compared."
        )
        raise


def compare_pipelines(iterator: Any, saved: Sequence[str]) -> None:
    """Raise if the fingerprint of an iterator's pipeline differs from a saved one, where both exist."""
    before = [lines.Line.parse(line) for line in saved if line and not line.startswith("#")]
    present = fingerprint_of(iterator)
    if before and present:
        changes.check_unchanged(before, present)


def mixtures_may_change() -> AbstractContextManager[None]:
    """Suppress warnings about mixtures, which `compare_pipelines` has issued already."""
    return changes.allow_changes("component", "weights")


class CheckpointMixin:
    """The methods with which Orbax and PyTorch save and restore an iterator."""

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

    # Orbax: a stateful checkpointable.

    async def save(self, directory: Any) -> Awaitable[None]:
        """Take the state; awaiting the result writes it into `directory` once that exists."""
        state, pipeline = state_text(self), pipeline_text(self)

        async def write() -> None:
            folder = directory
            if hasattr(directory, "await_creation"):
                folder = await directory.await_creation()
            write_files(folder, state, pipeline)

        return write()

    async def load(self, directory: Any) -> Awaitable[None]:
        """Read the state; awaiting the result sets it."""
        state, pipeline = read_files(directory)
        # Orbax hides errors of the awaitable, and may await it in another context.
        compare_saved_pipeline(self, pipeline)
        allowed = changes.allowed_changes()

        async def restore() -> None:
            with changes.allowing(allowed), mixtures_may_change():
                set_state_text(self, state)

        return restore()

    # PyTorch

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the fingerprint of the pipeline, under the name that PyTorch uses."""
        state = self.get_state()  # type: ignore[attr-defined]
        text = state.decode() if isinstance(state, bytes) else state
        return {"state": text, "pipeline": [str(line) for line in self.pipeline_fingerprint()]}

    def load_state_dict(
        self, state_dict: Mapping[str, Any], *, allow: str | Iterable[str] = ()
    ) -> None:
        """Restore a state that `state_dict` returned.

        Args:
            state_dict: The result of `state_dict`, of this or another process.
            allow: The kinds of changes to accept; see `grain.checkpoint.allow_changes`.
        """
        if not isinstance(state_dict, Mapping) or "state" not in state_dict:
            raise ValueError(
                f"load_state_dict needs the result of `state_dict()`, got {state_dict!r}; a value "
                "of `get_state()` is for `set_state`."
            )
        with changes.allowing(allow):
            compare_pipelines(self, state_dict.get("pipeline", ()))
            with mixtures_may_change():
                self.set_state(state_dict["state"])  # type: ignore[attr-defined]
