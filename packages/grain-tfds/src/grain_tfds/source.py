"""Random access to the examples of a prepared TFDS dataset, without TensorFlow."""

from __future__ import annotations

import copy
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np
import tensorflow_datasets as tfds


class TfdsIndexError(IndexError, ValueError):
    """An index outside of the source; also a ValueError, which TFDS raises."""


class TfdsDataSource:
    """The examples of one split of a TFDS dataset in ArrayRecord form, as TFDS decodes them.

    Args:
        name: The dataset, as for `tfds.load`: `"mnist"`, `"my_data/config:1.0.0"`.
        split: The split or a slice of it: `"train"`, `"train[:10%]"`.
        data_dir: The directory of datasets; TFDS's default if not given.
        decoders: Decoders for features, such as `{"image": tfds.decode.SkipDecoding()}`.
        download: Whether to download and prepare the dataset if it does not exist.
        builder_kwargs: Arguments for the dataset's builder.
        options: Further arguments of `tfds.data_source`.

    Example:
        source = TfdsDataSource("mnist", split="train")
        dataset = grain.MapDataset.source(source).shuffle(seed=0).batch(32)
    """

    def __init__(
        self,
        name: str,
        split: Any = None,
        data_dir: Any = None,
        decoders: Any = None,
        *,
        download: bool = True,
        builder_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        try:
            self._source: Any = tfds.data_source(
                name,
                split=split,
                data_dir=data_dir,
                decoders=decoders,
                download=download,
                builder_kwargs=dict(builder_kwargs) if builder_kwargs is not None else None,
                **options,
            )
        except Exception as error:
            error.add_note(
                f"raised in TfdsDataSource({name!r}, split={split!r}, data_dir={data_dir!r}). The"
                " split must have examples, and the dataset must be prepared in ArrayRecord form in"
                " that directory, or be available for download."
            )
            raise
        if not hasattr(self._source, "dataset_info"):
            given = f"split={split!r}" if split is not None else "no split"
            raise ValueError(
                f"Expected one split of {name!r}, got {given}; {_splits(self._source)}."
            )
        if self._source_length() < 1:
            raise ValueError(
                f"The split {split!r} of {name!r} has no examples: correct its start and end."
            )
        info = self._source.dataset_info
        self._full_name = str(info.full_name)
        self._directory = str(info.data_dir)
        self._split = str(split)
        self._decoders = _kinds(decoders)
        self._length = self._source_length()
        self._sizes = {
            path: os.path.getsize(path)
            for path in sorted({i.filename for i in info.splits[split].file_instructions})
            if os.path.isfile(path)
        }

    def _source_length(self) -> int:
        try:
            return len(self._source)
        except ValueError:  # Python's error for a negative length
            return 0

    @property
    def dataset_info(self) -> Any:
        """TFDS's description of the dataset: features, splits, citation."""
        return self._source.dataset_info

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: SupportsIndex) -> Any:
        index = operator.index(index)
        self._check_index(index)
        return self._with_note(lambda: [self._source[index]])[0]

    def __getitems__(self, indices: Sequence[int] | np.ndarray) -> list[Any]:
        """Return examples in the order of `indices`, by TFDS's batched read."""
        wanted = [operator.index(index) for index in indices]
        if not wanted:
            return []
        self._check_index(min(wanted))
        self._check_index(max(wanted))
        return self._with_note(lambda: list(self._source.__getitems__(wanted)))

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self._length:
            raise TfdsIndexError(
                f"Index {index} is outside of {self._full_name}, split {self._split}, with "
                f"{self._length} examples."
            )

    def _with_note(self, read: Callable[[], list[Any]]) -> list[Any]:
        """Call `read`, and name the dataset in its errors, which name a file at best."""
        try:
            examples = read()
            if any(map(_is_empty, examples)):
                self._check_sizes()
            return examples
        except (RuntimeError, OSError) as error:
            error.add_note(
                f"raised while reading {self._full_name} in {self._directory}. A file is missing, "
                "truncated or damaged: prepare the dataset again, or copy it again."
            )
            # Otherwise TFDS would keep the failed reader even after the file was restored.
            self.close()
            raise

    def _check_sizes(self) -> None:
        """Raise an error if a file changed: records of a file truncated while open are empty."""
        for path, expected in self._sizes.items():
            size = os.path.getsize(path)
            if size != expected:
                raise RuntimeError(
                    f"{path} is {size} bytes long, but was {expected} when this source was created:"
                    " the file has changed."
                )

    def __iter__(self) -> Iterator[Any]:
        for index in range(self._length):
            yield self[index]

    def close(self) -> None:
        """Release open files; reading opens them again."""
        # TFDS has no such function, but a copy of its reader has no open file. The old reader is
        # released when no thread uses it.
        source = copy.copy(self._source)
        source.data_source = copy.copy(source.data_source)
        self._source = source

    def __enter__(self) -> TfdsDataSource:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        # Stored in checkpoints and compared on restore.
        decoders = f", decoders={self._decoders}" if self._decoders is not None else ""
        return (
            f"TfdsDataSource(name={self._full_name!r}, split={self._split!r}, "
            f"len={self._length}{decoders})"
        )


def _is_empty(example: Any) -> bool:
    return isinstance(example, Mapping) and all(value is None for value in example.values())


def _splits(source: Any) -> str:
    """Return what is known of the splits of a dataset from which none was chosen."""
    names = ", ".join(map(repr, source)) if isinstance(source, Mapping) else ""
    return f"available: {names}" if names else "its splits are known once it has been downloaded"


def _kinds(decoders: Any) -> Any:
    """Return decoders as class names, since their `repr` may contain addresses."""
    if isinstance(decoders, Mapping):
        return {key: _kinds(value) for key, value in sorted(decoders.items())}
    return None if decoders is None else type(decoders).__name__
